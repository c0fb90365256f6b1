//! Errors of layers and id ranges.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::home::User;
use crate::layers::MOST_LAYERS;
use crate::mode::Mode;

/// The reason why a root filesystem or an id range is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// The recipe has no layers.
    NoLayers,
    /// There are more layers than overlayfs supports.
    TooManyLayers(usize),
    /// A layer's path is not absolute.
    BadLayer(String),
    /// The store has no image of this name.
    NoImage {
        /// The directory of the store.
        store: String,
        /// The given reference.
        reference: String,
        /// Similar names in the store.
        alike: Vec<String>,
    },
    /// Several images have names with this ending, or digests with this beginning.
    AmbiguousImage {
        /// The given reference.
        reference: String,
        /// Some of the matching names.
        names: Vec<String>,
    },
    /// The kernel is too old for the requested mode.
    Kernel {
        /// The requested mode.
        mode: Mode,
        /// The version of the running kernel.
        has: (u32, u32),
    },
    /// All id ranges are in use.
    NoRange {
        /// The number of ranges.
        ranges: u32,
    },
    /// The configuration of id ranges is unusable.
    Ids(String),
    /// The directory for the changes of a container belongs to another container.
    InUse {
        /// The directory.
        directory: String,
        /// The other container's directory in its state root.
        whose: String,
        /// Why the directory is not removed.
        user: User,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::NoLayers => f.write_str("a root filesystem needs at least one layer"),
            Self::TooManyLayers(count) => {
                write!(f, "{count} layers are too many: overlayfs takes {MOST_LAYERS}")
            }
            Self::BadLayer(path) => write!(f, "layer {path:?} is not an absolute path"),
            Self::NoImage { store, reference, alike } if !alike.is_empty() => {
                write!(f, "no image {reference} in {store}, but {}", alike.join(" and "))
            }
            Self::NoImage { store, reference, .. } => {
                write!(f, "no image {reference} in {store}: \"dayfly image ls\" lists the images")
            }
            Self::AmbiguousImage { reference, names } => {
                write!(f, "image {reference} may be {}: name one in full", names.join(" or "))
            }
            Self::Kernel { mode, has: (major, minor) } => {
                let (needs, minor_needed) = mode.needs();
                let name = mode.name();
                write!(
                    f,
                    "rootfs mode {name} needs Linux {needs}.{minor_needed}, this is {major}.{minor}"
                )
            }
            Self::NoRange { ranges } => write!(
                f,
                "all {ranges} ranges of ids are in use (`dayfly rootfs ids` lists them; /etc/subuid and \
                 /etc/subgid grant more)"
            ),
            Self::Ids(text) => f.write_str(text),
            Self::InUse { directory, whose, user: User::Process(pid) } => write!(
                f,
                "{directory} has the files of container {whose}, whose process {} still runs: kill it, or \
                 use another id or another store",
                pid.as_raw_nonzero()
            ),
            Self::InUse { directory, whose, user: User::Container } => write!(
                f,
                "{directory} has the files of container {whose}, which may be in another mount namespace: \
                 delete that container, or use another id or another store"
            ),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}
