//! Requests that have no effect.

use super::*;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, open};

#[test]
fn only_the_file_itself_is_copied() {
    let open = |path| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let file = Mapped::new(&open("/proc/self/exe")).unwrap();
    let null = open("/dev/null");
    assert_eq!(copy(null.as_fd(), 0, &file, file.len, 1), (0, Err(Errno::FAULT)));
    assert_eq!(copy(null.as_fd(), 0, &file, u64::MAX, 2), (0, Err(Errno::FAULT)));
    assert_eq!(copy(null.as_fd(), 0, &file, 0, 1), (0, Err(Errno::NOTTY)));
    assert!(matches!(event(null.as_fd()), Err(Errno::INVAL)));
}
