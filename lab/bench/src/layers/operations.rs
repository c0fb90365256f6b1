//! Mount operations on the host, as the kernel reports them, beside those in the article "Mount Mayhem at Netflix".

use super::Case;
use crate::harness::*;
use rustix::fd::AsFd;
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
pub(super) fn count(
    stand: &Stand,
    cases: &[Case],
    racers: &[Entrant],
) -> Result<Vec<Counted>, Error> {
    let path = Path::new("/proc/self/ns/mnt");
    let namespace = File::open(path).map_err(Error::at("open", path))?;
    let host = match MountWatch::new(namespace.as_fd()) {
        Err(Errno::INVAL | Errno::NOSYS) => return Ok(Vec::new()),
        watch => watch.map_err(Error::errno("watch mounts of", path))?,
    };
    let operations = || -> Result<u64, Error> {
        let events = host.events().map_err(Error::errno("read mount events of", path))?;
        Ok(u64::from(events.attached) + u64::from(events.detached))
    };
    let mut counted = Vec::new();
    for (case, racer) in cases.iter().zip(racers).filter(|(_, racer)| !racer.is_out()) {
        let container = Container::new(stand, racer, &[])?;
        operations()?;
        if container.run().is_ok() {
            counted.push(Counted { case: case.clone(), operations: operations()? });
        }
    }
    Ok(counted)
}

/// Adds the mount operations of [`CONTAINERS`] containers: those of containerd by the article's formula, and those
/// counted here.
pub(super) fn add_to(figures: &mut Figures, counted: &[Counted]) {
    for Counted { case, operations } in counted {
        let name = format!(
            "mount operations, {CONTAINERS} containers of {}",
            report::count::counted(case.layers, "layer")
        );
        let layers = case.layers as u64;
        // 2.0.0 to 2.0.6 and 2.1.0 to 2.1.4 make a mount per layer and the overlay's mount, and then an unmount per layer. They
        // do all this twice: to look up the user's name, and for the container.
        let by_code = [
            ("containerd 2.1.4, by its code", 2 * (1 + layers + layers)),
            ("containerd 2.2, by its code", 2 * (1 + 1 + 1)),
            ("containerd 2.3, by its code", (1 + 1 + 1) + 1),
        ];
        let all = by_code.map(|(by, operations)| (by.to_owned(), operations));
        for (by, operations) in all.into_iter().chain([(case.way(), *operations)]) {
            figures.set(&name, "operations", &by, (CONTAINERS * operations) as f64);
        }
    }
}
