//! What the running kernel can do: probed once, before compile, and forceable in tests.

use crate::{Error, FastPaths};

/// The oldest kernel with everything the start path is built on: mount_setattr(2).
pub(crate) const OLDEST: (u32, u32) = (5, 12);

/// The first that attaches mounts to a tree which is attached nowhere itself, and copies parts of one: before,
/// open_tree(2) with OPEN_TREE_CLONE wants a mount of the caller's mount namespace (`check_mnt`, fs/namespace.c).
pub(crate) const DETACHED: (u32, u32) = (6, 15);

/// The first whose mountinfo is sorted by the ids of mounts: mounts made before they are attached show nowhere
/// in which order that was done.
const SORTED: (u32, u32) = (6, 8);

/// What the running kernel can do.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Major and minor version.
    pub version: (u32, u32),
    /// seccomp actions and flags.
    pub seccomp: seccomp::Support,
    /// What a start makes use of.
    pub fast_paths: FastPaths,
}

impl Kernel {
    /// Asks uname(2) and seccomp(2).
    pub fn probe() -> Self {
        let uname = rustix::system::uname();
        let mut numbers = uname
            .release()
            .to_bytes()
            .split(|byte| !byte.is_ascii_digit())
            .map(|digits| core::str::from_utf8(digits).ok()?.parse().ok());
        let mut next = || numbers.next().flatten().unwrap_or(0);
        Self {
            version: (next(), next()),
            seccomp: seccomp::Support::default(),
            fast_paths: FastPaths::all(),
        }
    }

    /// Whether containers see in which order their mounts were attached, which has to be that of the
    /// configuration.
    pub fn lists_mounts_in_turn(&self) -> bool {
        self.version < SORTED
    }

    /// Whether parts of a tree that is attached nowhere can be copied, and so one device node of a file system that
    /// is mounted nowhere.
    pub fn copies_detached(&self) -> bool {
        self.version >= DETACHED
    }

    /// Refuses a container without a mount namespace where its mounts would have to be the host's.
    ///
    /// # Errors
    /// A kernel before Linux 6.15.
    pub fn check_detached(&self) -> Result<(), Error> {
        if self.version >= DETACHED { Ok(()) } else { Err(Error::NoDetachedMounts) }
    }

    /// Refuses kernels that dayfly was not built for, before anything has been made.
    ///
    /// # Errors
    /// An older kernel.
    pub fn check(&self) -> Result<(), Error> {
        if self.version >= OLDEST { Ok(()) } else { Err(Error::TooOld(self.version)) }
    }
}
