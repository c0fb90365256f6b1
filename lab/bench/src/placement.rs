//! The placements of starts: dayfly once more for each set of CPUs that are closer together than all are.

use crate::base::*;
use crate::stand::Entrant;
use host::locks::{Placement, placements};
use topology::Topology;

/// Adds each dayfly once more for every placement of its starts that differs from all CPUs.
///
/// # Errors
/// The topology can't be read; all CPUs are equally close.
pub fn placed(entrants: Vec<Entrant>) -> Result<Vec<Entrant>, Error> {
    placed_on(entrants, &others(&here()?))
}

fn placed_on(mut entrants: Vec<Entrant>, places: &[Placement]) -> Result<Vec<Entrant>, Error> {
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
    here().is_ok_and(|host| !others(&host).is_empty())
}

fn here() -> Result<Topology, Error> {
    Ok(Topology::read("").map_err(report::Error::from)?)
}

/// Returns the placements that are not all CPUs.
fn others(host: &Topology) -> Vec<Placement> {
    placements(host, &host.online()).0.split_off(1)
}

#[cfg(test)]
#[path = "../../../lib/topology/tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dayfly_runs_from_each_placement() {
        let entrants = || ["dayfly", "crun"].map(Entrant::named).to_vec();
        let of = |host: &str| {
            let mut entrants = entrants();
            entrants[0].runtime.version = "dayfly version 0".to_owned();
            placed_on(entrants, &others(&common::Sysroot::of(host).topology()))
        };
        let placed = of("two-socket-smt").expect("placements");
        let names: Vec<&str> = placed.iter().map(|it| it.name.as_str()).collect();
        let expected = [
            "dayfly",
            "crun",
            "dayfly, one a core",
            "dayfly, one node",
            "dayfly, one a core of one node",
        ];
        assert_eq!(names, expected);
        assert_eq!(placed[3].start_options, ["--start-cpus", "0-23,48-71"]);
        assert!(
            of("chiplets")
                .expect("caches")
                .last()
                .is_some_and(|it| it.name.ends_with("level 3 cache"))
        );
        assert!(placed_on(entrants(), &[]).is_err());
    }
}
