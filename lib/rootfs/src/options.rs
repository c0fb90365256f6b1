//! The description of a root filesystem.

use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use sys::mount::MountAttr;

use crate::layers::Layers;
use crate::mode::Mode;

/// Options of overlayfs other than its layers. Metadata-only copies and directory redirects are
/// stored in the upper layer, which is discarded with the container. The option `index` is off: an
/// index is needed only for NFS export, and to preserve the hard links of a file when the file is
/// copied up.
pub const SETTINGS: [(&CStr, &CStr); 3] =
    [(c"index", c"off"), (c"metacopy", c"on"), (c"redirect_dir", c"on")];

/// The description of a root filesystem, which is complete before the assembly begins.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The mode in which the layers are mounted or copied.
    pub mode: Mode,
    /// The layers.
    pub layers: Layers,
    /// The upper layer.
    pub upper: Upper,
    /// An existing directory that only this root filesystem uses, for changes, for a copy, or for temporary mounts.
    pub directory: CString,
    /// The host's user and group ids to which the image's root maps; `None` leaves all ids unmapped.
    pub root: Option<(u32, u32)>,
    /// Whether overlayfs may skip syncing (`volatile`, Linux 5.10), because changes need not survive a crash of the
    /// host.
    pub volatile: bool,
    /// The SELinux label of every file.
    pub label: Option<CString>,
    /// Whether the overlay is mounted in a user namespace, where overlayfs stores its attributes as `user.overlay`.
    pub user_xattr: bool,
    /// Overlay options from another program, which replace the default ones.
    pub foreign: Option<Foreign>,
    /// The files that are added to /etc. They are written to the upper layer or to the copy, so the list is empty if
    /// there is neither.
    pub files: Vec<EtcFile>,
}

/// An overlay described by another program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreign {
    /// The source shown in the mount table, which overlayfs ignores.
    pub source: CString,
    /// Options of overlayfs besides its directories, `key` or `key=value`, in order.
    pub options: Vec<(CString, Option<CString>)>,
    /// Whether the superblock is read-only, so that remounting the mount point cannot make the
    /// filesystem writable.
    pub read_only: bool,
    /// Attributes of the mount.
    pub attr: MountAttr,
}

impl Recipe {
    /// Returns whether mounts are temporarily attached on the host. Before Linux 6.15, overlayfs does not accept layers
    /// on detached mounts.
    pub fn is_attached(&self) -> bool {
        let mapped = self.root.is_some();
        let in_memory = matches!(self.upper, Upper::Tmpfs { .. });
        self.mode.is_attached() || (self.mode == Mode::Path && (mapped || in_memory))
    }

    /// Returns the options of overlayfs other than its layers. Without an upper layer, the only option is `index`,
    /// because metadata-only copies need an upper layer.
    fn settings(&self) -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
        let writable = self.upper != Upper::None;
        SETTINGS.into_iter().filter(move |(key, _)| writable || *key == c"index")
    }

    /// The source of the overlay, and whether it is read-only.
    pub(crate) fn source(&self) -> (&CStr, bool) {
        let foreign = self.foreign.as_ref().map(|foreign| (&*foreign.source, foreign.read_only));
        foreign.unwrap_or((c"dayfly", false))
    }

    /// The options of the overlay except its directories; those without a value are flags.
    pub(crate) fn options(&self) -> Vec<(&CStr, Option<&CStr>)> {
        if let Some(foreign) = &self.foreign {
            let options = foreign.options.iter();
            return options.map(|(key, value)| (key.as_c_str(), value.as_deref())).collect();
        }
        let mut options: Vec<(&CStr, Option<&CStr>)> = Vec::new();
        if self.user_xattr {
            options.push((c"userxattr", None));
        } else {
            options.extend(self.settings().map(|(key, value)| (key, Some(value))));
        }
        if self.layers.parents.len() > 1 {
            // Makes inode numbers unique even if layers are on several filesystems.
            options.push((c"xino", Some(c"auto")));
        }
        if self.volatile && self.upper == Upper::Directory {
            options.push((c"volatile", None));
        }
        options.extend(self.label.as_deref().map(|label| (c"context", Some(label))));
        options
    }
}

/// The upper layer of a root filesystem, which receives the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upper {
    /// No upper layer: the root filesystem is read-only.
    None,
    /// The directories `upper` and `work` in the recipe's directory.
    Directory,
    /// Existing directories on one mount, which may contain earlier changes.
    Given {
        /// overlayfs's `upperdir`.
        upper: CString,
        /// overlayfs's `workdir`.
        work: CString,
    },
    /// A tmpfs.
    Tmpfs {
        /// The size in bytes; `None` means the kernel's default, half of the memory.
        size: Option<u64>,
    },
}

/// A file in /etc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcFile {
    /// The name in /etc.
    pub name: CString,
    /// The content.
    pub text: String,
}
