//! NOTIFY_SOCKET (sd_notify(3)): notifications of a container to the service manager that started the command.
//!
//! The container gets a socket of its own in place of the manager's. dayfly forwards only the
//! message READY=1, and adds MAINPID=. The container cannot control the host's service in any other
//! way. A detached command waits until the container is ready.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, chmodat, mkdirat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    recv, send, socket_with,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use spec::{InRoot, Mount, Str};
use sys::Context;

use crate::directory::{NOTIFY_DIRECTORY, NOTIFY_SOCKET, path_in};
use crate::path::absolute;
use crate::{Error, Trace};

const VARIABLE: &str = "NOTIFY_SOCKET";
/// The directory of the socket in the container.
const INSIDE: &str = "/run/notify";
/// The longest message accepted (as in runc).
const LONGEST: usize = 4096;
/// Maximum time for the manager to read a message.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// The service manager, identified by the path of its socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manager(&'static str);

impl Manager {
    /// Returns the manager named by the command's environment.
    pub fn of(env: sys::Args) -> Option<Self> {
        env.env(VARIABLE).filter(|path| !path.is_empty()).map(Self)
    }

    fn connect(self) -> Result<OwnedFd, sys::Error> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
            .context("socket", VARIABLE)?;
        let address = match self.0.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None => SocketAddrUnix::new(self.0),
        };
        address.and_then(|address| connect(&socket, &address)).context("connect", self.0)?;
        Ok(socket)
    }

    /// Waits until the container is ready, and notifies the manager. Returns once the manager has
    /// read the message, because the manager accepts messages only from processes that still exist.
    /// If the container exits before it is ready, nothing is sent.
    ///
    /// # Errors
    /// If the manager is missing.
    pub fn await_ready(
        self,
        listener: &OwnedFd,
        pid: Pid,
        pidfd: &OwnedFd,
    ) -> Result<(), sys::Error> {
        let manager = self.connect()?;
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(pidfd, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                result => result.context("poll", VARIABLE)?,
            };
            let [said, ended] = fds.map(|fd| !fd.revents().is_empty());
            if let Some(ready) = receive(listener) {
                tell(&manager, &ready, pid).context("send", self.0)?;
                return barrier(&manager).context("send", self.0);
            }
            if ended && !said {
                return Ok(());
            }
        }
    }
}

/// Returns the mount that shows the socket to the container with this id, and the variable that names it. `store` is
/// the store's path.
pub(crate) fn socket(store: &str, id: &str) -> Result<(Mount<'static>, String), Error> {
    let mount = Mount {
        destination: InRoot::known(INSIDE),
        kind: Str::new("bind"),
        source: Some(format!("{}/{id}/{NOTIFY_DIRECTORY}", absolute(store)?).into()),
        options: ["bind", "nosuid", "noexec", "nodev", "ro"].map(Str::new).into(),
        ..Mount::default()
    };
    Ok((mount, format!("{VARIABLE}={INSIDE}/notify.sock")))
}

/// Creates the directory of the container's socket with mode 0755, regardless of the umask.
pub(crate) fn make_directory(directory: BorrowedFd<'_>) -> Result<(), sys::Error> {
    let mode = Mode::from_raw_mode(0o755);
    mkdirat(directory, NOTIFY_DIRECTORY, mode)
        .and_then(|()| chmodat(directory, NOTIFY_DIRECTORY, mode, AtFlags::empty()))
        .context("mkdir", NOTIFY_DIRECTORY)
}

/// Creates the socket in the container's notify directory, accessible to every user of the container.
pub(crate) fn listen(directory: BorrowedFd<'_>, trace: &Trace) -> Result<OwnedFd, sys::Error> {
    trace.point("listen", NOTIFY_SOCKET)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
        .context("socket", NOTIFY_SOCKET)?;
    // A failed `start` may have left its socket.
    let _ = unlinkat(directory, NOTIFY_SOCKET, AtFlags::empty());
    let mode = Mode::from_raw_mode(0o777);
    SocketAddrUnix::new(path_in(directory, NOTIFY_SOCKET))
        .and_then(|address| bind(&socket, &address))
        .and_then(|()| chmodat(directory, NOTIFY_SOCKET, mode, AtFlags::empty()))
        .context("bind", NOTIFY_SOCKET)?;
    Ok(socket)
}

/// The service manager and the container's socket. A foreground `run` forwards messages from this socket to the service
/// manager.
#[derive(Debug)]
pub(crate) struct Relay {
    manager: Manager,
    /// The container's socket. It is closed once the container is ready: nothing would read it afterwards, and a full
    /// queue would block the container.
    listener: Option<OwnedFd>,
}

impl Relay {
    pub fn new(manager: Manager, listener: OwnedFd) -> Self {
        Self { manager, listener: Some(listener) }
    }

    /// Returns the descriptor to poll.
    pub fn listener(&self) -> Option<&OwnedFd> {
        self.listener.as_ref()
    }

    /// Reads pending messages, and forwards readiness to the manager. The main pid that is sent to the manager is the
    /// pid of this process, which waits for the container's exit. If the manager is missing, the container still runs.
    pub fn carry(&mut self) {
        let ready = self.listener.as_ref().and_then(receive);
        if let Some(ready) = ready {
            let pid = rustix::process::getpid();
            if let Ok(manager) = self.manager.connect() {
                let _ = tell(&manager, &ready, pid);
            }
            self.listener = None;
        }
    }
}

/// Reads messages until one reports readiness or no more are queued; returns the line that reports readiness, if any.
fn receive(listener: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = [0u8; LONGEST];
    loop {
        match recv(listener, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, length)) => {
                let message = bytes.get(..length).unwrap_or_default();
                if let Some(line) = ready_line(message) {
                    return Some(line.to_vec());
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn ready_line(message: &[u8]) -> Option<&[u8]> {
    message.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"READY="))
}

fn tell(manager: &OwnedFd, ready: &[u8], pid: Pid) -> Result<(), Errno> {
    let main = format!("MAINPID={}\n", pid.as_raw_nonzero());
    for message in [[ready, b"\n"].concat(), String::into_bytes(main)] {
        send(manager, &message, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Waits until the manager has read all messages. The last message contains the write end of a pipe, which the manager
/// closes when it has read this message (sd_notify_barrier(3)).
fn barrier(manager: &OwnedFd) -> Result<(), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    sys::fdpass::send(manager, b"BARRIER=1", write.as_fd())?;
    drop(write);
    while let Err(Errno::INTR) = poll(&mut [PollFd::new(&read, PollFlags::IN)], Some(&PATIENCE)) {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readiness_counts() {
        assert_eq!(ready_line(b"READY=1"), Some(&b"READY=1"[..]));
        assert_eq!(ready_line(b"STATUS=up\nREADY=1\nMAINPID=1\n"), Some(&b"READY=1"[..]));
        for other in [&b"STATUS=READY=1"[..], b"MAINPID=1", b"", b"\n", b"ready=1", b"XREADY=1"] {
            assert_eq!(ready_line(other), None);
        }
    }
}
