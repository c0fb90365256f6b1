//! Device nodes and links of /dev.

use alloc::vec::Vec;
use spec::{Device, DeviceKind};

use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{c_string, clean, in_root, split};
use crate::step::{DeviceSource, InitStep, Link, Node, Target};

/// The devices every container has (runtime-spec, config-linux.md, "Default Devices").
const DEFAULT: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/tty", 5, 0),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
];

const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// One node, wherever it comes from.
struct Wanted<'a> {
    path: &'a str,
    file_type: u32,
    permissions: u32,
    number: (u32, u32),
    uid: u32,
    gid: u32,
}

/// Adds nodes and links, unless all of /dev is bound from outside.
pub fn compile(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    if context.dev_is_bound() {
        return Ok(());
    }
    let wanted = wanted(&context.linux.devices)?;
    if context.namespaces.user() || context.caller.is_confined() {
        // mknod(2) is not for user namespaces: the host's nodes are bound, verified.
        for device in &wanted {
            bind(builder, device)?;
        }
    } else {
        make(builder, &wanted)?;
    }
    links(builder)
}

fn wanted<'a>(devices: &'a [Device<'a>]) -> Result<Vec<Wanted<'a>>, Error> {
    let mut wanted = Vec::with_capacity(DEFAULT.len() + devices.len());
    for (path, major, minor) in DEFAULT {
        if devices.iter().all(|device| clean(&device.path) != path) {
            wanted.push(Wanted {
                path,
                file_type: DeviceKind::Char.file_type(),
                permissions: 0o666,
                number: (major, minor),
                uid: 0,
                gid: 0,
            });
        }
    }
    for device in devices {
        // /dev/ptmx is the container's own, whatever the list says (it links into its devpts).
        if clean(&device.path) == "/dev/ptmx" {
            continue;
        }
        let number = |number: i64, what| {
            u32::try_from(number).map_err(|_| {
                let path = &device.path;
                Error::config(alloc::format!("device {path}: {what} number {number} is negative"))
            })
        };
        wanted.push(Wanted {
            path: &device.path,
            file_type: device.kind.file_type(),
            permissions: device.file_mode.unwrap_or(0o666) & 0o7777,
            number: (number(device.major, "major")?, number(device.minor, "minor")?),
            uid: device.uid.unwrap_or(0),
            gid: device.gid.unwrap_or(0),
        });
    }
    Ok(wanted)
}

/// Groups nodes by directory, so that init opens each directory once.
fn make(builder: &mut Builder, wanted: &[Wanted<'_>]) -> Result<(), Error> {
    let mut groups: Vec<(alloc::string::String, Vec<Node>)> = Vec::new();
    for device in wanted {
        let (directory, name) = split(device.path);
        let node = Node {
            name: c_string(name)?,
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
        builder.init(InitStep::MakeDevices { directory: in_root(&directory)?, nodes });
    }
    Ok(())
}

fn bind(builder: &mut Builder, device: &Wanted<'_>) -> Result<(), Error> {
    let slot = builder.slot();
    let (major, minor) = device.number;
    builder.take_device(DeviceSource {
        slot,
        path: c_string(device.path)?,
        file_type: device.file_type,
        major,
        minor,
    });
    let target = Target { path: in_root(device.path)?, no_symlinks: false };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}

fn links(builder: &mut Builder) -> Result<(), Error> {
    let mut links = Vec::with_capacity(LINKS.len() + 2);
    for (name, text) in LINKS {
        links.push(link(name, text)?);
    }
    links.push(Link { only_if: Some(c_string("kcore")?), ..link("core", "/proc/kcore")? });
    links.push(Link { replace: true, ..link("ptmx", "pts/ptmx")? });
    builder.init(InitStep::MakeLinks { directory: in_root("/dev")?, links });
    Ok(())
}

/// A link that leaves alone what is there already.
pub(crate) fn link(name: &str, text: &str) -> Result<Link, Error> {
    Ok(Link { name: c_string(name)?, text: c_string(text)?, replace: false, only_if: None })
}
