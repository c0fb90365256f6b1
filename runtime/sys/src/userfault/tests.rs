//! Requests that have no effect.

use super::*;
use rustix::fd::AsFd;

#[test]
fn only_the_file_itself_is_copied() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let file = Mapped::new(&file.into()).unwrap();
    let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    assert_eq!(copy(null.as_fd(), 0, &file, file.len, 1), (0, Err(Errno::FAULT)));
    assert_eq!(copy(null.as_fd(), 0, &file, u64::MAX, 2), (0, Err(Errno::FAULT)));
    assert_eq!(copy(null.as_fd(), 0, &file, 0, 1), (0, Err(Errno::NOTTY)));
    assert!(matches!(event(null.as_fd()), Err(Errno::INVAL)));
}
