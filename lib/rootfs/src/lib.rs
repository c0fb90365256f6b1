//! Root filesystems made of many layers, with as few mounts as the kernel allows.
//!
//! Layers are directories in overlayfs's format. A container with its own id range accesses the layers through a
//! detached, idmapped clone of their common parent directory. This is one mount for any number of layers, and it is in
//! no mount table. Older kernels need other [`Mode`]s, each of which can be selected by name.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod assembly;
mod attached;
mod census;
mod copy;
mod error;
mod files;
pub mod home;
pub mod ids;
pub mod image;
mod layers;
pub mod look;
mod measure;
mod mode;
pub mod name;
mod options;
mod owner;
pub mod passwd;
pub mod places;
mod remove;
mod shift;
mod top;
mod upper;

pub use assembly::{Assembled, Assembly, map_ids};
pub use attached::{Counts, remove_places, unmount_below};
pub use census::own_mount_namespace;
pub use copy::{copy_upper, with_holes};
pub use error::Error;
pub use layers::{Layer, Layers, MOST_LAYERS};
pub use measure::Extent;
pub use mode::Mode;
pub use options::{EtcFile, Foreign, Recipe, SETTINGS, Upper};
pub use remove::{empty, remove_all};
