//! What is put into the root filesystem.

use core::ffi::CStr;

use sys::mount::MountAttr;

use super::Slot;

/// A mount tree to take.
#[derive(Debug, Clone, Copy)]
pub struct CloneTree<'a> {
    /// Where it goes.
    pub slot: Slot,
    /// On the host; of [`BindSource::Inside`] in the root, without a leading slash.
    pub source: &'a CStr,
    /// A source that is a symbolic link is taken itself.
    pub keep_link: bool,
    /// With the mounts below it.
    pub recursive: bool,
    /// How events travel, one change after the other.
    pub propagation: &'a [Propagation],
    /// For the top mount.
    pub attr: MountAttr,
    /// For all mounts of the tree (`rro` and its kin).
    pub recursive_attr: MountAttr,
    /// Whose mappings the ids of its files go through.
    pub id_map: Option<TreeIdMap>,
}

/// A change of how mount events travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagation {
    /// `MS_PRIVATE` and its kin.
    pub kind: u64,
    /// With the mounts below it.
    pub recursive: bool,
}

/// An option of a file system: a flag, or key and value.
pub type Parameter<'a> = (&'a CStr, Option<&'a CStr>);

/// [`InitStep::AttachBind`](super::InitStep::AttachBind).
#[derive(Debug, Clone, Copy)]
pub struct AttachBind<'a> {
    /// What is bound.
    pub source: BindSource<'a>,
    /// Where it goes.
    pub target: Target<'a>,
    /// What becomes of symbolic links.
    pub link: BindLink,
}

/// Where init has from what it binds.
#[derive(Debug, Clone, Copy)]
pub enum BindSource<'a> {
    /// It was taken from the host.
    Taken(Slot),
    /// It is what the container has there by now: an earlier mount covers what the host had. Its slot stays
    /// empty.
    Inside(CloneTree<'a>),
}

/// What becomes of symbolic links of a bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindLink {
    /// The destination's are followed.
    Follow,
    /// The destination is mounted on, if it is one (`dest-nofollow`).
    Keep,
    /// A source that is one is made again at the destination (`copy-symlink`).
    Copy,
}

/// How the ids of a tree are mapped.
#[derive(Debug, Clone, Copy)]
pub struct TreeIdMap {
    /// A user namespace.
    pub user_namespace: Slot,
    /// For all mounts of the tree (`ridmap`).
    pub recursive: bool,
}

/// A device node to take, verified by type and number.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSource<'a> {
    /// Where it goes.
    pub slot: Slot,
    /// On the host.
    pub path: &'a CStr,
    /// S_IFCHR or S_IFBLK.
    pub file_type: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Where a mount goes.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// In the root, without a leading slash; empty for the root itself.
    pub path: &'a CStr,
    /// Refuse symbolic links on the way (/proc and /sys: CVE-2019-19921).
    pub no_symlinks: bool,
}

/// [`InitStep::MountFs`](super::InitStep::MountFs).
#[derive(Debug, Clone, Copy)]
pub struct MountFs<'a> {
    /// Such as `tmpfs`.
    pub kind: &'a CStr,
    /// What mountinfo shows as the source.
    pub source: &'a CStr,
    /// Options of the filesystem: a flag, or key and value.
    pub parameters: &'a [Parameter<'a>],
    /// MOUNT_ATTR_* and propagation of the new mount.
    pub attr: MountAttr,
    /// Where it goes.
    pub target: Target<'a>,
    /// The SELinux label of its root, set once it is mounted.
    pub label: Option<&'a CStr>,
    /// Fill it with what it covers.
    pub copy_up: bool,
    /// Give it the permissions of what it covers.
    pub inherit_mode: bool,
    /// Give it the owner of what it covers, where that is copied into it.
    pub inherit_owner: bool,
    /// The whole option string for mount(2), where a value is longer than the 255 bytes that
    /// fsconfig(2) takes.
    pub oversized: Option<Oversized<'a>>,
}

/// What mount(2) is given instead of parameters and attributes.
#[derive(Debug, Clone, Copy)]
pub struct Oversized<'a> {
    /// The options.
    pub data: &'a CStr,
    /// `MS_*`: attributes, and flags of the superblock.
    pub flags: u32,
}

/// A device node to make.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// In its directory.
    pub name: &'a CStr,
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
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// In its directory.
    pub name: &'a CStr,
    /// What it says.
    pub text: &'a CStr,
    /// Whether it takes the place of what is there; else that stays.
    pub replace: bool,
    /// Only if this exists in the host's procfs.
    pub only_if: Option<&'a CStr>,
}
