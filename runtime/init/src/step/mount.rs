//! Mounts, nodes and links of the root filesystem.

use core::ffi::CStr;

use sys::mount::MountAttr;

use super::Slot;

/// A mount tree to clone.
#[derive(Debug, Clone, Copy)]
pub struct CloneTree<'a> {
    /// The slot for the copy.
    pub slot: Slot,
    /// The tree's path on the host. For [`BindSource::Inside`], its path in the root, without a leading slash.
    pub source: &'a CStr,
    /// Whether a source that is a symbolic link is not followed.
    pub keep_link: bool,
    /// Whether mounts below the source are included.
    pub recursive: bool,
    /// Changes of propagation, in the order of their application.
    pub propagation: &'a [Propagation],
    /// Attributes of the top mount.
    pub attr: MountAttr,
    /// Attributes of all mounts of the tree (`rro` and similar).
    pub recursive_attr: MountAttr,
    /// The mapping of the ids of the tree's files.
    pub id_map: Option<TreeIdMap>,
}

/// A change of propagation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagation {
    /// `MS_PRIVATE` and similar.
    pub kind: u64,
    /// Whether mounts below the tree's top mount are included.
    pub recursive: bool,
}

/// An option of a file system: a flag, or key and value.
pub type Parameter<'a> = (&'a CStr, Option<&'a CStr>);

/// The data of [`InitStep::AttachBind`](super::InitStep::AttachBind).
#[derive(Debug, Clone, Copy)]
pub struct AttachBind<'a> {
    /// The source.
    pub source: BindSource<'a>,
    /// The mount point.
    pub target: Target<'a>,
    /// The treatment of symbolic links.
    pub link: BindLink,
}

/// The source of a bind mount.
#[derive(Debug, Clone, Copy)]
pub enum BindSource<'a> {
    /// A tree opened on the host.
    Taken(Slot),
    /// A path inside the container's root, at which an earlier mount covers the host's file. The
    /// tree's slot is not used.
    Inside(CloneTree<'a>),
}

/// The treatment of symbolic links by a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindLink {
    /// Links in the destination are followed.
    Follow,
    /// If the destination is a link, the source is mounted on the link itself (`dest-nofollow`).
    Keep,
    /// If the source is a link, the same link is created at the destination (`copy-symlink`).
    Copy,
}

/// The id mapping of a tree.
#[derive(Debug, Clone, Copy)]
pub struct TreeIdMap {
    /// The slot of the user namespace that has the mapping.
    pub user_namespace: Slot,
    /// Whether the mapping applies to all mounts of the tree (`ridmap`).
    pub recursive: bool,
}

/// A device node to clone, verified by type and number.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSource<'a> {
    /// The slot for the copy.
    pub slot: Slot,
    /// The node's path on the host.
    pub path: &'a CStr,
    /// S_IFCHR or S_IFBLK.
    pub file_type: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Files below /proc that may be mounted over: those that lxcfs and engines replace. Other mounts there could redirect
/// the runtime's own writes (CVE-2019-16884, CVE-2019-19921). The paths are relative to the root.
pub const ALLOWED_IN_PROC: [&CStr; 10] = [
    c"proc/cpuinfo",
    c"proc/diskstats",
    c"proc/meminfo",
    c"proc/stat",
    c"proc/swaps",
    c"proc/uptime",
    c"proc/loadavg",
    c"proc/slabinfo",
    c"proc/sys/kernel/ns_last_pid",
    c"proc/sys/crypto/fips_enabled",
];

/// The destination of a mount.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The path in the root, without a leading slash; empty for the root itself.
    pub path: &'a CStr,
    /// Whether symbolic links in the path are refused (/proc and /sys: CVE-2019-19921).
    pub no_symlinks: bool,
}

/// The data of [`InitStep::MountFs`](super::InitStep::MountFs).
#[derive(Debug, Clone, Copy)]
pub struct MountFs<'a> {
    /// The type, such as `tmpfs`.
    pub kind: &'a CStr,
    /// The source shown in mountinfo.
    pub source: &'a CStr,
    /// Options of the filesystem: a flag, or key and value.
    pub parameters: &'a [Parameter<'a>],
    /// MOUNT_ATTR_* and propagation of the new mount.
    pub attr: MountAttr,
    /// The mount point.
    pub target: Target<'a>,
    /// The SELinux label of the filesystem's root, set after the mount.
    pub label: Option<&'a CStr>,
    /// Whether the contents that the mount covers are copied into the new filesystem.
    pub copy_up: bool,
    /// Whether the new filesystem's root gets the permissions of the covered directory.
    pub inherit_mode: bool,
    /// The slot for the new mount, if a later step changes it.
    pub kept: Option<Slot>,
    /// The whole option string for mount(2), if a value is longer than fsconfig(2)'s 255 bytes.
    pub oversized: Option<Oversized<'a>>,
}

/// The arguments of mount(2) in place of parameters and attributes.
#[derive(Debug, Clone, Copy)]
pub struct Oversized<'a> {
    /// The options.
    pub data: &'a CStr,
    /// `MS_*` flags of the mount and of the superblock.
    pub flags: u32,
}

/// A device node to create.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The node's name in the directory.
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

/// A symbolic link to create.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The link's name in the directory.
    pub name: &'a CStr,
    /// The link's text.
    pub text: &'a CStr,
    /// Whether the link replaces an existing file. If false, an existing file stays.
    pub replace: bool,
    /// If given, the link is created only if this file exists in the host's procfs.
    pub only_if: Option<&'a CStr>,
}

impl<'a> Link<'a> {
    /// Returns a link that does not replace an existing file.
    pub const fn new(name: &'a CStr, text: &'a CStr) -> Self {
        Self { name, text, replace: false, only_if: None }
    }
}
