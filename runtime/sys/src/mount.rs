//! mount_setattr(2), Linux 5.12: changes flags and propagation of a mount by descriptor, or of a whole tree at once;
//! and open_tree_attr(2), Linux 6.15, which copies a mount and sets its attributes in one call.

use core::ffi::CStr;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dev, FileType, StatxFlags, makedev, statx};
use rustix::io::Errno;

pub use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

/// Attribute bits of mount_setattr(2) and fsmount(2).
pub mod attr {
    /// Read-only.
    pub const RDONLY: u64 = 0x1;
    /// No set-user-ID.
    pub const NOSUID: u64 = 0x2;
    /// No devices.
    pub const NODEV: u64 = 0x4;
    /// No execution.
    pub const NOEXEC: u64 = 0x8;
    /// Ids mapped by a user namespace; only for a mount that is not attached yet.
    pub const IDMAP: u64 = 0x10_0000;
    /// The mask of the field that contains the access time mode.
    pub const ATIME: u64 = 0x70;
}

/// Propagation types of mount(2).
pub mod propagation {
    /// Mount events do not propagate.
    pub const PRIVATE: u64 = 1 << 18;
    /// Receives mount events, does not send them.
    pub const SLAVE: u64 = 1 << 19;
    /// Sends and receives mount events.
    pub const SHARED: u64 = 1 << 20;
    /// Private, and cannot be bind-mounted.
    pub const UNBINDABLE: u64 = 1 << 17;
}

/// Returns MOUNT_ATTR_* bits for fsmount(2).
pub fn fsmount_attr(bits: u64) -> MountAttrFlags {
    MountAttrFlags::from_bits_retain(crate::raw::halves(bits)[0])
}

/// `struct mount_attr`: attributes to set and to clear, and the propagation (0 leaves it unchanged).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountAttr {
    /// MOUNT_ATTR_* bits to set.
    pub set: u64,
    /// MOUNT_ATTR_* bits to clear. To change the access time mode, this must contain the whole field [`attr::ATIME`].
    pub clear: u64,
    /// One of [`propagation`], or 0.
    pub propagation: u64,
    /// The descriptor of a user namespace, if `set` contains MOUNT_ATTR_IDMAP.
    pub userns_fd: u64,
}

impl MountAttr {
    /// Maps ids as this user namespace does, and changes nothing else.
    pub fn id_mapped(user_namespace: BorrowedFd<'_>) -> Self {
        let userns_fd = u64::from(user_namespace.as_raw_fd().unsigned_abs());
        Self { set: attr::IDMAP, userns_fd, ..Self::default() }
    }

    /// Makes a mount private and changes nothing else.
    pub const PRIVATE: Self =
        Self { set: 0, clear: 0, propagation: propagation::PRIVATE, userns_fd: 0 };

    /// Returns whether mount_setattr(2) with this value would change nothing.
    pub fn is_empty(&self) -> bool {
        self.set == 0 && self.clear == 0 && self.propagation == 0
    }
}

/// The file at the top of a mount, and the mount's number.
#[derive(Debug, Clone, Copy)]
pub struct Top {
    /// The type of the file.
    pub file_type: FileType,
    /// The device, if the file is a device node.
    pub device: Dev,
    /// The number of the mount, or `None` before Linux 6.8. The kernel counts mounts: two mounts with successive numbers
    /// were made one directly after the other.
    pub number: Option<u64>,
}

/// Returns the top of the mount that `fd` refers to (statx(2)). Asks no file server.
///
/// # Errors
/// Those of statx(2).
pub fn top(fd: BorrowedFd<'_>) -> Result<Top, Errno> {
    const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(fd, c"", flags, StatxFlags::TYPE | MNT_ID_UNIQUE)?;
    let is_unique = found.stx_mask & MNT_ID_UNIQUE.bits() != 0;
    Ok(Top {
        file_type: FileType::from_raw_mode(u32::from(found.stx_mode)),
        device: makedev(found.stx_rdev_major, found.stx_rdev_minor),
        number: is_unique.then_some(found.stx_mnt_id),
    })
}

/// Changes the mount that `fd` refers to, with all mounts below it if `recursive`.
///
/// # Errors
/// Those of mount_setattr(2); ENOSYS before Linux 5.12.
pub fn mount_setattr(fd: BorrowedFd<'_>, recursive: bool, attr: &MountAttr) -> Result<(), Errno> {
    const AT_EMPTY_PATH: usize = 0x1000;
    const AT_RECURSIVE: usize = 0x8000;
    let flags = if recursive { AT_EMPTY_PATH | AT_RECURSIVE } else { AT_EMPTY_PATH };
    // SAFETY: the path is an empty C string, the structure is valid for the size given.
    unsafe {
        crate::raw::call(
            crate::raw::MOUNT_SETATTR,
            crate::raw::args![
                fd.as_raw_fd(),
                c"".as_ptr(),
                flags,
                &raw const *attr,
                size_of::<MountAttr>(),
            ],
        )
    }
    .map(drop)
}

/// Makes a detached copy of the mount at `path` below `directory`, with `attr` applied to the copy. `flags` are added to
/// OPEN_TREE_CLONE and OPEN_TREE_CLOEXEC; with AT_RECURSIVE, `attr` is applied to each mount of the tree. From Linux 6.15
/// on, this takes one system call. On older kernels, that call fails and two others follow.
///
/// # Errors
/// Those of open_tree(2) and mount_setattr(2).
pub fn clone_with(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: OpenTreeFlags,
    attr: &MountAttr,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    // SAFETY: the path is a C string, the structure is valid for the size given.
    let copy = unsafe {
        crate::raw::call(
            crate::raw::OPEN_TREE_ATTR,
            crate::raw::args![
                directory.as_raw_fd(),
                path.as_ptr(),
                flags.bits(),
                &raw const *attr,
                size_of::<MountAttr>(),
            ],
        )
    };
    if let Ok(copy) = copy {
        // SAFETY: a new descriptor without another owner.
        return Ok(unsafe { crate::raw::new_fd(copy) });
    }
    // The kernel or a seccomp filter is too old for open_tree_attr(2). Any other error occurs again below.
    let copy = rustix::mount::open_tree(directory, path, flags)?;
    mount_setattr(copy.as_fd(), flags.contains(OpenTreeFlags::AT_RECURSIVE), attr)?;
    Ok(copy)
}
