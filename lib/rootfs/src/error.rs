//! Errors of layers and id ranges.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::home::User;
use crate::layers::MOST_LAYERS;
use crate::mode::Mode;

/// The reason why a root filesystem or an id range is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{0}")]
    System(#[from] sys::Error),
    /// The recipe has no layers.
    #[error("a root filesystem needs at least one layer")]
    NoLayers,
    /// There are more layers than overlayfs supports.
    #[error("{0} layers are too many: overlayfs takes {most}", most = MOST_LAYERS)]
    TooManyLayers(usize),
    /// A layer's path is not absolute.
    #[error("layer {0:?} is not an absolute path")]
    BadLayer(String),
    /// The store has no image of this name.
    #[error("no image {reference} in {store}{}", but(alike))]
    NoImage {
        /// The directory of the store.
        store: String,
        /// The given reference.
        reference: String,
        /// Similar names in the store.
        alike: Vec<String>,
    },
    /// Several images have names with this ending, or digests with this beginning.
    #[error("image {reference} may be {}: name one in full", names.join(" or "))]
    AmbiguousImage {
        /// The given reference.
        reference: String,
        /// Some of the matching names.
        names: Vec<String>,
    },
    /// The kernel is too old for the requested mode.
    #[error(
        "rootfs mode {} needs Linux {}.{}, this is {}.{}",
        mode.name(), mode.needs().0, mode.needs().1, has.0, has.1
    )]
    Kernel {
        /// The requested mode.
        mode: Mode,
        /// The version of the running kernel.
        has: (u32, u32),
    },
    /// All id ranges, this many, are in use.
    #[error(
        "all {0} ranges of ids are in use (`dayfly rootfs ids` lists them; /etc/subuid and /etc/subgid grant more)"
    )]
    NoRange(u32),
    /// The configuration of id ranges is unusable.
    #[error("{0}")]
    Ids(String),
    /// The directory for the changes of a container belongs to another container.
    #[error("{directory} has the files of container {whose}, {}", in_use(user))]
    InUse {
        /// The directory.
        directory: String,
        /// The other container's directory in its state root.
        whose: String,
        /// Why the directory is not removed.
        user: User,
    },
}

/// The images that may be meant instead.
fn but(alike: &[String]) -> String {
    match alike {
        [] => String::from(": \"dayfly image ls\" lists the images"),
        alike => format!(", but {}", alike.join(" and ")),
    }
}

fn in_use(user: &User) -> String {
    match user {
        User::Process(pid) => format!(
            "whose process {} still runs: kill it, or use another id or another store",
            pid.as_raw_nonzero()
        ),
        User::Container => String::from(
            "which may be in another mount namespace: delete that container, or use another id or \
             another store",
        ),
    }
}
