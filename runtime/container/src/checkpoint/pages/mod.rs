//! Near-warm restores: the pages that the processes accessed in the first second after an earlier restore are loaded
//! before the processes continue, and all others soon after.
//!
//! Two threads that move memory at once can lose pages: the kernel reports each move after it has been made, and two of
//! them in any order. So whoever saves the program says whether that may be (`checkpoint --record`).
//!
//! criu restores the processes without the pages of their private memory, and hands over a userfaultfd(2) of each
//! process to a *server*, which loads them (`serve.rs`). The first restore from a directory of images records which
//! pages the processes access (`touched.rs`).
//!
//! If the last userfaultfd were closed before all pages are loaded, the processes would read zeros. So a second process,
//! the *guard*, has the same descriptors. If one of the two is killed, or cannot load a page, the other one kills all
//! processes of the container before it exits. Both are in the container's cgroup, so they end with the container.
//! Commands that would stop them, or save the memory, wait until they have ended.

mod pending;
mod serve;
mod space;
#[cfg(test)]
mod tests;
mod touched;

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use cgroup::{Cgroup, Location};
use proto::messages::criu::Mappings;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    Access, AtFlags, CWD, FlockOperation, Mode, OFlags, accessat, flock, openat, unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, socketpair,
};
use rustix::process::{PidfdFlags, getpid, getppid, pidfd_open};
use sys::Context;
use sys::clone::{Child, Clone, CloneFlags, clone3};
use sys::wait::Deadline;

use super::format;
use super::images::{Directory, RECORD};
use super::stage::Stage;
use crate::{Container, Error, Unless as _, record};
use pending::Pending;
use serve::Server;

/// The socket to which criu connects, in its work directory.
const SOCKET: &str = "lazy-pages.socket";
/// The locked file in the container's directory, as long as pages are missing.
const LOCK: &str = "pages";
/// The longest time that other commands wait for the server.
const PATIENCE: Duration = Duration::from_secs(10);
/// With fewer bytes of memory, the server takes longer than it saves.
const LEAST: u64 = 4 << 20;
/// The number of tasks in the cgroup besides the container's own: guard, server, criu and its children.
const HELPERS: usize = 5;
const MADV_DONTFORK: u64 = 10;
const MADV_WIPEONFORK: u64 = 18;

/// Lets the first restore from these images make the record.
pub(super) fn ask_for_record(images: &Directory) -> Result<(), Error> {
    images.write(RECORD, b"")
}

/// Returns whether a restore from these images is faster if pages are loaded late, and can be made so: they have a record,
/// which may be empty; they say nothing of what several threads do at once; and no mapping has a property that the
/// kernel does not report at a fork. `tasks` is the limit of tasks.
pub(super) fn pays(images: &Directory, tasks: Option<i64>) -> Result<bool, Error> {
    let is_asked = accessat(&images.fd, RECORD, Access::EXISTS, AtFlags::empty()).is_ok();
    if !is_asked || !images.parents()?.is_empty() || !sys::userfault::is_supported() {
        return Ok(false);
    }
    let names = images.names()?;
    // criu has an image `core` for each thread, and one `mm` for each process.
    let count = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
    let (threads, processes) = (count("core-"), count("mm-"));
    let room = threads.saturating_add(HELPERS);
    if threads > processes
        || tasks.is_some_and(|most| usize::try_from(most).is_ok_and(|most| most < room))
    {
        return Ok(false);
    }
    for name in names.iter().filter(|name| name.starts_with("mm-")) {
        let image = images.read(name, 1 << 28)?;
        if format::messages(&image, format::MAPPINGS)
            .is_none_or(|all| all.iter().any(|one| is_forked_apart(one)))
        {
            return Ok(false);
        }
    }
    let mut bytes = 0;
    for name in names.iter().filter(|name| name.starts_with("pagemap-")) {
        let image = images.read(name, 1 << 28)?;
        match Pending::decode(&image, sys::start::page_size() as u64) {
            Some((_, pending)) => bytes += pending.len(),
            // An image of shared memory, or another one that criu itself loads.
            None => return Ok(false),
        }
    }
    Ok(bytes >= LEAST)
}

/// Returns whether a mapping is left out of a forked child, or empty there.
fn is_forked_apart(mappings: &[u8]) -> bool {
    let Ok(Mappings { list }) = Mappings::decode(mappings) else { return true };
    list.iter().any(|mapping| mapping.advice & (1 << MADV_DONTFORK | 1 << MADV_WIPEONFORK) != 0)
}

/// What is made in criu's mount namespace.
#[derive(Debug)]
pub(super) struct Late {
    /// criu's work directory, which has the socket of this restore only.
    pub work: Directory,
    listener: OwnedFd,
}

impl Late {
    /// Makes the directory, and the socket to which criu will connect.
    pub fn prepare(stage: &Stage) -> Result<Self, Error> {
        let work = stage.work()?;
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .context("socket", SOCKET)?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", work.number().unwrap_or(-1));
        let address = SocketAddrUnix::new(path.as_str()).context("bind", SOCKET)?;
        bind(&listener, &address).context("bind", SOCKET)?;
        listen(&listener, 1).context("listen", SOCKET)?;
        Ok(Self { work, listener })
    }

