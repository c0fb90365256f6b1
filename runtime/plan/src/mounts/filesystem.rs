//! New file systems: their parameters, attributes and labels.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;

use spec::mount_options::{self, MountOptions};
use spec::{InRoot, Mount};
use sys::clone::CloneFlags;
use sys::mount::{MountAttr, attr};

use super::host_path::{LONGEST_PARAMETER, has_relative_layers, names_host_path, needs_host_table};
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{c_str, in_root};
use crate::step::{InitStep, MountFs, Oversized, Parameter, ParentStep, Slot, Target};
use crate::{Error, confinement, keep};

/// Adds the steps that create and mount a new file system. In general, the parent creates a file system from paths of
/// the host, and init creates every other file system. Init creates all file systems if the container has a user
/// namespace or the caller lacks root's rights, and also those for which [`needs_host_table`] returns true.
pub(super) fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
) -> Result<(), Error> {
    let label = context_of(&mount.kind, context)?;
    let mut step = new(&mount.kind, mount.source.as_deref(), options, destination, label)?;
    if mount.kind == "mqueue" {
        step.label = context.linux.mount_label.as_deref().map(c_str).transpose()?;
    }
    step.copy_up = options.tmpcopyup && mount.kind == "tmpfs";
    step.inherit_mode = mount.kind == "tmpfs" && options.value("mode").is_none();
    if mount.kind == "tmpfs" && step.attr.set & attr::RDONLY != 0 {
        // The tmpfs becomes read-only later, because later steps create mount points in it, and device nodes in /dev.
        step.attr.set &= !attr::RDONLY;
        let slot = builder.slot();
        step.kept = Some(slot);
        builder.frozen.push(read_only(context, slot, step.target.path));
    }
    if !context.namespaces.has(CloneFlags::NEWNS) {
        check_detached(mount, &step)?;
    }
    if names_host_path(mount)
        && !needs_host_table(mount)
        && !context.namespaces.user()
        && !context.request.caller.is_confined()
    {
        let (slot, target) = (builder.slot(), step.target);
        builder.parent(ParentStep::MakeTree { slot, filesystem: step, user_namespace: None });
        builder.init(InitStep::AttachTree { slot, target });
        return Ok(());
    }
    builder.init(InitStep::MountFs(step));
    Ok(())
}

/// Refuses two kinds of file systems in a container without a mount namespace of its own, whose root is detached. The
/// first kind has an option too long for fsconfig(2): mount(2) cannot reach a detached root. The second kind is an
/// overlay whose layers are named by relative paths: the root is not yet the working directory.
fn check_detached(mount: &Mount<'_>, step: &MountFs) -> Result<(), Error> {
    let what = match (&step.oversized, has_relative_layers(mount)) {
        (Some(_), _) => format!("an option of more than {LONGEST_PARAMETER} bytes takes"),
        (None, true) => "layers by relative paths take".into(),
        (None, false) => return Ok(()),
    };
    let destination = &mount.destination;
    let text = format!("mount {destination}: {what} a mount namespace of the container's own");
    Err(Error::config(text))
}

/// Returns the step that creates a file system; `context` is the option with the label of its files.
pub(super) fn new(
    kind: &str,
    source: Option<&str>,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
    context: Option<Parameter>,
) -> Result<MountFs, Error> {
    let mut parameters = parameters(options)?;
    if kind == "devpts" {
        // Every devpts is an instance of its own since Linux 4.7, which accepts and ignores the option.
        parameters.retain(|parameter| *parameter != (c"newinstance", None));
    }
    let is_oversized = |(_, value): &Parameter| {
        value.is_some_and(|value| value.to_bytes().len() > LONGEST_PARAMETER)
    };
    let in_full = match parameters.iter().any(is_oversized) {
        true => Some(oversized(options, context)?),
        false => None,
    };
    parameters.extend(context);
    Ok(MountFs {
        kind: c_str(kind)?,
        source: c_str(source.filter(|source| !source.is_empty()).unwrap_or(kind))?,
        parameters: keep::all(parameters),
        attr: MountAttr {
            set: options.attr.set | options.recursive_attr.set,
            propagation: propagation_of(options).unwrap_or(0),
            ..MountAttr::default()
        },
        target: Target {
            path: in_root(destination)?,
            no_symlinks: matches!(kind, "proc" | "sysfs"),
        },
        label: None,
        copy_up: false,
        inherit_mode: false,
        kept: None,
        oversized: in_full,
    })
}

/// Returns the options of the file system, for fsconfig(2).
pub(super) fn parameters(options: &MountOptions<'_>) -> Result<Vec<Parameter>, Error> {
    let mut parameters = Vec::new();
    // "ro" becomes an attribute of the mount: as an option of a shared superblock, it would fail.
    let mut words: Vec<&str> = options.superblock_words().filter(|word| *word != "ro").collect();
    words.extend_from_slice(&options.data);
    for word in words {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        };
        if key.is_empty() {
            continue;
        }
        let value = value.map(c_str).transpose()?;
        parameters.push((c_str(key)?, value));
    }
    Ok(parameters)
}

/// Returns the arguments of mount(2): all options, and the attributes as flags.
fn oversized(options: &MountOptions<'_>, context: Option<Parameter>) -> Result<Oversized, Error> {
    const FLAGS: [(u64, u32); 8] = [
        (mount_options::MOUNT_ATTR_RDONLY, 1),
        (mount_options::MOUNT_ATTR_NOSUID, 2),
        (mount_options::MOUNT_ATTR_NODEV, 4),
        (mount_options::MOUNT_ATTR_NOEXEC, 8),
        (mount_options::MOUNT_ATTR_NOSYMFOLLOW, 1 << 8),
        (mount_options::MOUNT_ATTR_NOATIME, 1 << 10),
        (mount_options::MOUNT_ATTR_NODIRATIME, 1 << 11),
        (mount_options::MOUNT_ATTR_STRICTATIME, 1 << 24),
    ];
    let set = options.attr.set | options.recursive_attr.set;
    let flags = FLAGS.iter().filter(|(attr, _)| set & attr != 0);
    let flags = flags.fold(options.superblock_set, |flags, (_, flag)| flags | flag);
    let mut data = options.data.join(",");
    if let Some((_, Some(label))) = context {
        let _ = write!(data, ",context=\"{}\"", label.to_string_lossy());
    }
    Ok(Oversized { data: c_str(data)?, flags })
}

/// Returns the last propagation: mount_setattr(2) accepts only one.
fn propagation_of(options: &MountOptions<'_>) -> Option<u64> {
    options.propagation.last().map(|propagation| propagation.kind)
}

/// Returns the option that gives the files of a file system of type `kind` the SELinux label of the container's mounts.
pub(super) fn context_of(
    kind: &str,
    context: &Context<'_, '_>,
) -> Result<Option<Parameter>, Error> {
    let label = confinement::mount_context(kind, context.linux)?;
    Ok(label.map(|label| (c"context", Some(label))))
}

/// Returns the step that makes a tmpfs read-only after its contents are created.
fn read_only(context: &Context<'_, '_>, slot: Slot, path: &'static CStr) -> InitStep {
    if !context.namespaces.has(CloneFlags::NEWNS) {
        return InitStep::FreezeTmpfs { slot, path };
    }
    let attr = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
    InitStep::SetMountAttr { slot: Some(slot), path, recursive: false, attr }
}
