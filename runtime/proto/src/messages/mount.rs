//! Mounts, as containerd's snapshotters describe them.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `containerd.types.Mount`: to be mounted for a container, one over the other.
    pub struct Mount = "containerd.types.Mount" {
        /// The type of file system, `bind` or `overlay` mostly. In containerd 2.2 and later it may have the name
        /// of a transformation before it, as in `format/overlay`.
        1 => kind: String,
        /// A device or a directory; of some types, anything.
        2 => source: String,
        /// Where, below the container's root; empty for the root itself. Not known to containerd before 1.7.
        3 => target: String,
        /// Options as in fstab(5).
        4 => options: Vec<String>,
    }

    /// `containerd.types.MountCapabilities`: an extension of a
    /// [`BootstrapResult`](crate::messages::bootstrap::BootstrapResult) by which a shim says what it mounts itself
    /// (containerd 2.4).
    pub struct MountCapabilities = "containerd.types.MountCapabilities" {
        /// Types of mounts.
        1 => types: Vec<String>,
        /// Transformations, such as `format` and `mkdir`.
        2 => transforms: Vec<String>,
    }
}
