//! The mounts of config.json as steps.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use spec::Mount;
use spec::mount_options::{AttrChange, MountOptions, Propagation};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, attr, propagation};

use crate::builder::Builder;
use crate::context::Context;
use crate::path::{absolute, c_string, clean, in_root};
use crate::step::{CloneTree, InitStep, MountFs, Slot, Target};
use crate::{Error, confinement, devices, idmap, layers};

/// fsconfig(2) takes strings of up to 255 bytes.
const LONGEST_PARAMETER: usize = 255;

/// What may be bound below /proc: files that lxcfs and engines replace. Anything else there could
/// redirect the runtime's own writes (CVE-2019-16884, CVE-2019-19921).
const ALLOWED_IN_PROC: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/slabinfo",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/crypto/fips_enabled",
];

/// Adds the root filesystem's own steps: a detached copy of it with its propagation, attached in the
/// container's mount namespace once that is cut off from the host's. A container in the host's mount
/// namespace has its mounts on the detached copy itself, where the host does not see them and they go
/// with its last process.
pub fn compile_root(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    if let Some(recipe) = context.layers {
        layers::compile(builder, context, recipe);
    } else {
        compile_directory(builder, context)?;
    }
    if context.birth.from_template {
        builder.init(InitStep::AttachRoot { path: c"/".into() });
        builder.init(InitStep::EnterRoot);
    } else if context.namespaces.has(CloneFlags::NEWNS) {
        builder.init(InitStep::DetachPropagation);
        builder.init(InitStep::AttachRoot { path: c_string(context.rootfs.as_str())? });
    }
    Ok(())
}

/// The root filesystem that is a directory.
fn compile_directory(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    let kind = match root_propagation(context)? {
        Some(wanted) if wanted.kind == propagation::PRIVATE => propagation::PRIVATE,
        _ => propagation::SLAVE,
    };
    builder.take(CloneTree {
        slot: Slot::ROOT,
        source: c_string(context.rootfs.as_str())?,
        recursive: true,
        attr: MountAttr { propagation: kind, ..MountAttr::default() },
        recursive_attr: MountAttr::default(),
        id_map: None,
    });
    Ok(())
}

fn root_propagation(context: &Context<'_, '_>) -> Result<Option<Propagation>, Error> {
    let Some(word) = context.linux.rootfs_propagation.as_deref() else { return Ok(None) };
    match Propagation::parse(word) {
        Some(propagation) => Ok(Some(propagation)),
        None => Err(Error::config(format!("rootfsPropagation={word} is not supported"))),
    }
}

/// Adds the propagation that the root has for the container's own mounts. Only after the pivot:
/// pivot_root(2) refuses shared mounts, and before it the change would reach the host.
pub fn compile_root_propagation(
    builder: &mut Builder,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    if let Some(wanted) = root_propagation(context)?
        && wanted.kind != propagation::PRIVATE
    {
        builder.init(InitStep::SetMountAttr {
            path: c"".into(),
            recursive: wanted.recursive,
            attr: MountAttr { propagation: wanted.kind, ..MountAttr::default() },
        });
    }
    Ok(())
}

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
        return Err(Error::config(format!("mount {destination}: option remount is not supported")));
    }
    if options.bind.is_some() || mount.kind == "bind" {
        return compile_bind(builder, context, mount, &options, &destination);
    }
    if destination.starts_with("/proc/") && mount.kind != "proc" {
        check_inside_proc(&destination)?;
    }
    if destination == "/proc" && mount.kind != "proc" && !is_off(Defence::ProcCovers) {
        return Err(Error::config(format!("mount {destination}: only procfs may be mounted here")));
    }
    if mount.kind == "cgroup" || mount.kind == "cgroup2" {
        return compile_cgroup(builder, later, context, &options, &destination);
    }
    let mut step = filesystem(&mount.kind, mount.source.as_deref(), &options, &destination)?;
    label(&mut step, &mount.kind, context)?;
    step.copy_up = options.tmpcopyup && mount.kind == "tmpfs";
    step.inherit_mode = mount.kind == "tmpfs" && options.value("mode").is_none();
    if mount.kind == "tmpfs" && step.attr.set & attr::RDONLY != 0 {
        // What is mounted below it, and the device nodes in /dev, still have to be made.
        step.attr.set &= !attr::RDONLY;
        later.push(read_only(context, step.target.path.clone()));
    }
    builder.init(InitStep::MountFs(step));
    Ok(())
}

