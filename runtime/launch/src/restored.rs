//! A process that waits for `start` in place of a restored init: criu leaves the container's processes stopped, so that
//! init cannot listen itself.

use alloc::vec;

use init::channel::{self, Word};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::setsid;
use rustix::thread::set_name;
use sys::clone::Child;
use sys::errand::leave;

/// Creates the process. It listens on `listener`, and calls `go` with `data` when `start` has sent its message. It exits
/// then, or when init, whose pidfd is `init`, exits. `go` captures nothing, since the process keeps no other descriptors.
///
/// # Errors
/// Those of clone3(2), openat(2) and pipe2(2).
pub fn wait_in_place(
    listener: OwnedFd,
    init: OwnedFd,
    data: &[u8],
    go: impl FnOnce(&[u8]),
) -> Result<Child, Errno> {
    let (closed, open) = pipe_with(PipeFlags::CLOEXEC)?;
    let child = leave(None, vec![listener, init, open], data, |data, fds| {
        if let Ok([listener, init, open]) = <[OwnedFd; 3]>::try_from(fds) {
            drop(open);
            if let Ok(Some(starter)) = await_start(&listener, &init) {
                go(data);
                // The end of the connection says that the program runs.
                drop(starter);
            }
        }
        0
    })?;
    // The end of the pipe: the container's lock is closed there.
    while rustix::io::read(&closed, &mut [0]) == Err(Errno::INTR) {}
    Ok(child)
}

/// Returns the connection of `start`, or `None` if init has exited.
fn await_start(listener: &OwnedFd, init: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    set_name(c"dayfly: waits")?;
    // The caller's session is not this process's.
    let _ = setsid();
    loop {
        let mut fds = [listener, init].map(|fd| PollFd::new(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        let [_, exited] = fds;
        if !exited.revents().is_empty() {
            return Ok(None);
        }
        let starter = match accept_with(listener, SocketFlags::CLOEXEC) {
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            result => result?,
        };
        // As init does: `state` connects without a message, and a killed `start` starts nothing.
        if channel::expect(&starter, Word::Start).is_ok() && channel::is_open(&starter) {
            let _ = shutdown(listener, Shutdown::Both);
            return Ok(Some(starter));
        }
    }
}
