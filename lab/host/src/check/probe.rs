//! Probes features of the running kernel. Nothing is left behind: every mount made here is detached, and disappears
//! with its descriptor.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstatfs, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_fd,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use sys::mount::{MountAttr, mount_setattr};

/// The results of probing file systems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystems {
    /// The place where an id-mapped mount was tried, and whether the kernel allows it there.
    pub idmap: Option<(String, bool)>,
    /// The best way in which layers can be combined.
    pub layers: rootfs::Mode,
}

/// Tries id-mapped mounts and overlays in the first of `places` that contains two directories, or on a detached tmpfs
/// if there is none. Needs root.
pub fn file_systems(places: &[&str]) -> Option<FileSystems> {
    let proc = sys::fs::open_dir(CWD, c"/proc").ok()?;
    let users = sys::user_namespace::make(proc.as_fd(), "0 0 1", "0 0 1").ok()?;
    let place = places.iter().find_map(|place| Some((*place, two_directories(place)?)));
    let mut idmap = None;
    if let Some((place, names)) = &place {
        let tree = detached(place).and_then(|tree| idmapped(tree, &users));
        idmap = Some(((*place).to_owned(), tree.is_ok()));
        if let Ok(tree) = tree {
            return Some(FileSystems { idmap, layers: layers(&tree, names) });
        }
    }
    let names = ["a".to_owned(), "b".to_owned()];
    let layers = match memory(&names).and_then(|tree| idmapped(tree, &users)) {
        Ok(tree) => layers(&tree, &names),
        Err(_) => rootfs::Mode::Copy,
    };
    Some(FileSystems { idmap, layers })
}

fn two_directories(place: &str) -> Option<[String; 2]> {
    let entries = fs::read_dir(Path::new(place)).ok()?.flatten();
    let mut names = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    Some([names.next()?, names.next()?])
}

fn detached(place: &str) -> Result<OwnedFd, Errno> {
    open_tree(CWD, place, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
}

/// Makes a detached mount of a new file system of this kind.
pub(crate) fn new_mount(kind: &CStr) -> Result<OwnedFd, Errno> {
    let fs = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Creates a detached tmpfs with directories in it.
fn memory(names: &[String; 2]) -> Result<OwnedFd, Errno> {
    let tree = new_mount(c"tmpfs")?;
    names.iter().try_for_each(|name| mkdirat(&tree, name, Mode::from_raw_mode(0o755)))?;
    Ok(tree)
}

fn idmapped(tree: OwnedFd, users: &OwnedFd) -> Result<OwnedFd, Errno> {
    mount_setattr(tree.as_fd(), false, &MountAttr::id_mapped(users.as_fd()))?;
    Ok(tree)
}

/// Returns the best way to mount an overlay of two directories of `tree`.
fn layers(tree: &OwnedFd, names: &[String; 2]) -> rootfs::Mode {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |name: &String| openat(tree, name.as_str(), flags, Mode::empty());
    let (Ok(upper), Ok(lower)) = (open(&names[0]), open(&names[1])) else {
        return rootfs::Mode::Copy;
    };
    let directories = [&upper, &lower];
    let name = |fd: &&OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let by_descriptor =
        overlay(|fs| directories.iter().try_for_each(|fd| fsconfig_set_fd(fs, "lowerdir+", fd)));
    if by_descriptor {
        return rootfs::Mode::Fd;
    }
    let by_name = overlay(|fs| {
        directories.iter().try_for_each(|fd| fsconfig_set_string(fs, "lowerdir+", name(fd)))
    });
    match by_name {
        true => rootfs::Mode::Path,
        false => rootfs::Mode::Parent,
    }
}

fn overlay(configure: impl FnOnce(&OwnedFd) -> Result<(), Errno>) -> bool {
    let made = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|fs| {
        configure(&fs)?;
        fsconfig_create(&fs)
    });
    made.is_ok()
}

/// Returns whether the inode number of a pidfd identifies the process (pidfs, Linux 6.9).
pub fn pidfd_inode() -> bool {
    const MAGIC: u64 = 0x5049_4446;
    let magic = pidfd_open(getpid(), PidfdFlags::empty()).and_then(fstatfs);
    magic.is_ok_and(|fs| fs.f_type as u64 == MAGIC)
}

/// Returns whether /proc/self/exe can be made to refer to another mount of the same file (PR_SET_MM_MAP).
pub fn image_can_move() -> bool {
    rustix::process::virtual_memory_map_config_struct_size().is_ok()
}

/// Returns whether the program at `path` is on a read-only mount.
pub fn on_read_only_mount(path: &Path) -> bool {
    let written = rustix::fs::accessat(CWD, path, rustix::fs::Access::WRITE_OK, AtFlags::empty());
    written == Err(Errno::ROFS)
}

/// Returns whether open_tree(2) can return a mount namespace that contains only the tree (OPEN_TREE_NAMESPACE, Linux
/// 7.0).
pub fn open_tree_namespace() -> bool {
    const OPEN_TREE_NAMESPACE: u32 = 2;
    let flags = OpenTreeFlags::from_bits_retain(OPEN_TREE_NAMESPACE);
    open_tree(CWD, c"/", flags | OpenTreeFlags::OPEN_TREE_CLOEXEC).is_ok()
}