/// Makes a tmpfs read-only once everything in it is made.
fn read_only(context: &Context<'_, '_>, path: CString) -> InitStep {
    if !context.namespaces.has(CloneFlags::NEWNS) {
        return InitStep::FreezeTmpfs { path };
    }
    let attr = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
    InitStep::SetMountAttr { path, recursive: false, attr }
}

/// Adds the SELinux label of the container's mounts.
fn label(step: &mut MountFs, kind: &str, context: &Context<'_, '_>) -> Result<(), Error> {
    if kind == "mqueue" {
        step.label = context.linux.mount_label.as_deref().map(c_string).transpose()?;
        return Ok(());
    }
    let Some(label) = confinement::mount_context(kind, context.linux)? else { return Ok(()) };
    if let Some(data) = &step.oversized {
        let (data, label) = (data.to_string_lossy(), label.to_string_lossy());
        step.oversized = Some(c_string(format!("{data},context=\"{label}\""))?);
    }
    step.parameters.push((c"context".into(), Some(label)));
    Ok(())
}

fn filesystem(
    kind: &str,
    source: Option<&str>,
    options: &MountOptions<'_>,
    destination: &str,
) -> Result<MountFs, Error> {
    let mut parameters = Vec::new();
    let mut oversized = false;
    // "ro" is an attribute of the mount here: on a superblock that others share it would fail.
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
        oversized |= value.is_some_and(|value| value.len() > LONGEST_PARAMETER);
        let value = value.map(c_string).transpose()?;
        parameters.push((c_string(key)?, value));
    }
    let in_full = oversized.then(|| c_string(options.data.join(","))).transpose()?;
    Ok(MountFs {
        kind: c_string(kind)?,
        source: c_string(source.filter(|source| !source.is_empty()).unwrap_or(kind))?,
        parameters,
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
        oversized: in_full,
    })
}

fn compile_bind(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &str,
) -> Result<(), Error> {
    let Some(source) = mount.source.as_deref() else {
        return Err(Error::config(format!("bind mount {destination}: source is missing")));
    };
    let source = absolute(context.bundle, source);
    if destination.starts_with("/proc/") {
        check_inside_proc(destination)?;
    }
    if destination == "/proc" && source != "/proc" && !is_off(Defence::ProcCovers) {
        return Err(Error::config(format!(
            "bind mount {destination}: only the host's /proc may be bound here, not {source}"
        )));
    }
    let recursive = options.bind.is_none_or(|bind| bind.recursive);
    let id_map = idmap::compile(builder, context, mount, options)?;
    let slot = builder.slot();
    let mut tree = CloneTree {
        slot,
        source: c_string(source)?,
        recursive,
        attr: MountAttr {
            set: options.attr.set,
            clear: options.attr.clear,
            // A slave hears of the host's later mounts and tells nothing back, as in runc.
            propagation: propagation_of(options).unwrap_or(propagation::SLAVE),
            userns_fd: 0,
        },
        recursive_attr: MountAttr {
            set: options.recursive_attr.set,
            clear: options.recursive_attr.clear,
            ..MountAttr::default()
        },
        id_map,
    };
    if context.caller.is_confined() && destination == "/sys" && tree.attr.set & attr::RDONLY != 0 {
        // A read-only /sys has the host's cgroups below it, of which the caller's own would stay
        // writable (CVE-2023-25809).
        tree.recursive_attr.set |= attr::RDONLY;
    }
    builder.take(tree);
    let target = Target { path: in_root(destination)?, no_symlinks: false };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}

/// The last propagation named wins; mount_setattr(2) knows one.
fn propagation_of(options: &MountOptions<'_>) -> Option<u64> {
    options.propagation.last().map(|propagation| propagation.kind)
}

fn check_inside_proc(destination: &str) -> Result<(), Error> {
    if ALLOWED_IN_PROC.contains(&destination) || is_off(Defence::ProcCovers) {
        return Ok(());
    }
    Err(Error::config(format!("{destination:?} cannot be mounted because it is inside /proc")))
}

