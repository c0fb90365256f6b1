//! Device nodes and links of /dev.

use alloc::vec::Vec;

use spec::{Device, DeviceKind, IdMapping, InRoot, Spec};
use sys::defence::{Defence, is_off};

use crate::builder::Builder;
use crate::context::Context;
use crate::path::{c_str, in_root};
use crate::step::{
    DeviceSource, InitStep, Link, Node, OwnNode, OwnNodes, ParentStep, Slot, Target,
};
use crate::{Error, idmap, keep, mounts};

/// The devices that every container has (runtime-spec, config-linux.md, "Default Devices").
const DEFAULT: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/tty", 5, 0),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
];

/// Returns the paths of the device nodes that a container gets, if its /dev is not a bind mount.
pub fn device_paths<'a>(spec: &'a Spec<'a>) -> Vec<InRoot<'a>> {
    let own = spec.linux.iter().flat_map(|linux| linux.devices.iter());
    let own = own.map(|device| device.path.clone());
    DEFAULT.iter().map(|(path, ..)| InRoot::known(path)).chain(own).collect()
}

/// The links in /dev. Only the last one replaces an existing file.
const LINKS: [Link; 6] = [
    Link::new(c"fd", c"/proc/self/fd"),
    Link::new(c"stdin", c"/proc/self/fd/0"),
    Link::new(c"stdout", c"/proc/self/fd/1"),
    Link::new(c"stderr", c"/proc/self/fd/2"),
    Link { only_if: Some(c"kcore"), ..Link::new(c"core", c"/proc/kcore") },
    Link { replace: true, ..Link::new(c"ptmx", c"pts/ptmx") },
];

/// A device node to provide in the container's /dev.
struct Wanted<'a> {
    path: InRoot<'a>,
    file_type: u32,
    permissions: u32,
    number: (u32, u32),
    uid: u32,
    gid: u32,
}

impl Wanted<'_> {
    /// Returns the node that covers masked files.
    fn null() -> Self {
        let file_type = DeviceKind::Char.file_type();
        let number = (1, 3);
        Self {
            path: InRoot::known("/dev/null"),
            file_type,
            permissions: 0o666,
            number,
            uid: 0,
            gid: 0,
        }
    }
}

/// The origin of the container's device nodes.
enum Origin {
    /// Init creates the nodes.
    Init,
    /// The parent creates the nodes on a separate file system. The user namespace in the slot, if any, maps the nodes'
    /// owners.
    Parent(Option<Slot>),
    /// The host's nodes are bind-mounted.
    Host,
}

/// Chooses the origin of the nodes. mknod(2) fails in user namespaces. So for a container in a user namespace, the
/// parent creates nodes with the requested number, mode and owner, if the parent has root's rights and the kernel can
/// copy single nodes. If not, the host's nodes are verified and bind-mounted.
fn origin(builder: &mut Builder, context: &Context<'_, '_>) -> Result<Origin, Error> {
    if context.request.caller.is_confined() {
        return Ok(Origin::Host);
    }
    if !context.namespaces.user() {
        return Ok(Origin::Init);
    }
    if is_off(Defence::OwnNodes) || !context.request.kernel.copies_detached() {
        return Ok(Origin::Host);
    }
    match idmap::joined_user_namespace(context) {
        None => Ok(Origin::Parent(None)),
        // The mappings are not in the configuration, so the joined namespace itself is used for the id mapping. (tmpfs
        // supports id mapping since Linux 6.3.)
        Some(path) => Ok(Origin::Parent(Some(idmap::joined(builder, path)?))),
    }
}

/// Adds the node that covers masked files. Unless /dev is a bind mount, also adds the other nodes and the links of
/// /dev.
pub fn compile(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    let masks = context.linux.masked_paths.iter().any(|path| !path.is_empty());
    let wanted = match context.dev_is_bound() {
        true => Vec::new(),
        false => wanted(&context.linux.devices)?,
    };
    let origin = origin(builder, context)?;
    if let Origin::Parent(id_map) = origin {
        if masks || !wanted.is_empty() {
            own(builder, context, id_map, masks, &wanted)?;
        }
    } else {
        if masks {
            lend(builder, Slot::NULL, &Wanted::null())?;
        }
        if matches!(origin, Origin::Init) {
            make(builder, &wanted)?;
        } else {
            for device in &wanted {
                let slot = builder.slot();
                lend(builder, slot, device)?;
                attach(builder, slot, device)?;
            }
        }
    }
    if !context.dev_is_bound() {
        links(builder);
    }
    Ok(())
}

