//! Checks for kernel features, without side effects. The checks make calls with invalid arguments, which fail with one
//! errno if the kernel implements the call, and with another errno if it does not.

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::clone::{Clone, CloneFlags, clone3};

/// statmount(2), Linux 6.8; the same number on every architecture.
const STATMOUNT: usize = 457;

/// Returns whether clone3(2) supports CLONE_INTO_CGROUP (Linux 5.7). The descriptor passed is not a cgroup, so no
/// process is created.
pub fn clone_into_cgroup() -> bool {
    let Ok(root) = crate::fs::open_dir(rustix::fs::CWD, c"/proc") else { return false };
    match clone3(CloneFlags::empty(), Some(root.as_fd())) {
        // If a child is created nevertheless, it exits at once.
        Ok(Clone::Child) => crate::start::exit(0),
        Ok(Clone::Parent(_)) => false,
        Err(errno) => errno == Errno::BADF,
    }
}

/// Returns whether the kernel has statmount(2), Linux 6.8.
pub fn statmount() -> bool {
    // SAFETY: a kernel that implements the call refuses the null request.
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
