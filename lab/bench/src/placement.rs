//! The placements of starts: dayfly once more for each set of CPUs that are closer together than all are.

use crate::base::*;
use crate::stand::Entrant;
use host::locks::{Placement, placements};
use topology::Topology;

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
