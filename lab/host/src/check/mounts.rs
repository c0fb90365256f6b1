//! The mount table, and the mount operations of many containers that have many layers and their own id ranges.

use super::images;
use super::verdict::{Section, Verdict};
use crate::engines::Containerd;
use crate::facts::{Facts, Mount, mounts};
use crate::measure::statistics::median;
use report::count::counted;
use std::fs;
use std::time::Instant;

/// The number of concurrent starts for which mount operations are counted, as in the article on mount lock contention.
const BURST: u64 = 100;
/// The minimum number of layers with which nodes stalled in the article on mount lock contention.
const MANY_LAYERS: u64 = 50;
/// The minimum number of mounts with which a copy of the table takes noticeable time.
const LONG: usize = 1000;
/// The number of timed reads of the table.
const READS: usize = 5;

/// Returns the verdicts on mounts.
pub fn section(facts: &Facts, measure: bool) -> Section {
    let text = facts.text("/proc/self/mountinfo").unwrap_or_default();
    let table = mounts(&text);
    let containerd = Containerd::find(facts);
    let verdicts = vec![
        length(facts, table.len(), measure && facts.is_live()),
        risk(facts, &table, containerd.as_ref()),
        engine(containerd.as_ref()),
    ];
    Section { title: "mounts", verdicts }
}

/// Checks the length of the table and the time to read it.
fn length(facts: &Facts, count: usize, measure: bool) -> Verdict {
    let time = measure.then(|| {
        let path = facts.path("/proc/self/mountinfo");
        let read = |_| {
            let start = Instant::now();
            fs::read(&path).ok().map(|_| start.elapsed().as_secs_f64() * 1e6)
        };
        median(&mut (0..READS).filter_map(read).collect::<Vec<f64>>())
    });
    let case = match (count, time.unwrap_or(0.0)) {
        (_, slow) if slow > 1e6 => "slow",
        (count, slow) if count > LONG || slow > 1e5 => "long",
        _ => "short",
    };
    Verdict::of("mounts.table", case)
        .with("count", counted(count, "mount"))
        .with("read", time.map_or_else(String::new, |time| format!(", read in {time:.0} µs")))
        .figure("mounts", count)
        .known("read_us", time)
}

/// Judges the risk that the host stalls because of many containers that have many layers and user namespaces.
fn risk(facts: &Facts, table: &[Mount], containerd: Option<&Containerd>) -> Verdict {
    let overlays: Vec<&Mount> = table.iter().filter(|mount| mount.kind == "overlay").collect();
    let mounted = overlays.iter().map(|mount| layers(mount)).max().unwrap_or(0);
    let idmapped = table.iter().filter(|mount| mount.options.contains("idmapped")).count();
    let (engine, stored) = images::largest(facts).unwrap_or_default();
    let most = mounted.max(stored);
    let mut parts = vec![match overlays.len() {
        0 => "no overlay mounted".to_owned(),
        1 => format!("1 overlay mounted, {}", counted(mounted, "layer")),
        count => format!("{count} overlays mounted, at most {}", counted(mounted, "layer")),
    }];
    if stored > 0 {
        parts.push(format!("largest image {} ({engine})", counted(stored, "layer")));
    }
    if idmapped > 0 {
        parts.push(counted(idmapped as u64, "id-mapped mount"));
    }
    let case = match (most, containerd.is_some_and(Containerd::maps_each_layer)) {
        (0, _) => "none",
        (MANY_LAYERS.., true) => "many",
        (10.., true) => "some",
        _ => "good",
    };
    let theirs = containerd.map(|it| it.mount_operations(BURST, most));
    let by_layer = BURST * 2 * (1 + 2 * most);
    Verdict::of("mounts.layers", case)
        .with("fact", parts.join("; "))
        .with("burst", BURST)
        .with("operations", grouped(theirs.unwrap_or(by_layer)))
        .with("engine", if theirs.is_some() { "this containerd" } else { "layer" })
        .figure("overlays", overlays.len())
        .figure("layers_mounted", mounted)
        .figure("layers_stored", stored)
        .figure("idmapped", idmapped)
        .figure("operations_by_layer", by_layer)
        .figure("operations_dayfly", BURST)
        .known("operations_containerd", theirs)
}

/// Returns the number of layers of an overlay. The option `lowerdir` contains names separated by colons; each option
/// `lowerdir+` contains one name.
fn layers(mount: &Mount) -> u64 {
    let options = mount.super_options.split(',');
    let count = |option: &str| match option.split_once('=') {
        Some(("lowerdir", names)) => names.split(':').filter(|name| !name.is_empty()).count(),
        Some(("lowerdir+", _)) => 1,
        _ => 0,
    };
    options.map(count).sum::<usize>() as u64
}

fn engine(containerd: Option<&Containerd>) -> Verdict {
    let Some(containerd) = containerd else { return Verdict::of("mounts.containerd", "none") };
    let case = match containerd {
        it if it.maps_each_layer() => "each_layer",
        it if it.looks_unmapped() => "once",
        it if it.maps_once() => "twice",
        _ => "unmapped",
    };
    Verdict::of("mounts.containerd", case)
        .with("version", &containerd.version)
        .figure("maps_once", containerd.maps_once())
}

/// Formats a number with its digits in groups of three: `20 200`.
fn grouped(number: u64) -> String {
    match number {
        ..1000 => number.to_string(),
        _ => format!("{} {:03}", grouped(number / 1000), number % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_overlays() {
        let overlay = |options: &str| {
            let line = format!("1 2 0:3 / /m rw - overlay overlay rw,{options}");
            layers(&mounts(&line)[0])
        };
        assert_eq!(overlay("lowerdir=/1:/2:/3,upperdir=/u"), 3);
        assert_eq!(overlay("lowerdir+=/0,lowerdir+=/1"), 2);
    }
}
