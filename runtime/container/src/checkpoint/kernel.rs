//! What criu has found out about the kernel, for hosts on which `/run` is no tmpfs.
//!
//! criu examines the kernel when it starts, which takes longer than the restore of a small container. It keeps the
//! results in `/run/criu.kdat`, but only on a tmpfs, because the next kernel needs new ones. On other hosts, the file is
//! kept in the tmpfs of dayfly's cache, and mounted at its place in the mount namespace that criu gets. criu checks
//! whether the file was written by the same version of criu.

use alloc::format;
use alloc::string::String;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, renameat, stat, statfs, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use rustix::process::geteuid;
use sys::Context;
use sys::clone::CloneFlags;

use super::program::find;
use super::session::Session;
use crate::Error;
use crate::cache::{self, Cache, DEFAULT_PATH, MOUNTS};

/// The directory in which criu keeps its results, and their file.
const DIRECTORY: &str = "/run";
const FILE: &str = "/run/criu.kdat";
/// The cache keeps the results of so many versions of criu.
const MOST: usize = 4;
/// The type of a tmpfs (linux/magic.h).
const TMPFS: u32 = 0x0102_1994;

/// The file of criu's results in the cache.
#[derive(Debug)]
pub(super) struct Examined(String);

impl Examined {
    /// Returns the file, and makes it if it is missing: criu then examines the kernel once more. Returns `None` if `/run`
    /// is a tmpfs, or if the file cannot be made; criu is then slower, but works.
    pub fn prepare(env: sys::Args) -> Option<Self> {
        if sys::fs::magic(&statfs(DIRECTORY).ok()?) == TMPFS {
            return None;
        }
        let program = stat(find(env).ok()?.as_c_str()).ok()?;
        let name = format!("criu-{}-{}-{}", program.st_dev, program.st_ino, program.st_mtime);
        let examined = Self(format!("{DEFAULT_PATH}/{MOUNTS}/{name}"));
        if stat(examined.0.as_str()).is_err() {
            make(env, &name).ok()?;
        }
        Some(examined)
    }

    /// Mounts the file at its place in the current mount namespace. The host has an empty file there until
    /// [`Self::hide`] is called.
    pub fn show(&self) -> Result<(), Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, self.0.as_str(), flags)?;
        let stat = fstat(&tree)?;
        if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return Err(Errno::PERM);
        }
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat(CWD, FILE, flags, Mode::from_raw_mode(0o600))?;
        let both =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&tree, c"", &place, c"", both)
    }

    /// Removes the empty file. If another restore needs it at this moment, its criu examines the kernel.
    pub fn hide(&self) {
        if stat(FILE).is_ok_and(|stat| stat.st_size == 0) {
            let _ = unlinkat(CWD, FILE, AtFlags::empty());
        }
    }
}

/// Makes criu examine the kernel where `/run` is a tmpfs, and copies the results to the file `name` of the cache.
fn make(env: sys::Args, name: &str) -> Result<(), Error> {
    let results = sys::errand::fetch(|| examine(env)).context("examine the kernel by", "criu")?;
    let bytes = sys::fs::read_all(results).context("read", FILE)?;
    let cache = Cache::open(DEFAULT_PATH)?;
    let lock = cache.try_lock()?;
    let directory = lock.mounts()?;
    // Those of former versions; the file system has few inodes.
    let mut former = cache::names(directory.as_fd()).context("getdents64", MOUNTS)?;
    former.retain(|name| name.to_bytes().starts_with(b"criu-"));
    if former.len() >= MOST {
        for name in former {
            let _ = unlinkat(&directory, name, AtFlags::empty());
        }
    }
    let incomplete = format!("{name}.incomplete");
    let _ = unlinkat(&directory, incomplete.as_str(), AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&directory, incomplete.as_str(), flags, Mode::from_raw_mode(0o600))
        .context("create", name)?;
    sys::stdio::write_all(file, &bytes).context("write", name)?;
    let renamed = renameat(&directory, incomplete.as_str(), &directory, name);
    Ok(renamed.context("rename", name)?)
}

/// Runs in a child process. Returns the open file of results.
fn examine(env: sys::Args) -> Result<OwnedFd, Errno> {
    sys::ns::unshare(CloneFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    mount("tmpfs", DIRECTORY, "tmpfs", MountFlags::NOSUID, c"mode=700,size=64k")?;
    let session = Session::begin(env, [null.as_fd(); 3], &[], true, None, None, None);
    let mut session = session.map_err(|_| Errno::NOSYS)?;
    session.features().map_err(|_| Errno::NOSYS)?;
    openat(CWD, FILE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}
