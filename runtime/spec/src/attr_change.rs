//! Changes of mount attributes, which options add up to.

/// The mask of the field that contains the access time mode. The modes are values of this field, not flags.
pub const MOUNT_ATTR__ATIME: u64 = 0x0000_0070;

/// A change of mount attributes for mount_setattr(2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AttrChange {
    /// `MOUNT_ATTR_*` to set. For a new mount, these are its attributes (fsmount(2)).
    pub set: u64,
    /// `MOUNT_ATTR_*` that the options clear, and `MOUNT_ATTR__ATIME` if any option concerns access times.
    pub clear: u64,
}

impl AttrChange {
    /// Returns whether the change is empty.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn set(&mut self, flag: u64) {
        self.set |= flag;
        self.clear &= !flag;
    }

    pub(crate) fn clear(&mut self, flag: u64) {
        self.set &= !flag;
        self.clear |= flag;
    }

    pub(crate) fn set_atime(&mut self, mode: u64) {
        self.set = self.set & !MOUNT_ATTR__ATIME | mode;
        self.clear |= MOUNT_ATTR__ATIME;
    }

    /// Removes the access time mode `mode`, if an earlier option has set it. Without any mode, a new mount gets the
    /// kernel's default, relatime, and a bind mount keeps that of its source, as with mount(2).
    pub(crate) fn unset_atime(&mut self, mode: u64) {
        if self.set & MOUNT_ATTR__ATIME == mode {
            self.set &= !mode;
            self.clear &= !MOUNT_ATTR__ATIME;
        }
    }

    /// Changes the access time mode to relatime, unless an earlier option has set another mode than `mode`.
    pub(crate) fn clear_atime(&mut self, mode: u64) {
        self.set &= !mode;
        self.clear |= MOUNT_ATTR__ATIME;
    }
}
