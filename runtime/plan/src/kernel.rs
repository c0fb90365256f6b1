//! Capabilities of the running kernel: probed once before compiling; tests can set them.

use crate::{Error, FastPaths};

/// The oldest supported kernel: the first with mount_setattr(2), which every start uses.
pub(crate) const OLDEST: (u32, u32) = (5, 12);

/// The first version that can attach mounts to a tree that is not attached itself, and can copy
/// parts of such a tree. On earlier versions, open_tree(2) with OPEN_TREE_CLONE accepts only mounts
/// of the caller's mount namespace (`check_mnt`, fs/namespace.c).
pub(crate) const DETACHED: (u32, u32) = (6, 15);

/// The first version that sorts mountinfo by mount id: earlier versions list mounts in the order in which they were
/// attached, no matter when they were created.
const SORTED: (u32, u32) = (6, 8);

/// Capabilities of the running kernel.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Major and minor version.
    pub version: (u32, u32),
    /// The architecture for which seccomp profiles are compiled.
    pub seccomp: seccomp::Support,
    /// The fast paths a start uses.
    pub fast_paths: FastPaths,
}

impl Kernel {
    /// Probes the running kernel with uname(2).
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

    /// Returns whether mountinfo lists mounts in the order of attachment. In that case, init must attach them in the
    /// configuration's order.
    pub fn lists_mounts_in_turn(&self) -> bool {
        self.version < SORTED
    }

    /// Returns whether parts of a detached tree can be copied, such as one device node of a detached file system.
    pub fn copies_detached(&self) -> bool {
        self.version >= DETACHED
    }

    /// Returns whether a pidfd tells the exit status of a process that was reaped, and can be mounted.
    pub fn keeps_exit_status(&self) -> bool {
        self.version >= DETACHED
    }

    /// Refuses a container without a mount namespace on kernels where its mounts would have to be attached in the
    /// host's mount namespace.
    ///
    /// # Errors
    /// Fails before Linux 6.15.
    pub fn check_detached(&self) -> Result<(), Error> {
        if self.version >= DETACHED { Ok(()) } else { Err(Error::NoDetachedMounts) }
    }

    /// Refuses unsupported kernels before anything is created.
    ///
    /// # Errors
    /// Fails before Linux 5.12.
    pub fn check(&self) -> Result<(), Error> {
        if self.version >= OLDEST { Ok(()) } else { Err(Error::TooOld(self.version)) }
    }
}
