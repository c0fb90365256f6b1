//! Root filesystems for those who bring their own runtime: mounted from layers, listed, taken away; and
//! the ranges of ids that containers have.

mod gc;
mod ids;
mod mount;
pub mod options;
mod record;
mod umount;

pub use gc::collect_containers;
use options::{Places, RootfsCommand};
use std::fmt::Display;

/// A command that did not work, in a sentence.
type Result<T> = std::result::Result<T, String>;

/// Runs a command of `dayfly rootfs`.
///
/// # Errors
/// What went wrong, in a sentence.
pub fn execute(command: &RootfsCommand) -> Result<()> {
    match command {
        RootfsCommand::Mount(mount) => mount::mount(mount),
        RootfsCommand::Umount(umount) => umount::umount(umount),
        RootfsCommand::Ls(list) => record::list(list),
        RootfsCommand::Ids(ids) => ids::list(ids),
        RootfsCommand::Gc(gc) => gc::collect(gc),
    }
}

/// Says what was at work when something failed.
fn at<E: Display>(what: impl Display) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// What an error of layers or ids says by itself.
fn plain(error: rootfs::Error) -> String {
    error.to_string()
}

impl Places {
    fn leases(&self) -> Result<rootfs::ids::Leases> {
        rootfs::ids::Leases::open(&self.ids().to_string_lossy()).map_err(plain)
    }
}
