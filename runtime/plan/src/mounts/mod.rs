//! The mounts of config.json as steps.

mod bind;
mod cgroup;
mod filesystem;
pub mod host_path;
mod proc;
mod remount;
mod root;
mod shared_subtrees;
mod sysfs;

use alloc::format;
use alloc::vec::Vec;

use spec::mount_options::{MountOptions, Propagation};
use spec::{InRoot, Mount};
use sys::clone::CloneFlags;
use sys::mount::{MountAttr, propagation};

pub use self::root::{compile_root, leave_out_pins};
use self::shared_subtrees::propagation_of_trees;
pub use self::shared_subtrees::{compile_root_propagation, propagation_of};
pub use self::sysfs::are_in_turn;
use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::path::in_root;
use crate::step::{InitStep, MountFs};

/// Adds the steps of one mount.
pub fn compile_mount(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
) -> Result<(), Error> {
    let mut options = MountOptions::parse(&mount.options);
    let destination = &mount.destination;
    if options.remount {
        return remount::compile(builder, context, mount, &options, destination);
    }
    let changes = changes_after(context, mount, &mut options)?;
    compile_kind(builder, context, mount, &options)?;
    for Propagation { kind, recursive } in changes {
        builder.init(InitStep::SetMountAttr {
            slot: None,
            path: in_root(destination)?,
            recursive,
            attr: MountAttr { propagation: kind, ..MountAttr::default() },
        });
    }
    Ok(())
}

/// Takes the changes of propagation out of the options that must follow the attachment, because a mount below a shared
/// one becomes shared when it is attached, and an unbindable one is refused (mount_namespaces(7)). Which mount is below
/// which depends on the image's links, so an earlier shared mount anywhere counts.
fn changes_after(
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &mut MountOptions<'_>,
) -> Result<Vec<Propagation>, Error> {
    // With these options, the mount may be on a link, or there is none.
    if options.propagation.is_empty() || options.copy_symlink || options.destination_nofollow {
        return Ok(Vec::new());
    }
    let is_shared = |change: &Propagation| change.kind == propagation::SHARED;
    let binds_are_peers = propagation_of_trees(context.linux)?.as_ref().is_some_and(is_shared);
    let shares = |mount: &Mount<'_>| {
        let options = MountOptions::parse(&mount.options);
        let is_bind = options.is_bind(&mount.kind);
        is_bind && binds_are_peers || options.propagation.iter().any(is_shared)
    };
    if !context.before(mount).any(shares) {
        return Ok(Vec::new());
    }
    let changes = core::mem::take(&mut options.propagation);
    // Without a mount namespace, the root is a detached tree: the kernel refuses to change what is attached in it.
    Ok(if context.namespaces.has(CloneFlags::NEWNS) { changes } else { Vec::new() })
}

fn compile_kind(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
) -> Result<(), Error> {
    let destination = &mount.destination;
    if *destination == "/" {
        // A mount over the root would be invisible to processes that are already in the root.
        return Err(Error::config(format!(
            "mount {destination}: the mountpoint is on the top of the rootfs: name it in root.path instead"
        )));
    }
    if options.is_bind(&mount.kind) {
        return bind::compile(builder, context, mount, options, destination);
    }
    proc::check_filesystem(&mount.kind, destination)?;
    if mount.kind == "cgroup" || mount.kind == "cgroup2" {
        warn(builder, destination, "a cgroup mount", unused(options, &mount.kind));
        return cgroup::compile(builder, context, mount, options, destination);
    }
    if mount.kind == "sysfs" && !context.owns_network() {
        return sysfs::bind(builder, options, destination);
    }
    warn(builder, destination, "this type of mount", unused(options, &mount.kind));
    filesystem::compile(builder, context, mount, options, destination)
}

/// Returns the options without effect on a new file system of this type.
fn unused<'a>(options: &'a MountOptions<'_>, kind: &str) -> Vec<&'a str> {
    // Every field is named, so that each new one is decided here.
    let MountOptions {
        attr: _,
        recursive_attr: _,
        superblock_set: _,
        superblock_clear: _,
        propagation: _,
        bind: _,
        remount: _,
        tmpcopyup,
        id_map: _, // refused by spec::validate
        copy_symlink,
        source_nofollow,
        destination_nofollow,
        data,
    } = options;
    let of_binds = [
        (*tmpcopyup && kind != "tmpfs", "tmpcopyup"),
        (*copy_symlink, "copy-symlink"),
        (*source_nofollow, "src-nofollow"),
        (*destination_nofollow, "dest-nofollow"),
    ];
    let mut words: Vec<&str> =
        of_binds.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).collect();
    if kind == "cgroup" {
        words.extend(data);
    }
    words
}

/// Warns of options that have no effect on a mount.
fn warn(builder: &mut Builder, destination: &str, what: &str, words: Vec<&str>) {
    if !words.is_empty() {
        let words = words.join(",");
        builder.warnings.push(format!("mount {destination}: {what} ignores the options {words:?}"));
    }
}

/// Returns the file system for a container's device nodes, which is never attached as a whole. The file system is not
/// noexec, because noexec also restricts mmap(2).
pub fn of_nodes(context: &Context<'_, '_>) -> Result<MountFs, Error> {
    let words = ["nosuid", "mode=0755"].map(spec::Str::from);
    let label = filesystem::context_of("tmpfs", context)?;
    filesystem::new("tmpfs", None, &MountOptions::parse(&words), &InRoot::known("/dev"), label)
}
