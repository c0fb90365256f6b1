//! Root filesystems for those who bring their own runtime: mounted from layers, listed, taken away; and
//! the ranges of ids that containers have.

mod gc;
mod ids;
mod mount;
mod mounted;
pub mod options;
mod umount;

pub use gc::{Left, collect_containers};
use options::{Places, RootfsCommand};
use std::fmt::Display;
use std::path::PathBuf;

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
        RootfsCommand::Ls(list) => mounted::list(list),
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
    fn store(&self) -> Result<PathBuf> {
        self.store.directory().map_err(|error| error.to_string())
    }

    fn leases(&self) -> Result<rootfs::ids::Leases> {
        // A variable that is set to nothing is none.
        let path = match self.ids.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => std::path::absolute(path).map_err(at(path.display()))?,
            None => rootfs::places::leases(|name| std::env::var(name).ok()).into(),
        };
        rootfs::ids::Leases::open(&path.to_string_lossy()).map_err(plain)
    }
}
