//! The description of a root filesystem.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use sys::mount::MountAttr;

use crate::files::EtcFile;
use crate::layers::Layers;
use crate::mode::Mode;

/// Options of overlayfs besides its layers. Metadata-only copies and directory redirects stay in the upper layer, which
/// is discarded with the container; an index would serve only NFS export.
const SETTINGS: [(&CStr, &CStr); 3] =
    [(c"index", c"off"), (c"metacopy", c"on"), (c"redirect_dir", c"on")];

/// All decisions about a root filesystem before it is assembled.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The mode.
    pub mode: Mode,
    /// The layers.
    pub layers: Layers,
    /// The upper layer.
    pub upper: Upper,
    /// An existing directory that only this root filesystem uses: for changes, for a copy, or for temporary mounts.
    pub directory: CString,
    /// The user and group on the host that the image's root maps to; `None` leaves all ids unmapped.
    pub root: Option<(u32, u32)>,
    /// Whether overlayfs may skip syncing (`volatile`, Linux 5.10), because changes need not survive a crash of the
    /// host.
    pub volatile: bool,
    /// The SELinux label of every file.
    pub label: Option<CString>,
    /// Whether the mount is made in a user namespace, where overlayfs keeps its attributes in `user.overlay`.
    pub user_xattr: bool,
    /// Overlay options from another program, which replace the default ones.
    pub foreign: Option<Foreign>,
    /// The container's own files in /etc; only if there is a place for changes.
    pub files: Vec<EtcFile>,
}

/// An overlay described by another program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreign {
    /// The source shown in the mount table, which overlayfs ignores.
    pub source: CString,
    /// Options of overlayfs besides its directories, `key` or `key=value`, in order.
    pub options: Vec<(CString, Option<CString>)>,
    /// Whether the filesystem itself is read-only, so that a remount of the mount point cannot change that.
    pub read_only: bool,
    /// Attributes of the mount.
    pub attr: MountAttr,
}

impl Recipe {
    /// Returns whether mounts are attached on the host for a moment. Before Linux 6.15, overlayfs accepts no layer on a
    /// detached mount.
    pub fn is_attached(&self) -> bool {
        let mapped = self.root.is_some();
        let in_memory = matches!(self.upper, Upper::Tmpfs { .. });
        self.mode.is_attached() || (self.mode == Mode::Path && (mapped || in_memory))
    }

    /// Returns the options of overlayfs besides its layers. metacopy needs an upper layer.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
        let writable = self.upper != Upper::None;
        SETTINGS.into_iter().filter(move |(key, _)| writable || *key == c"index")
    }
}

/// The upper layer of a root filesystem, which receives the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upper {
    /// None: the root filesystem is read-only.
    None,
    /// `upper` and `work` in the recipe's directory.
    Directory,
    /// Existing directories on one mount, with their contents.
    Given {
        /// overlayfs's `upperdir`.
        upper: CString,
        /// overlayfs's `workdir`.
        work: CString,
    },
    /// A tmpfs.
    Tmpfs {
        /// Its size in bytes; `None` is the kernel's default, half of the memory.
        size: Option<u64>,
    },
}
