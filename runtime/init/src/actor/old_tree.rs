//! The host's mounts below a root that was only moved over `/` (`--no-pivot`).
//!
//! No path leads to these mounts, but the kernel considers all mounts of a mount namespace. If this namespace contains
//! a fully visible procfs, a process that creates a user namespace may mount a new procfs, without the container's
//! masks (`mount_too_revealing` in fs/namespace.c). The same is true for sysfs.
//!
//! So these mounts are unmounted, or covered if a user namespace locks them. A mount that the host's own root covers,
//! such as a /proc that an initramfs left behind, has no path and cannot be removed. Do not use `--no-pivot` on such a
//! host.

use core::ffi::CStr;

use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, read};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use sys::defence::{Defence, is_off};

use crate::failure::{Failure, Op};

/// The buffer size, for the longest possible line of mountinfo: two paths, and the options of an overlay.
const LONGEST: usize = 16 << 10;

/// Unmounts every procfs and sysfs of the old tree, or covers them if they are `locked`. Also makes
/// the tree private, so that later mounts of the host do not propagate to it. Must be called while
/// the process's root is still the old one; `proc` is the host's procfs.
// Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
#[inline(never)]
pub(super) fn hide_kernel_file_systems(proc: BorrowedFd<'_>, locked: bool) -> Result<(), Failure> {
    if is_off(Defence::OldTree) {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mountinfo = openat(proc, c"self/mountinfo", flags, Mode::empty()).op("open mountinfo")?;
    let mut buffer = [0u8; LONGEST];
    let mut length = 0;
    loop {
        let room = buffer.get_mut(length..).filter(|room| !room.is_empty());
        let room = room.ok_or(Failure::new("read mountinfo", Errno::NAMETOOLONG))?;
        let more = read(&mountinfo, room).op("read mountinfo")?;
        if more == 0 {
            return Ok(());
        }
        length += more;
        let filled = buffer.get_mut(..length).unwrap_or_default();
        let whole = filled.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (lines, _) = filled.split_at_mut(whole);
        lines.split_mut(|&byte| byte == b'\n').try_for_each(|line| hide(line, locked))?;
        buffer.copy_within(whole..length, 0);
        length -= whole;
    }
}

/// Handles one line of mountinfo. mountinfo also lists the mounts below the new root. Their paths are resolved from the
/// old root here, so they lead to other mounts or do not exist.
fn hide(line: &mut [u8], locked: bool) -> Result<(), Failure> {
    let Some((place, kind)) = parse(line) else { return Ok(()) };
    let _ = mount_change(place, MountPropagationFlags::PRIVATE);
    if !matches!(kind, Kind::Kernel) {
        return Ok(());
    }
    let (op, result) = match locked {
        false => ("umount2 old tree", unmount(place, UnmountFlags::DETACH)),
        true => {
            let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
            ("cover old tree", mount(c"dayfly", place, c"tmpfs", flags, c"size=4k,nr_inodes=2"))
        }
    };
    match result {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(Failure::new(op, errno).with(place.to_bytes())),
    }
}

enum Kind {
    Kernel,
    Other,
}

/// Returns a mount's path, with escapes decoded, and its type (proc_pid_mountinfo(5)).
fn parse(line: &mut [u8]) -> Option<(&CStr, Kind)> {
    let is_space = |byte: &u8| *byte == b' ';
    let start = line.iter().enumerate().filter(|(_, byte)| is_space(byte)).nth(3)?.0 + 1;
    let end = start + line.get(start..)?.iter().position(|byte| *byte == b' ')?;
    let rest = line.get(end..)?;
    let dash = rest.windows(3).position(|three| three == b" - ")?;
    let kind = match rest.get(dash + 3..)?.split(is_space).next()? {
        b"proc" | b"sysfs" => Kind::Kernel,
        _ => Kind::Other,
    };
    // The space after the path is replaced by the terminating NUL.
    let name = line.get_mut(start..=end)?;
    let (mut from, mut to) = (0, 0);
    while let Some(&byte) = name.get(from) {
        let escaped = match name.get(from..from + 4) {
            Some(&[b'\\', a, b, c]) => Some((a & 7) << 6 | (b & 7) << 3 | (c & 7)),
            _ => None,
        };
        *name.get_mut(to)? = escaped.unwrap_or(byte);
        from += if escaped.is_some() { 4 } else { 1 };
        to += 1;
    }
    *name.get_mut(to - 1)? = 0;
    Some((CStr::from_bytes_until_nul(name).ok()?, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo() {
        let parsed = |text: &str| {
            let mut line = text.as_bytes().to_vec();
            let (place, kind) = parse(&mut line)?;
            Some((place.to_str().unwrap().to_owned(), matches!(kind, Kind::Kernel)))
        };
        let proc = "22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw";
        assert_eq!(parsed(proc), Some(("/proc".into(), true)));
        let odd = "91 28 0:21 /x /a\\040b\\134c\\011 rw master:1 propagate_from:2 - sysfs sysfs rw";
        assert_eq!(parsed(odd), Some(("/a b\\c\t".into(), true)));
        let disk = "30 1 8:1 / / rw - ext4 /dev/sda1 rw,errors=remount-ro";
        assert_eq!(parsed(disk), Some(("/".into(), false)));
        for broken in ["", "\n", "1 2 3", "22 28 0:21 / /proc rw,nosuid"] {
            assert_eq!(parsed(broken), None, "{broken}");
        }
    }
}
