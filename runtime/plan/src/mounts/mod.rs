//! The mounts of config.json as steps.

mod bind;
mod cgroup;
mod filesystem;
pub mod host_path;
mod proc;
mod remount;
mod root;
mod sysfs;

use alloc::format;
use alloc::vec::Vec;

use spec::mount_options::MountOptions;
use spec::{InRoot, Mount};

pub use self::root::{compile_root, compile_root_propagation, leave_out_pins, propagation_of};
pub use self::sysfs::sysfs_comes_in_turn;
use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::step::{InitStep, MountFs};

/// Adds the steps of one mount. Steps that must wait until everything below the mount exists, such as those that make a
/// tmpfs read-only, go to `later`.
pub fn compile_mount(
    builder: &mut Builder,
    later: &mut Vec<InitStep>,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
) -> Result<(), Error> {
    let options = MountOptions::parse(&mount.options);
    let destination = &mount.destination;
    if options.remount {
        return remount::compile(builder, later, context, mount, &options, destination);
    }
    if *destination == "/" {
        // A mount over the root would be invisible to processes that are already in the root.
        return Err(Error::config(format!(
            "mount {destination}: the mountpoint is on the top of the rootfs: name it in root.path instead"
        )));
    }
    if options.bind.is_some() || mount.kind == "bind" {
        return bind::compile(builder, context, mount, &options, destination);
    }
    proc::check_filesystem(&mount.kind, destination)?;
    if mount.kind == "cgroup" || mount.kind == "cgroup2" {
        return cgroup::compile(builder, later, context, &options, destination);
    }
    if mount.kind == "sysfs" && !context.owns_network() {
        return sysfs::bind(builder, &options, destination);
    }
    filesystem::compile(builder, later, context, mount, &options, destination)
}

/// Returns the file system for a container's device nodes, which is never attached as a whole. The file system is not
/// noexec, because noexec also restricts mmap(2).
pub fn of_nodes(context: &Context<'_, '_>) -> Result<MountFs, Error> {
    let words = ["nosuid", "mode=0755"].map(spec::Str::from);
    let label = filesystem::context_of("tmpfs", context)?;
    filesystem::new("tmpfs", None, &MountOptions::parse(&words), &InRoot::known("/dev"), label)
}
