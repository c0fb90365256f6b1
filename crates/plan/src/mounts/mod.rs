//! The mounts of config.json as steps.

mod bind;
mod cgroup;
mod filesystem;
pub mod host_path;
mod proc;
mod remount;
mod root;

use alloc::format;
use alloc::vec::Vec;

use spec::Mount;
use spec::mount_options::MountOptions;

pub use self::root::{compile_root, compile_root_propagation};
use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::path::clean;
use crate::step::InitStep;

/// Adds one mount. What must wait until everything below it is in place (read-only tmpfs) goes to
/// `later`.
pub fn compile_mount(
    builder: &mut Builder,
    later: &mut Vec<InitStep>,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
) -> Result<(), Error> {
    let options = MountOptions::parse(&mount.options);
    let destination = clean(&mount.destination);
    if options.remount {
        return remount::compile(builder, later, context, mount, &options, &destination);
    }
    if destination == "/" {
        // Processes that are in the root already would not see it.
        return Err(Error::config(format!(
            "mount {destination}: the mountpoint is on the top of the rootfs: name it in root.path instead"
        )));
    }
    if options.bind.is_some() || mount.kind == "bind" {
        return bind::compile(builder, context, mount, &options, &destination);
    }
    proc::check_filesystem(&mount.kind, &destination)?;
    if mount.kind == "cgroup" || mount.kind == "cgroup2" {
        return cgroup::compile(builder, later, context, &options, &destination);
    }
    filesystem::compile(builder, later, context, mount, &options, &destination)
}
