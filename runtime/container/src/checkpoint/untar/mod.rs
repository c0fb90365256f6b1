//! tar(1) for criu, which unpacks each tmpfs of a container by `tar --gzip`: four processes for a few files, most of them
//! nodes in /dev. At a restore, the first directory of criu's PATH has this program under the name `tar`. It unpacks
//! small archives itself, and executes the other `tar` for the rest.

mod archive;
mod gzip;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::AsFd;
use rustix::fs::{CWD, OFlags, SeekFrom, openat, seek};
use sys::stdio::{stderr, stdin, stdout};

/// criu's arguments, without the directory.
const ARGUMENTS: [&CStr; 6] =
    [c"tar", c"--extract", c"--gzip", c"--no-unquote", c"--no-wildcards", c"--directory"];
/// Larger archives are unpacked by tar(1).
const MOST: usize = 1 << 20;

/// Does the work of tar(1) if criu has executed this program as such. Returns the exit status.
pub fn untar(args: sys::Args) -> Option<i32> {
    let mut words = args.iter();
    if !ARGUMENTS.into_iter().all(|word| words.next() == Some(word)) {
        return None;
    }
    let directory = words.next()?;
    Some(if unpack(directory).is_some() { 0 } else { other(args).unwrap_or(2) })
}

/// Unpacks standard input to a directory, which must be empty.
fn unpack(directory: &CStr) -> Option<()> {
    let mut file = alloc::vec![0; MOST / 16];
    let length = rustix::io::read(stdin(), &mut file).ok()?;
    let archive = gzip::decompress(file.get(..length)?, MOST)?;
    let entries = archive::entries(&archive)?;
    let root = sys::fs::open_dir(CWD, directory).ok()?;
    archive::unpack(&root, &entries).ok()
}

/// Executes the next `tar` of PATH, with standard input from its beginning.
fn other(args: sys::Args) -> Option<i32> {
    seek(stdin(), SeekFrom::Start(0)).ok()?;
    let (_, rest) = args.env("PATH")?.split_once(':')?;
    let paths = rest.split(':').map(|directory| format!("{directory}/tar"));
    let path = paths
        .into_iter()
        .find(|path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())?;
    let (argv, envp): (Vec<_>, Vec<_>) = (args.iter().collect(), args.environment().collect());
    let null =
        openat(CWD, "/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let child = sys::spawn::spawn(&sys::spawn::Program {
        path: &super::c_string(&path).ok()?,
        argv: &argv,
        envp: &envp,
        fds: &[stdin(), stdout(), stderr()],
        own_group: false,
        blocked: sys::signal::SignalSet::EMPTY,
        into: None,
        entrances: &[],
        trouble: null.ok()?.as_fd(),
    });
    launch::wait(&child.ok()?.pidfd).ok()?.exit_status()
}
