//! What a root filesystem is to be.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use sys::mount::MountAttr;

use crate::files::EtcFile;
use crate::layers::Layers;
use crate::mode::Mode;

/// What overlayfs is told besides its layers. Copies of metadata alone and redirected directories only
/// live in what is thrown away with the container; an index would be for NFS.
const SETTINGS: [(&CStr, &CStr); 3] =
    [(c"index", c"off"), (c"metacopy", c"on"), (c"redirect_dir", c"on")];

/// Everything that is decided about a root filesystem before it is assembled.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// How.
    pub mode: Mode,
    /// From what.
    pub layers: Layers,
    /// What takes the changes.
    pub upper: Upper,
    /// A directory of this root filesystem's alone, which exists: for changes, for a copy, for mounts on
    /// the way.
    pub directory: CString,
    /// The user and the group that root of the image is on the host; `None` leaves all ids.
    pub root: Option<(u32, u32)>,
    /// Nothing has to survive a crash of the host: overlayfs need not write back (Linux 5.10).
    pub volatile: bool,
    /// The SELinux label of every file.
    pub label: Option<CString>,
    /// In a user namespace: overlayfs keeps its marks in `user.overlay`.
    pub user_xattr: bool,
    /// What somebody else wants of the overlay, in the place of what it is told here otherwise.
    pub foreign: Option<Foreign>,
    /// Files of /etc that it has of its own; only where changes can be made.
    pub files: Vec<EtcFile>,
}

/// An overlay as somebody else describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreign {
    /// Its source in the mount table, which overlayfs makes no use of.
    pub source: CString,
    /// Options of overlayfs besides its directories, `key` or `key=value`, in order.
    pub options: Vec<(CString, Option<CString>)>,
    /// Nothing may change through it, whoever mounts it again.
    pub read_only: bool,
    /// Attributes of the mount.
    pub attr: MountAttr,
}

impl Recipe {
    /// Whether something is attached on the host for a moment. Before Linux 6.15 overlayfs takes no layer of
    /// a mount that is not.
    pub fn is_attached(&self) -> bool {
        let mapped = self.root.is_some();
        let in_memory = matches!(self.upper, Upper::Tmpfs { .. });
        self.mode.is_attached() || (self.mode == Mode::Path && (mapped || in_memory))
    }

    /// What overlayfs is told besides its layers. Copying up no more than metadata needs something to copy up
    /// to.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
        let writable = self.upper != Upper::None;
        SETTINGS.into_iter().filter(move |(key, _)| writable || *key == c"index")
    }
}

/// What takes the changes to a root filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upper {
    /// Nothing: it is read-only.
    None,
    /// `upper` and `work` in the recipe's directory.
    Directory,
    /// Directories that are there, on one mount, with whatever is in them.
    Given {
        /// What changes go to.
        upper: CString,
        /// What overlayfs prepares them in.
        work: CString,
    },
    /// Memory.
    Tmpfs {
        /// Bytes; `None` is the kernel's default, half of the memory.
        size: Option<u64>,
    },
}
