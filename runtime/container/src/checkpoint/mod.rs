//! `checkpoint` and `restore`: a container's processes as files, and back, by criu (criu.org).
//!
//! criu does what only it can: it stops the processes, writes and reads images, makes the processes again. It is told so
//! over the socket of `criu swrk`, by messages of `proto::messages::criu`. Here is what a runtime has to do about it:
//! which mounts come from outside, a root that is a mount, cgroups, namespaces that are joined, terminal, hooks, record.
//! What criu cannot bring back as it was is refused before anything is made (`refused.rs`).

mod dump;
mod images;
mod log;
mod mounts;
mod notices;
mod options;
mod refused;
mod restore;
mod session;
mod stage;

pub use options::{CheckpointOptions, CriuOptions, RestoreOptions, cgroups_mode, default_images};
pub use restore::restore;
pub use session::PROGRAM;

/// The name that a joined namespace has in images, by runc's rule.
fn external_name(kind: &str) -> alloc::string::String {
    let mut letters = kind.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    alloc::format!("extRoot{}{}NS", first.unwrap_or_default(), letters.as_str())
}
