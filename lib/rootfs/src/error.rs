//! What can go wrong with layers and ranges of ids.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::layers::MOST_LAYERS;
use crate::mode::Mode;

/// Why there is no root filesystem, or no range of ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// No layer at all.
    NoLayers,
    /// More layers than overlayfs takes.
    TooManyLayers(usize),
    /// A layer that is not given by an absolute path.
    BadLayer(String),
    /// No image of that name.
    NoImage {
        /// Where it was looked for.
        store: String,
        /// Its name.
        reference: String,
        /// Names there that may have been meant.
        alike: Vec<String>,
    },
    /// More than one image whose digest begins so.
    ManyImages {
        /// What was given.
        reference: String,
        /// How many there are.
        count: usize,
    },
    /// More than one image whose name ends so.
    AmbiguousImage {
        /// What was given.
        reference: String,
        /// Some of their names.
        names: Vec<String>,
    },
    /// The kernel is too old for the mode that was asked for.
    Kernel {
        /// What was asked for.
        mode: Mode,
        /// The running kernel.
        has: (u32, u32),
    },
    /// Every range of ids is taken.
    NoRange {
        /// How many there are.
        ranges: u32,
    },
    /// A configuration of ids that cannot be used.
    Ids(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::NoLayers => f.write_str("a root filesystem needs at least one layer"),
            Self::TooManyLayers(count) => {
                write!(f, "{count} layers are too many: overlayfs takes {MOST_LAYERS}")
            }
            Self::BadLayer(path) => write!(f, "layer {path:?} is no absolute path"),
            Self::NoImage { store, reference, alike } if !alike.is_empty() => {
                write!(f, "no image {reference} in {store}, but {}", alike.join(" and "))
            }
            Self::NoImage { store, reference, .. } => write!(
                f,
                "no image {reference} in {store}: \"dayfly image ls\" tells which there are"
            ),
            Self::ManyImages { reference, count } => {
                write!(f, "{reference} is the beginning of {count} digests")
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
                "all {ranges} ranges of ids are taken (`dayfly rootfs ids` lists them; /etc/subuid and \
                 /etc/subgid grant more)"
            ),
            Self::Ids(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for Error {}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}
