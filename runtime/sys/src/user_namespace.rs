//! User namespaces without processes. Their id mappings are used for id-mapped mounts (mount_setattr(2)).

use alloc_crate::format;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::clone::{Child, CloneFlags, clone3_shared};
use crate::member::{Ends, stay};
use crate::stack::Stack;
use crate::{Context, Error};

/// The object named in errors.
const OBJECT: &str = "user namespace of a mount";
/// __WALL of waitid(2), needed because the exit of the namespace's process sends no signal.
const ALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// Returns whether this process is in a user namespace other than the initial one, so that its root user is not the
/// host's.
#[must_use]
pub fn is_nested() -> bool {
    let map = crate::fs::read_text("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && !map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns whether the group `gid` is mapped in this process's user namespace.
#[must_use]
pub fn has_group(gid: u32) -> bool {
    let map = crate::fs::read_text("/proc/self/gid_map").unwrap_or_default();
    has_id(&map, gid)
}

/// Returns whether `map`, the text of a uid_map or gid_map, maps `id`.
fn has_id(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u32>().ok());
        let first = numbers.next().flatten();
        let count = numbers.nth(1).flatten();
        first.zip(count).is_some_and(|(first, count)| id >= first && id - first < count)
    })
}

/// Creates a user namespace with the mappings `uid_map` and `gid_map`, which have the format of the files with these
/// names (user_namespaces(7)). `proc` is the host's procfs. A child process (the member) is in the namespace while the
/// maps are written. The member has exited when this function returns. If the caller is killed, the member exits by
/// itself.
///
/// # Errors
/// Those of clone3(2) and user_namespaces(7): EINVAL if ranges overlap.
pub fn make(proc: BorrowedFd<'_>, uid_map: &str, gid_map: &str) -> Result<OwnedFd, Error> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)
        .map(|(reads, writes)| (writes, reads))
        .context("pipe", OBJECT)?;
    let ends = Ends { parent: ours.as_raw_fd(), member: theirs.as_raw_fd() };
    let stack = Stack::map().context("mmap", OBJECT)?;
    let flags = CloneFlags::NEWUSER | CloneFlags::SILENT;
    // SAFETY: the member reads `ends`, which stays valid until it has exited, and its own stack; it does not allocate.
    let member = unsafe { clone3_shared(flags, None, &stack, stay, &ends) };
    let member = member.context("clone3", OBJECT)?;
    drop(theirs);
    let made = map(proc, &member, uid_map, gid_map);
    drop(ours);
    let ended = || waitid(WaitId::PidFd(member.pidfd.as_fd()), WaitIdOptions::EXITED | ALL);
    while matches!(ended(), Err(Errno::INTR)) {}
    // SAFETY: the member has exited.
    unsafe { stack.unmap() };
    made
}

/// Writes the mappings of `member`'s user namespace, and opens the namespace.
fn map(
    proc: BorrowedFd<'_>,
    member: &Child,
    uid_map: &str,
    gid_map: &str,
) -> Result<OwnedFd, Error> {
    let pid = member.pid.as_raw_nonzero();
    for (name, text) in [("uid_map", uid_map), ("gid_map", gid_map)] {
        let path = format!("{pid}/{name}");
        crate::fs::write_at(proc, path.as_str(), text.as_bytes())
            .context("write", format!("{name} of a mount ({})", text.trim_end()))?;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(proc, format!("{pid}/ns/user").as_str(), flags, Mode::empty()).context("open", OBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;

    #[test]
    fn ids_of_a_map() {
        let map = "         0       1000          1\n         5     100000          2\n";
        let has: [bool; 5] = [0, 1, 5, 6, 7].map(|id| has_id(map, id));
        assert_eq!(has, [true, false, true, true, false]);
        assert!(has_id("0 0 4294967295\n", 5));
        assert!(!has_id("", 0));
    }

    #[test]
    fn mappings_are_taken_or_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let proc = crate::fs::open_dir(CWD, "/proc").unwrap();
        let own =
            crate::nsfs::kind(make(proc.as_fd(), "0 5000 10\n", "0 6000 10\n").unwrap().as_fd());
        assert_eq!(own, Ok(CloneFlags::NEWUSER));
        let bad = make(proc.as_fd(), "0 5000 10\n0 7000 10\n", "0 6000 10\n").unwrap_err();
        assert_eq!((bad.op, bad.errno), ("write", Errno::INVAL));
    }
}