/// /sys/fs/cgroup: a fresh mount where the container has its own cgroup namespace (cheap, and rooted
/// at its cgroup), else what the host has, bound. (A fresh cgroup2 mount from the initial cgroup
/// namespace costs about 6 ms and may change flags of the host's root: research/floor.md §8.)
fn compile_cgroup(
    builder: &mut Builder,
    later: &mut Vec<InitStep>,
    context: &Context<'_, '_>,
    options: &MountOptions<'_>,
    destination: &str,
) -> Result<(), Error> {
    let private = context.namespaces.has(CloneFlags::NEWCGROUP);
    let own = AttrChange { set: options.attr.set, clear: options.attr.clear };
    let Some(location) = context.cgroup else {
        return Err(Error::config(format!("mount {destination}: the container has no cgroup")));
    };
    if let (Some(place), true) = (&location.unified, location.is_unified()) {
        return if private {
            let step = filesystem("cgroup2", Some("cgroup"), options, destination)?;
            builder.init(InitStep::MountFs(step));
            Ok(())
        } else {
            bind_cgroup(builder, context, place.mount(), &own, destination)
        };
    }
    let parameters = [("mode", "755"), ("size", "64k")];
    let parameters: Result<Vec<(CString, Option<CString>)>, Error> = parameters
        .into_iter()
        .map(|(key, value)| Ok((c_string(key)?, Some(c_string(value)?))))
        .collect();
    let top = in_root(destination)?;
    let mut tmpfs = MountFs {
        kind: c_string("tmpfs")?,
        source: c_string("tmpfs")?,
        parameters: parameters?,
        attr: MountAttr { set: own.set & !attr::RDONLY, ..MountAttr::default() },
        target: Target { path: top.clone(), no_symlinks: false },
        label: None,
        copy_up: false,
        inherit_mode: false,
        oversized: None,
    };
    label(&mut tmpfs, "tmpfs", context)?;
    builder.init(InitStep::MountFs(tmpfs));
    let mut links = Vec::new();
    for hierarchy in &location.legacy {
        let name = hierarchy.place.mount().rsplit('/').next().unwrap_or_default();
        let below = format!("{destination}/{name}");
        if private {
            let named = hierarchy.controllers.contains(cgroup::Controller::Systemd);
            let none = named.then_some("none");
            let controllers = hierarchy.controllers.iter().map(cgroup::Controller::name);
            let words: Vec<&str> = none.into_iter().chain(controllers).collect();
            let options = MountOptions { attr: own, data: words, ..MountOptions::default() };
            let step = filesystem("cgroup", Some("cgroup"), &options, &below)?;
            builder.init(InitStep::MountFs(step));
        } else {
            bind_cgroup(builder, context, hierarchy.place.directory(), &own, &below)?;
        }
        // Co-mounted controllers are found under each of their names: cpu beside cpu,cpuacct.
        for link in name.split(',').filter(|link| *link != name) {
            links.push(devices::link(link, name)?);
        }
    }
    if !links.is_empty() {
        builder.init(InitStep::MakeLinks { directory: top.clone(), links });
    }
    if own.set & attr::RDONLY != 0 {
        later.push(read_only(context, top));
    }
    Ok(())
}

fn bind_cgroup(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    source: &str,
    change: &AttrChange,
    destination: &str,
) -> Result<(), Error> {
    let slot = builder.slot();
    // What a caller without privileges may write to in the host's hierarchy, its container may as well:
    // all of its cgroups, not just the container's (CVE-2023-25809).
    let undefended = is_off(Defence::CgroupReadOnly);
    let protection = if context.caller.is_confined() && !undefended { attr::RDONLY } else { 0 };
    let taken_back = if undefended { attr::RDONLY } else { 0 };
    builder.take(CloneTree {
        slot,
        source: c_string(source)?,
        recursive: true,
        attr: MountAttr {
            set: (change.set & !taken_back) | protection,
            clear: change.clear,
            propagation: propagation::SLAVE,
            userns_fd: 0,
        },
        recursive_attr: MountAttr { set: protection, ..MountAttr::default() },
        id_map: None,
    });
    let target = Target { path: in_root(destination)?, no_symlinks: false };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}

/// The words of a mount's attributes, for reports.
pub fn attr_words(attr: &MountAttr) -> String {
    const WORDS: [(u64, &str); 5] = [
        (attr::RDONLY, "ro"),
        (attr::NOSUID, "nosuid"),
        (attr::NODEV, "nodev"),
        (attr::NOEXEC, "noexec"),
        (0x0020_0000, "nosymfollow"),
    ];
    let words: Vec<&str> =
        WORDS.iter().filter(|(bit, _)| attr.set & bit != 0).map(|(_, word)| *word).collect();
    words.join(",")
}
