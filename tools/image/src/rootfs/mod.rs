//! Root filesystems for other runtimes: mounting, listing and unmounting them; and the id ranges of containers.

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

/// The result of the functions of this module; the error is a sentence.
type Result<T> = std::result::Result<T, String>;

/// Runs a command of `dayfly rootfs`.
///
/// # Errors
/// The failure as a sentence.
pub fn execute(command: &RootfsCommand) -> Result<()> {
    match command {
        RootfsCommand::Mount(mount) => mount::mount(mount),
        RootfsCommand::Umount(umount) => umount::umount(umount),
        RootfsCommand::Ls(list) => mounted::list(list),
        RootfsCommand::Ids(ids) => ids::list(ids),
        RootfsCommand::Gc(gc) => gc::collect(gc),
    }
}

/// Returns a function that adds the operation to an error.
fn at<E: Display>(what: impl Display) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Returns the text of an error of the crate `rootfs`.
fn plain(error: rootfs::Error) -> String {
    error.to_string()
}

impl Places {
    fn store(&self) -> Result<PathBuf> {
        self.store.directory().map_err(|error| error.to_string())
    }

    fn leases(&self) -> Result<rootfs::ids::Leases> {
        // An empty variable counts as unset.
        let path = match self.ids.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => std::path::absolute(path).map_err(at(path.display()))?,
            None => rootfs::places::leases(|name| std::env::var(name).ok()).into(),
        };
        rootfs::ids::Leases::open(&path.to_string_lossy()).map_err(plain)
    }
}
