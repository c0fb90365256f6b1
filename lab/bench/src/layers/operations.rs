//! Mount operations on the host, as the kernel reports them, beside those in the article "Mount Mayhem at Netflix".

use super::Case;
use crate::Error;
use crate::container::Container;
use crate::stand::{Entrant, Stand};
use report::Table;
use rustix::fd::AsFd;
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::path::Path;
use sys::fanotify::MountWatch;

/// The number of containers for which the article counts mount operations.
const CONTAINERS: u64 = 100;

/// The effect of one container of a case on the host's mount table.
#[derive(Debug, Serialize)]
pub(crate) struct Counted {
    #[serde(flatten)]
    case: Case,
    /// Mounts attached and detached in the host's mount namespace by one container.
    operations: u64,
}

/// Runs one container of every case that has not failed, and counts the mount operations. Returns no counts if the
/// kernel does not report mounts (before Linux 6.15).
///
/// # Errors
/// Errors of the harness itself.
pub(super) fn count(stand: &Stand, racers: &[(Case, Entrant)]) -> Result<Vec<Counted>, Error> {
    let mut counted = Vec::new();
    let Some(host) = Host::watch()? else { return Ok(counted) };
    for (case, racer) in racers.iter().filter(|(_, racer)| racer.failure.is_none()) {
        let container = Container::new(stand, racer, &[])?;
        host.operations()?;
        if container.run().is_ok() {
            counted.push(Counted { case: case.clone(), operations: host.operations()? });
        }
    }
    Ok(counted)
}

/// Watches the mount namespace in which the runtime is started.
struct Host(MountWatch);

impl Host {
    /// Returns `None` if the kernel does not report mounts.
    fn watch() -> Result<Option<Self>, Error> {
        let path = Path::new("/proc/self/ns/mnt");
        let namespace = File::open(path).map_err(Error::at("open", path))?;
        match MountWatch::new(namespace.as_fd()) {
            Ok(events) => Ok(Some(Self(events))),
            Err(Errno::INVAL | Errno::NOSYS) => Ok(None),
            Err(errno) => Err(Error::errno("watch mounts of", path)(errno)),
        }
    }

    /// Returns the number of mount operations since the last call.
    fn operations(&self) -> Result<u64, Error> {
        let events = self.0.events();
        let events = events.map_err(Error::errno("read mount events of", Path::new("/")))?;
        Ok(u64::from(events.attached) + u64::from(events.detached))
    }
}

/// Formats the article's table: the operations of containerd by the article's formula, and those counted here.
pub(super) fn text(counted: &[Counted]) -> String {
    let mut layers: Vec<usize> = counted.iter().map(|of| of.case.layers).collect();
    layers.sort_unstable();
    layers.dedup();
    if layers.is_empty() {
        return "This kernel does not report mounts (Linux 6.15 does): none were counted.\n"
            .to_owned();
    }
    let headings: Vec<String> =
        layers.iter().map(|layers| report::count::counted(*layers, "layer")).collect();
    let title = format!("mount operations on the host, {CONTAINERS} containers");
    let headings: Vec<&str> =
        [title.as_str(), "by"].into_iter().chain(headings.iter().map(String::as_str)).collect();
    let mut table = Table::new(&headings);
    // Up to 2.1, containerd makes a mount per layer and the overlay's mount, and then an unmount per layer. It does all
    // this twice: to look up the user's name, and for the container.
    for name in ["containerd up to 2.1", "containerd 2.2", "containerd 2.3"] {
        let cells = layers.iter().map(|&layers| {
            let layers = layers as u64;
            let operations = match name {
                "containerd up to 2.1" => 2 * (1 + layers + layers),
                "containerd 2.2" => 2 * (1 + 1 + 1),
                _ => (1 + 1 + 1) + 1,
            };
            (CONTAINERS * operations).to_string()
        });
        table.row([name.to_owned(), "its code".to_owned()].into_iter().chain(cells).collect());
    }
    let mut ways = Vec::new();
    for of in counted {
        if !ways.contains(&of.case.way()) {
            ways.push(of.case.way());
        }
    }
    for way in ways {
        let cells = layers.iter().map(|&layers| {
            let of = counted.iter().find(|of| of.case.layers == layers && of.case.way() == way);
            of.map_or_else(|| "-".to_owned(), |of| (CONTAINERS * of.operations).to_string())
        });
        let names = [way.clone(), "the kernel".to_owned()];
        table.row(names.into_iter().chain(cells).collect());
    }
    format!("{table}\n")
}
