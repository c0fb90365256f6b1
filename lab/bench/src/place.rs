//! The names and the directories of test stands, and the placements of starts.

use crate::base::*;
use crate::stand::Entrant;
use host::locks::{Placement, placements};
use rustix::fs::statfs;
use topology::Topology;

/// The prefix of all stands' names.
pub const PREFIX: &str = "dayfly-bench-";
/// TMPFS_MAGIC of statfs(2).
const TMPFS: i64 = 0x0102_1994;

/// Returns the directory of bundles of the stand with this name.
pub(crate) fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

/// Returns the state directory of the stand with this name.
pub(crate) fn state(name: &str) -> PathBuf {
    tmpfs().join(name)
}

/// Returns whether a directory is on a tmpfs.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.f_type == TMPFS)
}

/// Returns /run, the host's directory for files that last until reboot, or /dev/shm if only /dev/shm is on a tmpfs.
fn tmpfs() -> PathBuf {
    ["/run", "/dev/shm"]
        .into_iter()
        .find(|path| is_in_memory(Path::new(path)))
        .unwrap_or("/run")
        .into()
}

/// Adds each dayfly once more for every placement of its starts that differs from all CPUs.
///
/// # Errors
/// The topology can't be read; all CPUs are equally close.
pub fn placed(mut entrants: Vec<Entrant>) -> Result<Vec<Entrant>, Error> {
    let places = others()?;
    if places.is_empty() {
        bail!("--placements: all CPUs here are equally close: one node, one level 3 cache, no SMT");
    }
    let own = entrants.iter().filter(|entrant| entrant.runtime.is_dayfly());
    let placed = |entrant: &Entrant, place: &Placement| {
        let mut placed = entrant.called(format!("{}, {}", entrant.name, place.name));
        placed.start_options.extend(["--start-cpus".to_owned(), place.cpus.to_string()]);
        placed
    };
    let placed: Vec<_> =
        own.flat_map(|own| places.iter().map(|place| placed(own, place))).collect();
    entrants.extend(placed);
    Ok(entrants)
}

/// Returns whether this host has several placements of starts.
pub fn has_several() -> bool {
    others().is_ok_and(|places| !places.is_empty())
}

/// Returns the placements that are not all CPUs.
fn others() -> Result<Vec<Placement>, Error> {
    let topology = Topology::read("").map_err(report::Error::from)?;
    Ok(placements(&topology, &topology.online()).0.split_off(1))
}
