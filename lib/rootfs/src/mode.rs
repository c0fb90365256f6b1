//! The modes in which a container's layers are mounted or copied, in order of preference, beginning
//! with the best.

use core::ffi::CStr;

use rustix::fs::{CWD, Mode as Permissions, OFlags, openat, statfs};
use rustix::mount::{FsOpenFlags, fsconfig_set_fd, fsopen};

use crate::Error;
use crate::layers::Layers;

/// The mode in which a root filesystem is assembled from its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One detached, idmapped clone of the layers' parent directory; each layer is passed to overlayfs by descriptor.
    /// The clone is in no mount table. Needs Linux 6.15.
    Fd,
    /// One idmapped clone of the layers' parent directory, attached on the host while overlayfs is mounted. Each layer
    /// is passed as a path through /proc/self/fd, and the overlay itself stays detached. Needs Linux 6.7.
    Path,
    /// One idmapped clone of the layers' parent directory, attached on the host while overlayfs is mounted. Needs Linux
    /// 5.19.
    Parent,
    /// One idmapped mount per layer, attached on the host while overlayfs is mounted. Needs Linux 5.19.
    PerLayer,
    /// A copy of all files with changed owners: works on any kernel and filesystem.
    Copy,
}

impl Mode {
    /// All modes, the best first.
    pub const ALL: [Self; 5] = [Self::Fd, Self::Path, Self::Parent, Self::PerLayer, Self::Copy];

    /// Returns the mode's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fd => "fd",
            Self::Path => "path",
            Self::Parent => "parent",
            Self::PerLayer => "per-layer",
            Self::Copy => "copy",
        }
    }

    /// Returns the mode with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the first mainline kernel version that supports the mode; distributors may have backported it.
    pub fn needs(self) -> (u32, u32) {
        match self {
            Self::Fd => (6, 15),
            Self::Path => (6, 7),
            Self::Parent | Self::PerLayer => (5, 19),
            Self::Copy => (0, 0),
        }
    }

    /// Returns whether the mode temporarily attaches layers on the host.
    pub fn is_attached(self) -> bool {
        matches!(self, Self::Parent | Self::PerLayer)
    }

    /// Returns the best mode for these layers on a kernel of this version; `mapped` is true if the ids of the layers
    /// are mapped.
    pub fn choose(version: (u32, u32), layers: &Layers, mapped: bool) -> Self {
        if mapped && !layers.parents.iter().all(|parent| can_map(parent, version)) {
            return Self::Copy;
        }
        if version < Self::Fd.needs() && takes_descriptors() {
            return Self::Fd;
        }
        let works = |mode: &Self| version >= mode.needs();
        Self::ALL.into_iter().find(works).unwrap_or(Self::Copy)
    }

    /// Rejects a mode that this kernel does not support.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn check(self, version: (u32, u32)) -> Result<(), Error> {
        if version >= self.needs() || (self == Self::Fd && takes_descriptors()) {
            return Ok(());
        }
        Err(Error::Kernel { mode: self, has: version })
    }
}

/// Returns whether overlayfs accepts a layer by O_PATH descriptor. The kernel is probed, because distributors backport
/// this feature to kernels whose version is too low.
fn takes_descriptors() -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = openat(CWD, c"/", flags, Permissions::empty()) else { return false };
    fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)
        .and_then(|context| fsconfig_set_fd(context, c"lowerdir+", directory))
        .is_ok()
}

/// Returns whether the filesystem of a directory supports idmapped mounts (mount_setattr(2)). Unknown filesystems are
/// assumed to support them; if one does not, the mount fails later.
fn can_map(directory: &CStr, version: (u32, u32)) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    const BTRFS: u32 = 0x9123_683e;
    const F2FS: u32 = 0xf2f5_2010;
    const EROFS: u32 = 0xe0f5_e1e2;
    const SQUASHFS: u32 = 0x7371_7368;
    const FUSE: u32 = 0x6573_5546;
    const NEVER: (u32, u32) = (u32::MAX, 0);
    /// The magic numbers of overlayfs, NFS, SMB and 9P, for which no kernel supports idmapped mounts.
    const UNMAPPABLE: [u32; 4] = [0x794c_7630, 0x6969, 0xff53_4d42, 0x0102_1997];
    let Ok(filesystem) = statfs(directory) else { return true };
    let since = match sys::fs::magic(&filesystem) {
        TMPFS => (6, 3),
        BTRFS => (5, 15),
        F2FS => (5, 18),
        EROFS => (5, 19),
        SQUASHFS => (6, 2),
        FUSE => (6, 12),
        kind if UNMAPPABLE.contains(&kind) => NEVER,
        _ => (5, 12),
    };
    version >= since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_by_version() {
        let layers = Layers::of_store("/usr/bin\n/usr/lib\n").unwrap();
        let rung = |version| Mode::choose(version, &layers, false);
        assert_eq!(rung((6, 18)), Mode::Fd);
        // A kernel with backports may support a better mode than its version implies.
        if !takes_descriptors() {
            assert_eq!(rung((6, 12)), Mode::Path);
            assert_eq!(rung((6, 1)), Mode::Parent);
            assert_eq!(rung((5, 18)), Mode::Copy);
        }
        assert_eq!(Mode::Copy.check((5, 12)), Ok(()));
        assert!(Mode::Path.check((6, 6)).is_err());
    }

    #[test]
    fn what_cannot_be_mapped_is_copied() {
        let proc = Layers::of_store("/proc/sys\n").unwrap();
        assert_eq!(Mode::choose((5, 10), &proc, true), Mode::Copy);
    }
}
