//! What the kernel knows, asked in ways that change nothing: calls that fail at their arguments where the
//! kernel has them, and otherwise where it has not.

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::clone::{Clone, CloneFlags, clone3};

/// statmount(2), Linux 6.8; the same number on every architecture.
const STATMOUNT: usize = 457;

/// Whether a process can be born in a cgroup (CLONE_INTO_CGROUP, Linux 5.7). What is offered as a cgroup
/// is none, so that no process comes of it.
pub fn clone_into_cgroup() -> bool {
    let Ok(root) = crate::fs::open_dir(rustix::fs::CWD, c"/proc") else { return false };
    // SAFETY: should there be a child after all, it ends at once.
    match unsafe { clone3(CloneFlags::empty(), Some(root.as_fd())) } {
        Ok(Clone::Child) => crate::start::exit(0),
        Ok(Clone::Parent(_)) => false,
        Err(errno) => errno == Errno::BADF,
    }
}

/// Whether there is statmount(2), Linux 6.8.
pub fn statmount() -> bool {
    // SAFETY: no request at all, at which the kernel fails if it knows the call.
    let answer = unsafe { crate::raw::call(STATMOUNT, [0, 0, 0, 0]) };
    answer != Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_fit_the_version() {
        let uname = rustix::system::uname();
        let release = uname.release().to_str().unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(clone_into_cgroup(), version >= (5, 7));
        assert_eq!(statmount(), version >= (6, 8));
    }
}
