//! Root filesystems for other runtimes: mounting, listing and unmounting them; and the id ranges of containers.

mod gc;
mod ids;
mod mount;
mod mounted;
pub mod options;
mod umount;

use crate::error::{Error, Result};
use ::rootfs::ids::Leases;
use ::rootfs::places;
pub use gc::{Left, collect_containers};
use options::{Places, RootfsCommand};

/// Runs a command of `dayfly rootfs`.
///
/// # Errors
/// Those of the command.
pub fn execute(command: &RootfsCommand) -> Result<()> {
    match command {
        RootfsCommand::Mount(mount) => mount::mount(mount),
        RootfsCommand::Umount(umount) => umount::umount(umount),
        RootfsCommand::Ls(list) => mounted::list(list),
        RootfsCommand::Ids(ids) => ids::list(ids),
        RootfsCommand::Gc(gc) => gc::collect(gc),
    }
}

impl Places {
    fn leases(&self) -> Result<Leases> {
        // An empty variable counts as unset.
        let path = match self.ids.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => std::path::absolute(path).map_err(Error::at("find", path))?,
            None => places::leases(|name| std::env::var(name).ok()).into(),
        };
        Ok(Leases::open(&path.to_string_lossy())?)
    }
}
