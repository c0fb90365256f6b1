//! `checkpoint` and `restore`: saves the processes of a container to files and restores them, with criu (criu.org).
//!
//! criu stops the processes, writes and reads images, and creates the processes again. It receives its requests over
//! the socket of `criu swrk`, as messages of `proto::messages::criu`. This module does the runtime's part: it prepares
//! external mounts, a root that is a mount point, cgroups, joined namespaces and the terminal, runs hooks, and writes
//! the record. `refused.rs` refuses what criu cannot restore unchanged, before anything is created.
//!
//! criu makes no cgroup and sets no limits: the plan makes the cgroup, and criu is started in it. `launch::Mounts` runs
//! the plan's steps that make a root filesystem from layers, and device nodes of a container in a user namespace.

mod cgroups;
mod changes;
mod dump;
mod entering;
mod format;
mod guard;
mod id_maps;
mod images;
mod joined;
mod kernel;
mod keyring;
mod log;
mod mountinfo;
mod mounts;
mod notices;
mod options;
mod pages;
mod peers;
mod process;
mod program;
mod published;
mod refused;
mod restore;
mod saved;
mod session;
mod sharing;
mod stage;
mod tracking;
mod untar;
mod waiting;
mod wide;
mod work;

pub(crate) use dump::CONFIG_ANNOTATION;
pub(crate) use mountinfo::unescape;
pub use options::{
    CheckpointOptions, CriuOptions, Pages, RestoreOptions, cgroups_mode, default_images,
};
pub(crate) use pages::wait as await_pages;
pub use program::PROGRAM;
pub use published::names_checkpoint;
pub(crate) use published::{ANNOTATION, Published};
pub(crate) use restore::restore_waiting;
pub use restore::{restore, restore_from};
pub(crate) use saved::{Saved, check_place, leave_mounts};
pub use tracking::Tracking;
pub use untar::untar;
pub use work::{own_work, remove_work};

/// Returns the name of a joined namespace in the images, by runc's rule.
fn external_name(kind: &str) -> alloc::string::String {
    let mut letters = kind.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    alloc::format!("extRoot{}{}NS", first.unwrap_or_default(), letters.as_str())
}

/// Converts a path to a C string.
fn c_string(path: &str) -> Result<alloc::ffi::CString, crate::Error> {
    alloc::ffi::CString::new(path).map_err(|_| crate::Error::text("a NUL byte in a path"))
}
