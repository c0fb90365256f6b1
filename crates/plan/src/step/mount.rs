//! What is put into the root filesystem.

use alloc::ffi::CString;
use alloc::vec::Vec;
use sys::mount::MountAttr;

use super::{Propagation, Slot};

/// [`HostStep::CloneTree`](super::HostStep::CloneTree).
#[derive(Debug)]
pub struct CloneTree {
    /// Where it goes.
    pub slot: Slot,
    /// On the host.
    pub source: CString,
    /// With the mounts below it.
    pub recursive: bool,
    /// How events travel, one change after the other.
    pub propagation: Vec<Propagation>,
    /// For the top mount.
    pub attr: MountAttr,
    /// For all mounts of the tree (`rro` and its kin).
    pub recursive_attr: MountAttr,
    /// Whose mappings the ids of its files go through.
    pub id_map: Option<TreeIdMap>,
}

/// How the ids of a tree are mapped.
#[derive(Debug, Clone, Copy)]
pub struct TreeIdMap {
    /// A user namespace.
    pub user_namespace: Slot,
    /// For all mounts of the tree (`ridmap`).
    pub recursive: bool,
}

/// [`HostStep::CloneDevice`](super::HostStep::CloneDevice).
#[derive(Debug)]
pub struct DeviceSource {
    /// Where it goes.
    pub slot: Slot,
    /// On the host.
    pub path: CString,
    /// S_IFCHR or S_IFBLK.
    pub file_type: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Where a mount goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// In the root, without a leading slash; empty for the root itself.
    pub path: CString,
    /// Refuse symbolic links on the way (/proc and /sys: CVE-2019-19921).
    pub no_symlinks: bool,
}

/// [`InitStep::MountFs`](super::InitStep::MountFs).
#[derive(Debug)]
pub struct MountFs {
    /// Such as `tmpfs`.
    pub kind: CString,
    /// What mountinfo shows as the source.
    pub source: CString,
    /// Options of the filesystem: a flag, or key and value.
    pub parameters: Vec<(CString, Option<CString>)>,
    /// MOUNT_ATTR_* and propagation of the new mount.
    pub attr: MountAttr,
    /// Where it goes.
    pub target: Target,
    /// The SELinux label of its root, set once it is mounted.
    pub label: Option<CString>,
    /// Fill it with what it covers.
    pub copy_up: bool,
    /// Give it the permissions of what it covers.
    pub inherit_mode: bool,
    /// Give it the owner of what it covers, where that is copied into it.
    pub inherit_owner: bool,
    /// The whole option string for mount(2), where a value is longer than the 255 bytes that
    /// fsconfig(2) takes.
    pub oversized: Option<Oversized>,
}

/// What mount(2) is given instead of parameters and attributes.
#[derive(Debug)]
pub struct Oversized {
    /// The options.
    pub data: CString,
    /// `MS_*`: attributes, and flags of the superblock.
    pub flags: u32,
}

/// A device node to make.
#[derive(Debug)]
pub struct Node {
    /// In its directory.
    pub name: CString,
    /// Type and permission bits.
    pub mode: u32,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A symbolic link to make.
#[derive(Debug)]
pub struct Link {
    /// In its directory.
    pub name: CString,
    /// What it says.
    pub text: CString,
    /// Whether it takes the place of what is there; else that stays.
    pub replace: bool,
    /// Only if this exists in the host's procfs.
    pub only_if: Option<CString>,
}
