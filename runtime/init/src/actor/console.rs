//! The container's terminal.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, OFlags, Uid, fstat, fstatfs, makedev, minor};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use sys::defence::{Defence, is_off};

use super::mounts::attach;
use super::root::Root;
use crate::failure::{Failure, Op};

const DEVPTS_SUPER_MAGIC: i64 = 0x1cd1;

/// Opens a pseudo terminal in the container's devpts, sends the master to the console socket, and makes the slave the
/// controlling terminal on 0, 1 and 2. The slave is opened from the master itself, not by a path that the container
/// could have replaced (CVE-2025-52565).
pub(crate) fn open(
    root: &Root<'_>,
    socket: BorrowedFd<'_>,
    size: Option<Winsize>,
    uid: u32,
    bind: bool,
    carried: bool,
) -> Result<(), Failure> {
    let master = root.open(c"dev/pts/ptmx", OFlags::RDWR | OFlags::NOCTTY)?;
    verify(master.as_fd())?;
    unlockpt(&master).op("ioctl TIOCSPTLCK")?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let peer = ioctl_tiocgptpeer(&master, flags).op("ioctl TIOCGPTPEER")?;
    match rustix::fs::fchown(&peer, Some(Uid::from_raw(uid)), None) {
        // A devpts with `ro`. runc and crun ignore it, too.
        Err(Errno::ROFS) => {}
        owned => owned.op("fchown")?,
    }
    if let Some(size) = size {
        tcsetwinsize(&peer, size).op("ioctl TIOCSWINSZ")?;
    }
    if carried {
        keep_newlines(peer.as_fd()).op("ioctl TCSETS")?;
    }
    // runc sends the same name.
    sys::fdpass::send(socket, b"/dev/pts/ptmx", master.as_fd()).op("sendmsg")?;
    if bind {
        let place = root.file(c"dev/console")?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        if is_off(Defence::PtyPeer) {
            let named = root.open(name_of(&peer, &mut [0; 32])?, OFlags::PATH)?;
            attach(open_tree(&named, c"", flags).op("open_tree")?, place)?;
        } else {
            attach(open_tree(&peer, c"", flags).op("open_tree")?, place)?;
        }
    }
    rustix::process::ioctl_tiocsctty(&peer).op("ioctl TIOCSCTTY")?;
    rustix::stdio::dup2_stdin(&peer)
        .and_then(|()| rustix::stdio::dup2_stdout(&peer))
        .and_then(|()| rustix::stdio::dup2_stderr(&peer))
        .op("dup2")
}

/// Clears ONLCR: the outer terminal already translates NL to CRNL, and pipes and files must not get CRNL (runc:
/// `ClearONLCR` of containerd's console).
fn keep_newlines(terminal: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut modes = tcgetattr(terminal)?;
    modes.output_modes.remove(OutputModes::ONLCR);
    tcsetattr(terminal, OptionalActions::Now, &modes)
}

/// Verifies that the multiplexer is character device 5:2 on a devpts.
fn verify(master: BorrowedFd<'_>) -> Result<(), Failure> {
    let stat = fstat(master).op("fstat")?;
    let filesystem = fstatfs(master).op("fstatfs")?;
    let genuine = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == makedev(5, 2)
        && filesystem.f_type == DEVPTS_SUPER_MAGIC;
    if genuine { Ok(()) } else { Err(Failure::new("/dev/pts/ptmx is not a ptmx", Errno::NODEV)) }
}

/// Returns a terminal's path, computed from its number. Used only in test builds that disable a defence.
#[cold]
fn name_of(terminal: impl AsFd, buffer: &mut [u8; 32]) -> Result<&CStr, Failure> {
    let mut number = minor(fstat(terminal).op("fstat")?.st_rdev);
    let mut start = buffer.len() - 1;
    let mut put = |byte| {
        start -= 1;
        buffer[start] = byte;
    };
    loop {
        put(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    b"/dev/pts/".iter().rev().for_each(|byte| put(*byte));
    CStr::from_bytes_until_nul(&buffer[start..]).map_err(|_| Failure::new("pty", Errno::INVAL))
}
