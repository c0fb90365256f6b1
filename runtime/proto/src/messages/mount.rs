//! Mounts in the format of containerd's snapshotters.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `containerd.types.Mount`: one of a list of mounts for a container. Later mounts of the list cover earlier ones.
    pub struct Mount = "containerd.types.Mount" {
        /// The file system type, usually `bind` or `overlay`. In containerd 2.2 and later, the name of a transformation
        /// may precede it, as in `format/overlay`.
        1 => kind: String,
        /// A device or a directory. For some types, any text.
        2 => source: String,
        /// The mount point's path below the container's root; empty for the root itself. containerd before 1.7 does not
        /// have this field.
        3 => target: String,
        /// Options as in fstab(5).
        4 => options: Vec<String>,
    }

    /// `containerd.types.MountCapabilities`: an extension of a
    /// [`BootstrapResult`](crate::messages::bootstrap::BootstrapResult). It lists the mounts that a shim performs
    /// itself (containerd 2.4).
    pub struct MountCapabilities = "containerd.types.MountCapabilities" {
        /// The types of the mounts that the shim performs.
        1 => types: Vec<String>,
        /// The transformations, for example `format` and `mkdir`.
        2 => transforms: Vec<String>,
    }
}
