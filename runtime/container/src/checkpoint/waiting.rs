//! A restored container that waits for `start`.

use cgroup::{Cgroup, Location};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::getpid;
use sys::Context;
use sys::clone::Child;

use crate::directory::{START, listen_in, socket_for};
use crate::{Error, record};

const SIGCONT: i32 = 18;

/// Lets a process in the container's cgroup wait in place of init, which is stopped as the other processes are. `start`
/// makes all of them go on. As init would, the process freezes with the cgroup and ends with init.
pub(super) fn begin(
    directory: &OwnedFd,
    init: &Child,
    cgroup: Option<&Cgroup>,
    location: Option<&Location>,
) -> Result<(), Error> {
    let (Some(cgroup), Some(location)) = (cgroup, location) else {
        return Err(Error::text("a restored container without a cgroup cannot wait for start"));
    };
    let place = record::to_bytes(location)?;
    let socket = socket_for(START)?;
    listen_in(directory.as_fd(), &socket, START, 8)?;
    let waiter = fcntl_dupfd_cloexec(&init.pidfd, 3)
        .and_then(|init| launch::wait_in_place(socket, init, &place, go_on))
        .context("clone3", "process that waits for start")?;
    Ok(cgroup.add(waiter.pid.as_raw_pid())?)
}

/// Lets all processes of the cgroup go on but this one.
fn go_on(place: &[u8]) {
    let Ok(location) = postcard::from_bytes::<Location>(place) else { return };
    let pids = Cgroup::open(&location).and_then(|cgroup| cgroup.all_pids());
    for pid in pids.unwrap_or_default() {
        if pid != getpid() {
            let _ = sys::signal::send_to(pid, SIGCONT);
        }
    }
}
