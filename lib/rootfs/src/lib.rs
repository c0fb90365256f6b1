//! Root filesystems of many layers, in as few mounts as the kernel allows.
//!
//! Layers are directories as overlayfs takes them. A container with its own range of ids sees them through
//! an id-mapped copy of the directory that has them all, which is attached nowhere: one mount,
//! however many layers there are, and none in anybody's mount table. What older kernels need instead is a ladder
//! of [`Mode`]s, each of which can be asked for by name.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod assembly;
mod attached;
mod copy;
mod error;
mod files;
pub mod ids;
pub mod image;
mod layers;
pub mod look;
mod mode;
pub mod name;
mod options;
pub mod places;
mod remove;
mod upper;

pub use assembly::{Assembled, Assembly, map_ids};
pub use attached::{Counts, remove_places, unmount_below};
pub use error::Error;
pub use files::EtcFile;
pub use layers::{Layer, Layers, MOST_LAYERS};
pub use mode::Mode;
pub use options::{Foreign, Recipe, Upper};
pub use remove::{empty, remove_all};
