//! Mounts in the format of containerd's snapshotters.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `containerd.types.Mount`: a mount for a container; later ones cover earlier ones.
    pub struct Mount = "containerd.types.Mount" {
        /// The type of file system, usually `bind` or `overlay`. In containerd 2.2 and later it may be prefixed with a
        /// transformation, as in `format/overlay`.
        1 => kind: String,
        /// A device or a directory; arbitrary for some types.
        2 => source: String,
        /// The path below the container's root; empty for the root itself. Unknown to containerd before 1.7.
        3 => target: String,
        /// Options as in fstab(5).
        4 => options: Vec<String>,
    }

    /// `containerd.types.MountCapabilities`: an extension of a
    /// [`BootstrapResult`](crate::messages::bootstrap::BootstrapResult) that lists the types a shim mounts itself
    /// (containerd 2.4).
    pub struct MountCapabilities = "containerd.types.MountCapabilities" {
        /// Types of mounts.
        1 => types: Vec<String>,
        /// Transformations, such as `format` and `mkdir`.
        2 => transforms: Vec<String>,
    }
}
