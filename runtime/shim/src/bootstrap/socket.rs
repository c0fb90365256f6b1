//! The listening socket of a group's shim, and the decision about which process serves the socket.
//!
//! A process that checks a socket in order to replace it holds a lock (flock(2)) on the socket's directory. So a group
//! has only one shim even if several are started at once: no other process checks the path between the removal of an
//! abandoned socket and the moment when the new socket listens. The lock is held only during a few system calls that do
//! not block, and is released when its holder exits.

use alloc::format;
use core::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, fchmod, lstat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use sys::Context;
use sys::fs::open_dir;

/// The backlog of the listening socket. containerd makes one connection per container.
const BACKLOG: i32 = 128;
/// Maximum number of attempts, in case other processes create and remove the socket without the lock.
const ATTEMPTS: u32 = 8;

/// The time to wait for a process that checks a socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of [`claim`].
#[derive(Debug)]
pub enum Claim {
    /// A shim already listens at the address.
    Served,
    /// This process now listens, with this non-blocking, close-on-exec socket.
    Ours(OwnedFd),
}

/// Listens on the socket `path`, unless a process already listens on it. An abandoned socket is replaced.
///
/// # Errors
/// Those of socket(2), bind(2), connect(2), listen(2) and mkdir(2); ENAMETOOLONG for a path beyond 107 bytes.
pub fn claim(path: &str) -> Result<Claim, sys::Error> {
    let address = SocketAddrUnix::new(path).context("bind", path)?;
    let _lock = lock(directory(path))?;
    for _ in 0..ATTEMPTS {
        let socket = unix(SocketType::STREAM)?;
        // bind(2) creates the socket's file with the mode of the descriptor, less the umask.
        fchmod(&socket, Mode::from_raw_mode(0o600)).context("fchmod", path)?;
        match bind(&socket, &address) {
            Ok(()) => {
                listen(&socket, BACKLOG).context("listen", path)?;
                return Ok(Claim::Ours(socket));
            }
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(sys::Error::new("bind", path, errno)),
        }
        match connect(unix(SocketType::STREAM)?, &address) {
            // EAGAIN means that the backlog is full.
            Ok(()) | Err(Errno::AGAIN) => return Ok(Claim::Served),
            Err(Errno::CONNREFUSED) => remove(path)?,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(sys::Error::new("connect", path, errno)),
        }
    }
    Err(sys::Error::new("bind", path, Errno::ADDRINUSE))
}

/// Removes the socket `path` if no process has it open. Returns whether the path is unused now. The check connects a
/// socket of another type, so that a listening process does not notice the check.
///
/// # Errors
/// Those of socket(2) and unlink(2).
pub fn remove_abandoned(path: &str) -> Result<bool, sys::Error> {
    let address = SocketAddrUnix::new(path).context("connect", path)?;
    match lstat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Socket => {}
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(true),
        _ => return Ok(false),
    }
    let _lock = lock(directory(path))?;
    match connect(unix(SocketType::DGRAM)?, &address) {
        Err(Errno::CONNREFUSED) => remove(path).map(|()| true),
        Err(Errno::NOENT) => Ok(true),
        // EPROTOTYPE means that a process has the socket open.
        _ => Ok(false),
    }
}

/// Removes the socket `path` of `listener`, so that no more clients connect. If a client has already connected, the
/// socket stays, and the client's connection is returned. The caller must serve this connection.
///
/// # Errors
/// Those of unlink(2) and open(2).
pub fn retire(listener: impl AsFd, path: &str) -> Result<Option<OwnedFd>, sys::Error> {
    let _lock = lock(directory(path))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    if let Ok(connection) = accept_with(listener, flags) {
        return Ok(Some(connection));
    }
    remove(path).map(|()| None)
}

fn unix(kind: SocketType) -> Result<OwnedFd, sys::Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None).context("socket", "unix")
}

fn remove(path: &str) -> Result<(), sys::Error> {
    match unlink(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(sys::Error::new("unlink", path, errno)),
    }
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/')
        .map_or(".", |(directory, _)| if directory.is_empty() { "/" } else { directory })
}

/// Locks a directory until the returned descriptor is closed. Creates the directory if it is missing.
fn lock(directory: &str) -> Result<OwnedFd, sys::Error> {
    let opened = match open_dir(CWD, directory) {
        Err(Errno::NOENT) => {
            sys::fs::make_directories(directory, 0o711).map_err(|(part, errno)| {
                sys::Error::new("mkdir", format!("{part} of {directory}"), errno)
            })?;
            open_dir(CWD, directory)
        }
        result => result,
    };
    let opened = opened.context("open", directory)?;
    sys::wait::lock(&opened, FlockOperation::NonBlockingLockExclusive, PATIENCE)
        .context("flock", directory)?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    struct Directory(std::path::PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("dayfly-shim-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Self(path)
        }

        fn socket(&self) -> String {
            self.0.join("below/s").to_str().unwrap().to_string()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn one_serves() {
        let directory = Directory::new("serves");
        let path = directory.socket();
        let Claim::Ours(listener) = claim(&path).unwrap() else { panic!("served by nobody") };
        let mode = lstat(path.as_str()).unwrap().st_mode & 0o7777;
        assert_eq!(mode, 0o600);
        assert!(matches!(claim(&path).unwrap(), Claim::Served));
        assert!(!remove_abandoned(&path).unwrap());
        // The second call of `claim` has connected to the socket.
        assert!(retire(&listener, &path).unwrap().is_some());
        assert!(retire(&listener, &path).unwrap().is_none());
        assert!(lstat(path.as_str()).is_err());
        assert!(remove_abandoned(&path).unwrap());
    }

    #[test]
    fn full_backlog_counts_as_served() {
        let directory = Directory::new("full");
        let path = directory.socket();
        let Claim::Ours(_listener) = claim(&path).unwrap() else { panic!("served by nobody") };
        for _ in 0..BACKLOG + 10 {
            assert!(matches!(claim(&path).unwrap(), Claim::Served));
        }
    }

    #[test]
    fn abandoned_ones_make_room() {
        let directory = Directory::new("abandoned");
        let path = directory.socket();
        drop(claim(&path).unwrap());
        assert!(matches!(claim(&path).unwrap(), Claim::Ours(_)));
        assert!(remove_abandoned(&path).unwrap());
        assert!(lstat(path.as_str()).is_err());
        std::fs::write(&path, "").unwrap();
        assert!(!remove_abandoned(&path).unwrap());
    }

    #[test]
    fn concurrent_claims_have_one_winner() {
        let directory = Directory::new("many");
        let path = directory.socket();
        for _ in 0..20 {
            // In the first round there is no socket; in the others there is an abandoned one.
            let claims: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| claim(&path).unwrap())).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let ours = claims.iter().filter(|claim| matches!(claim, Claim::Ours(_)));
            assert_eq!(ours.count(), 1);
        }
    }

    #[test]
    fn paths_that_are_too_long() {
        let error = claim(&format!("/{}", "x".repeat(108))).unwrap_err();
        assert_eq!(error.errno, Errno::NAMETOOLONG);
    }
}