    /// Starts the guard and the server in the container's cgroup. `container` is the container's directory.
    pub fn serve(
        &self,
        images: &Directory,
        container: &OwnedFd,
        cgroup: &Cgroup,
        location: &Location,
    ) -> Result<Pages, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(container, LOCK, flags, Mode::from_raw_mode(0o600));
        let lock = lock.context("create", LOCK)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).context("flock", LOCK)?;
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .context("socketpair", "pages")?;
        let copy = |fd: BorrowedFd<'_>| fcntl_dupfd_cloexec(fd, 3).context("dup", "pages");
        let own = [images.fd.as_fd(), container.as_fd(), self.listener.as_fd()];
        let mut fds = own.into_iter().map(copy).collect::<Result<Vec<_>, _>>()?;
        fds.extend([lock, theirs]);
        fds.extend(cgroup.entrances(true)?);
        let data = record::to_bytes(&(&images.path, location))?;
        let work = |data: &[u8], fds: Vec<OwnedFd>| {
            let mut fds = fds.into_iter();
            let mut next = || fds.next();
            let (Some(fd), Some(container), Some(listener), Some(lock), Some(control)) =
                (next(), next(), next(), next(), next())
            else {
                return 1;
            };
            let Ok((path, location)) = postcard::from_bytes(data) else { return 1 };
            if fds.try_for_each(|entrance| sys::stdio::write_all(entrance, b"0")).is_err() {
                return 1;
            }
            let status = guard(Directory { fd, path }, listener, control, &location);
            let _ = unlinkat(container, LOCK, AtFlags::empty());
            drop(lock);
            status
        };
        let guard = sys::errand::leave(cgroup.dir_fd(), fds, &data, work);
        Ok(Pages { guard: Some(guard.context("clone", "server of pages")?), control })
    }
}

/// The server of a restore in progress. It is killed when this value is dropped, and so are the container's processes.
#[derive(Debug)]
pub(super) struct Pages {
    guard: Option<Child>,
    control: OwnedFd,
}

impl Pages {
    /// Tells the server that the memory of the processes can be filled, and that `init` is their first one.
    pub fn fetch(&self, init: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(sys::fdpass::send(&self.control, &[0], init).context("send", "server of pages")?)
    }

    /// Leaves the server to itself.
    pub fn keep(mut self) {
        self.guard = None;
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(guard) = &self.guard {
            let _ = sys::signal::send(guard.pidfd.as_fd(), 9);
            let _ = launch::wait(&guard.pidfd);
        }
    }
}

/// Starts the server, and waits for its end. Kills the container's processes if it fails. Returns an exit status.
fn guard(images: Directory, listener: OwnedFd, control: OwnedFd, location: &Location) -> i32 {
    let _ = rustix::process::chdir("/");
    // The kernel is not to choose one of the two if the container's memory is short.
    let _ = sys::fs::write_at(CWD, "/proc/self/oom_score_adj", b"-1000");
    let is_served = match clone3(CloneFlags::FILES, None) {
        Ok(Clone::Parent(server)) => {
            // The server has the same table of descriptors: these stay open until it closes them or both have ended.
            core::mem::forget((images, listener, control));
            launch::wait(&server.pidfd).is_ok_and(|status| status.exit_status() == Some(0))
        }
        Ok(Clone::Child) => {
            let served = getppid()
                .map_or(Err(Errno::SRCH), |guard| pidfd_open(guard, PidfdFlags::empty()))
                .map_err(|errno| sys::Error::new("pidfd_open", "guard", errno).into())
                .and_then(|guard| Server::new(images, listener, control, guard))
                .and_then(Server::run);
            if served.is_err() {
                end_others(location);
            }
            sys::start::exit(i32::from(served.is_err()))
        }
        Err(_) => false,
    };
    if !is_served {
        end_others(location);
    }
    i32::from(!is_served)
}

/// Kills all processes of the container but this one.
fn end_others(location: &Location) {
    let Ok(cgroup) = Cgroup::open(location) else { return };
    let deadline = Deadline::after(PATIENCE);
    while deadline.left().is_some() {
        let pids = cgroup.all_pids().unwrap_or_default();
        let mut others = pids.into_iter().filter(|pid| *pid != getpid()).peekable();
        if others.peek().is_none() {
            return;
        }
        others.for_each(|pid| {
            let _ = sys::signal::send_to(pid, 9);
        });
        let _ = cgroup.thaw_all();
        let _ = sys::wait::ready(&mut [], Deadline::after(Duration::from_millis(1)));
    }
}

/// Waits until all pages of a restored container are loaded.
///
/// # Errors
/// If this takes too long.
pub(crate) fn wait(container: &Container) -> Result<(), Error> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(&container.directory, LOCK, flags, Mode::empty()).unless(Errno::NOENT);
    match lock.context("open", LOCK)? {
        None => Ok(()),
        Some(lock) => sys::wait::lock(lock, FlockOperation::NonBlockingLockExclusive, PATIENCE)
            .map_err(|_| Error::text("the memory of the restored container is still being loaded")),
    }
}
