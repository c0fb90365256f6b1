//! The mounts of config.json as steps.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use spec::Mount;
use spec::mount_options::{self, AttrChange, MountOptions, Propagation};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, attr, propagation};

use crate::builder::Builder;
use crate::context::Context;
use crate::path::{absolute, c_string, clean, in_root};
use crate::step::{CloneTree, HostStep, InitStep, MountFs, Oversized, Slot, Target};
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
        propagation: alloc::vec![Propagation { kind, recursive: true }],
        attr: MountAttr::default(),
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
        return compile_remount(builder, later, context, mount, &options, &destination);
    }
    if destination == "/" {
        // Processes that are in the root already would not see it.
        return Err(Error::config(format!(
            "mount {destination}: the mountpoint is on the top of the rootfs: name it in root.path instead"
        )));
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
    step.inherit_owner = options.value("uid").is_none() && options.value("gid").is_none();
    if mount.kind == "tmpfs" && step.attr.set & attr::RDONLY != 0 {
        // What is mounted below it, and the device nodes in /dev, still have to be made.
        step.attr.set &= !attr::RDONLY;
        later.push(read_only(context, step.target.path.clone()));
    }
    if names_host_path(mount)
        && step.oversized.is_none()
        && !context.namespaces.user()
        && !context.caller.is_confined()
    {
        let (slot, target) = (builder.slot(), step.target.clone());
        builder.host(HostStep::MakeTree { slot, filesystem: step });
        builder.init(InitStep::AttachTree { slot, target });
        return Ok(());
    }
    builder.init(InitStep::MountFs(step));
    Ok(())
}

/// Whether a new file system is made from something that a path names: a device, layers of an overlay.
/// Sources of bind mounts are others' business.
fn names_host_path(mount: &Mount<'_>) -> bool {
    const WITHOUT: [&str; 8] =
        ["proc", "tmpfs", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "bind"];
    if WITHOUT.contains(&mount.kind.as_str()) {
        return false;
    }
    // `//host/share` is found through the container's network.
    let named =
        |text: &str| text.starts_with('/') && !text.starts_with("//") || text.contains("=/");
    let mut texts = mount.source.iter().chain(&mount.options);
    texts.any(|text| named(text)) && MountOptions::parse(&mount.options).bind.is_none()
}

/// Whether it is init that makes such a file system after all, since mount(2) makes none that is mounted
/// nowhere, and so has to see the host's mounts.
pub fn needs_host_table(mount: &Mount<'_>) -> bool {
    mount.options.iter().any(|option| option.len() > LONGEST_PARAMETER) && names_host_path(mount)
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
    if let Some(options) = &mut step.oversized {
        let (data, label) = (options.data.to_string_lossy(), label.to_string_lossy());
        options.data = c_string(format!("{data},context=\"{label}\""))?;
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
    let parameters = parameters(options)?;
    let is_oversized = |(_, value): &(CString, Option<CString>)| {
        value.as_ref().is_some_and(|value| value.as_bytes().len() > LONGEST_PARAMETER)
    };
    let in_full = match parameters.iter().any(is_oversized) {
        true => Some(oversized(options)?),
        false => None,
    };
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
        inherit_owner: false,
        oversized: in_full,
    })
}

/// Options of the file system, for fsconfig(2).
fn parameters(options: &MountOptions<'_>) -> Result<Vec<(CString, Option<CString>)>, Error> {
    let mut parameters = Vec::new();
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
        let value = value.map(c_string).transpose()?;
        parameters.push((c_string(key)?, value));
    }
    Ok(parameters)
}

/// The same with all attributes, for mount(2).
fn oversized(options: &MountOptions<'_>) -> Result<Oversized, Error> {
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
    Ok(Oversized { data: c_string(options.data.join(","))?, flags })
}

/// Changes what is mounted already. Only what the options name is changed: with mount(2) everything
/// else would be taken back. A file system is only touched where options of its own are named.
fn compile_remount(
    builder: &mut Builder,
    later: &mut Vec<InitStep>,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &str,
) -> Result<(), Error> {
    let refused = |why| Err(Error::config(format!("mount {destination}: remount {why}")));
    if !context.namespaces.has(CloneFlags::NEWNS) {
        return refused("takes a mount namespace of the container's own");
    }
    if options.id_map.is_some() || !mount.uid_mappings.is_empty() {
        return refused("cannot change the ids of a mount");
    }
    let path = in_root(destination)?;
    let mut steps = Vec::new();
    let is_bind = options.bind.is_some() || mount.kind == "bind";
    let parameters = if is_bind { Vec::new() } else { parameters(options)? };
    if !parameters.is_empty() {
        steps.push(InitStep::Reconfigure { path: path.clone(), parameters });
    }
    let mut set = |recursive, attr: MountAttr| {
        if !attr.is_empty() {
            steps.push(InitStep::SetMountAttr { path: path.clone(), recursive, attr });
        }
    };
    for (change, recursive) in [(options.attr, false), (options.recursive_attr, true)] {
        let AttrChange { set: bits, clear } = change;
        set(recursive, MountAttr { set: bits, clear, ..MountAttr::default() });
    }
    for Propagation { kind, recursive } in &options.propagation {
        set(*recursive, MountAttr { propagation: *kind, ..MountAttr::default() });
    }
    // What is mounted below it, and the device nodes in /dev, still have to be made.
    match (options.attr.set | options.recursive_attr.set) & attr::RDONLY {
        0 => builder.init.append(&mut steps),
        _ => later.append(&mut steps),
    }
    Ok(())
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
        propagation: propagation_of_bind(context, options, recursive)?,
        attr: MountAttr {
            set: options.attr.set,
            clear: options.attr.clear,
            ..MountAttr::default()
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

/// Changes of the propagation of a bound tree, in the order of the options. Before them it is a slave: that
/// hears of the host's later mounts and tells nothing back, as in runc; so a shared one is shared among
/// containers, and with the host only where the root is.
fn propagation_of_bind(
    context: &Context<'_, '_>,
    options: &MountOptions<'_>,
    recursive: bool,
) -> Result<Vec<Propagation>, Error> {
    let root = root_propagation(context)?;
    let shares = root.is_some_and(|root| root.kind == propagation::SHARED);
    let first = options.propagation.first();
    let mut changes = Vec::with_capacity(1 + options.propagation.len());
    if !(shares && first.is_some_and(|first| first.kind == propagation::SHARED)) {
        changes.push(Propagation { kind: propagation::SLAVE, recursive });
    }
    for change in &options.propagation {
        let change = Propagation { kind: change.kind, recursive: change.recursive && recursive };
        match change.kind {
            // Nothing is left of those before it.
            propagation::PRIVATE | propagation::UNBINDABLE if change.recursive == recursive => {
                changes.clear();
            }
            propagation::SLAVE if changes.last() == Some(&change) => continue,
            _ => {}
        }
        changes.push(change);
    }
    Ok(changes)
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
        inherit_owner: false,
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
        propagation: alloc::vec![Propagation { kind: propagation::SLAVE, recursive: true }],
        attr: MountAttr {
            set: (change.set & !taken_back) | protection,
            clear: change.clear,
            ..MountAttr::default()
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