fn wanted<'a>(devices: &'a [Device<'a>]) -> Result<Vec<Wanted<'a>>, Error> {
    let mut wanted = Vec::with_capacity(DEFAULT.len() + devices.len());
    for (path, major, minor) in DEFAULT {
        if devices.iter().all(|device| device.path != path) {
            wanted.push(Wanted {
                path: InRoot::known(path),
                file_type: DeviceKind::Char.file_type(),
                permissions: 0o666,
                number: (major, minor),
                uid: 0,
                gid: 0,
            });
        }
    }
    for device in devices {
        // /dev/ptmx is always a link into the container's devpts, even if the configuration lists it as a device.
        if device.path == "/dev/ptmx" {
            continue;
        }
        let number = |number: i64, what| {
            u32::try_from(number).map_err(|_| {
                let path = &device.path;
                Error::config(alloc::format!("device {path}: {what} number {number} is negative"))
            })
        };
        wanted.push(Wanted {
            path: device.path.clone(),
            file_type: device.kind.file_type(),
            permissions: device.file_mode.unwrap_or(0o666) & 0o7777,
            number: (number(device.major, "major")?, number(device.minor, "minor")?),
            uid: device.uid.unwrap_or(0),
            gid: device.gid.unwrap_or(0),
        });
    }
    Ok(wanted)
}

/// Adds the steps that create nodes, one step per directory, so that init opens each directory once.
fn make(builder: &mut Builder, wanted: &[Wanted<'_>]) -> Result<(), Error> {
    let mut groups: Vec<(InRoot<'_>, Vec<Node>)> = Vec::new();
    for device in wanted {
        let (directory, name) = device.path.split();
        let node = Node {
            name: c_str(name)?,
            mode: device.file_type | device.permissions,
            device: device.number,
            uid: device.uid,
            gid: device.gid,
        };
        match groups.iter_mut().find(|(known, _)| *known == directory) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((directory, alloc::vec![node])),
        }
    }
    for (directory, nodes) in groups {
        builder.init(InitStep::MakeDevices {
            directory: in_root(&directory)?,
            nodes: keep::all(nodes),
        });
    }
    Ok(())
}

/// Adds a step that makes a detached bind mount of a device node of the host.
fn lend(builder: &mut Builder, slot: Slot, device: &Wanted<'_>) -> Result<(), Error> {
    builder.take_device(of_host(slot, device)?);
    Ok(())
}

/// Returns the host's device node, as the source of a bind mount.
fn of_host(slot: Slot, device: &Wanted<'_>) -> Result<DeviceSource, Error> {
    let Wanted { file_type, number: (major, minor), .. } = *device;
    Ok(DeviceSource { slot, path: c_str(device.path.as_str())?, file_type, major, minor })
}

fn attach(builder: &mut Builder, slot: Slot, device: &Wanted<'_>) -> Result<(), Error> {
    let target = Target { path: in_root(&device.path)?, no_symlinks: false };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}

/// Adds the step in which the parent creates nodes for the container.
fn own(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    id_map: Option<Slot>,
    masks: bool,
    wanted: &[Wanted<'_>],
) -> Result<(), Error> {
    let Context { linux, .. } = context;
    let outside = |mappings: &[IdMapping], id| match id_map {
        Some(_) => id,
        None => outside(mappings, id),
    };
    let null = Wanted::null();
    let mask = masks.then_some((Slot::NULL, &null)).into_iter();
    let slots: Vec<Slot> = wanted.iter().map(|_| builder.slot()).collect();
    let devices = slots.iter().copied().zip(wanted);
    let mut nodes = Vec::with_capacity(1 + wanted.len());
    for (number, (slot, device)) in mask.chain(devices).enumerate() {
        // mountinfo shows this name. The number makes it unique, because nodes in different directories may have the
        // same name.
        let (_, name) = device.path.split();
        let node = Node {
            name: c_str(alloc::format!("{number}-{name}"))?,
            mode: device.file_type | device.permissions,
            device: device.number,
            uid: outside(&linux.uid_mappings, device.uid),
            gid: outside(&linux.gid_mappings, device.gid),
        };
        nodes.push(OwnNode { node, host: of_host(slot, device)? });
    }
    let filesystem = mounts::of_nodes(context)?;
    builder.parent(ParentStep::MakeNodes(OwnNodes { filesystem, id_map, nodes }));
    for (slot, device) in slots.into_iter().zip(wanted) {
        attach(builder, slot, device)?;
    }
    Ok(())
}

/// Returns the host's id for an id of the container. An unmapped id becomes 0, the host's root, which the container
/// sees as the overflow id, like any other unmapped owner.
fn outside(mappings: &[IdMapping], id: u32) -> u32 {
    if mappings.is_empty() {
        return id;
    }
    let of = |map: &IdMapping| {
        let at = id.checked_sub(map.container_id).filter(|at| *at < map.size)?;
        map.host_id.checked_add(at)
    };
    mappings.iter().find_map(of).unwrap_or(0)
}

fn links(builder: &mut Builder) {
    builder.init(InitStep::MakeLinks { directory: c"dev", links: &LINKS });
}
