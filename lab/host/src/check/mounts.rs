//! The mount table, and the mount operations of many containers that have many layers and their own id ranges.

use super::images::{self, Store};
use super::verdict::Level::{Error, Good, Note, Warning};
use super::verdict::{Level, Section, Verdict};
use crate::engines::Containerd;
use crate::facts::{Facts, Mount, mounts};
use measure::statistics::median;
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
#[must_use]
pub fn section(facts: &Facts, measure: bool) -> Section {
    let text = facts.text("/proc/self/mountinfo").unwrap_or_default();
    let table = mounts(&text);
    let containerd = Containerd::find(facts);
    let stores = images::stores(facts);
    let verdicts = vec![
        length(facts, &table, measure && facts.is_live()),
        risk(&table, &stores, containerd.as_ref()),
        engine(containerd.as_ref()),
    ];
    Section { title: "mounts", verdicts }
}

/// Checks the length of the table and the time to read it.
fn length(facts: &Facts, table: &[Mount], measure: bool) -> Verdict {
    let about = ("mounts.table", "mount table");
    let count = table.len();
    let time = measure.then(|| {
        let mut times: Vec<f64> = (0..READS).filter_map(|_| read(facts)).collect();
        median(&mut times)
    });
    let read = time.map_or_else(String::new, |time| format!(", read in {time:.0} µs"));
    let fact = format!("{}{read}", counted(count, "mount"));
    let slow = time.unwrap_or(0.0);
    let leaked = "findmnt -t overlay; umount mounts that no container uses";
    let verdict = match (count, slow) {
        (_, slow) if slow > 1e6 => Verdict::new(
            about,
            Error,
            fact,
            "health checks and systemd also read it: after 30 s, nodes count as failed",
        )
        .fix(leaked),
        (count, slow) if count > LONG || slow > 1e5 => Verdict::new(
            about,
            Warning,
            fact,
            "systemd reads it at every mount; runtimes that copy it take 4 ms per thousand mounts",
        )
        .fix(leaked),
        _ => Verdict::new(about, Good, fact, "short; dayfly doesn't copy it in any case"),
    };
    let verdict = verdict.figure("mounts", count);
    match time {
        Some(time) => verdict.figure("read_us", time),
        None => verdict,
    }
}

fn read(facts: &Facts) -> Option<f64> {
    let path = facts.path("/proc/self/mountinfo");
    let start = Instant::now();
    fs::read(path).ok()?;
    Some(start.elapsed().as_secs_f64() * 1e6)
}

/// Judges the risk that the host stalls because of many containers that have many layers and user namespaces.
fn risk(table: &[Mount], stores: &[Store], containerd: Option<&Containerd>) -> Verdict {
    let about = ("mounts.layers", "layers × containers");
    let overlays: Vec<&Mount> = table.iter().filter(|mount| mount.kind == "overlay").collect();
    let mounted = overlays.iter().map(|mount| layers(mount)).max().unwrap_or(0);
    let idmapped = table.iter().filter(|mount| mount.options.contains("idmapped")).count();
    let largest = stores.iter().max_by_key(|store| store.layers);
    let stored = largest.map_or(0, |store| store.layers);
    let most = mounted.max(stored);
    let mut parts = Vec::new();
    parts.push(match overlays.len() {
        0 => "no overlay mounted".to_owned(),
        1 => format!("1 overlay mounted, {}", counted(mounted, "layer")),
        count => format!("{count} overlays mounted, at most {}", counted(mounted, "layer")),
    });
    if let Some(store) = largest {
        parts.push(format!("largest image {} ({})", counted(stored, "layer"), store.name));
    }
    if idmapped > 0 {
        parts.push(counted(idmapped as u64, "id-mapped mount"));
    }
    let fact = parts.join("; ");
    let slow = containerd.is_some_and(|containerd| !containerd.maps_once());
    let (ours, theirs) = (BURST, containerd.map(|it| it.mount_operations(BURST, most)));
    let level = match (most, slow) {
        (MANY_LAYERS.., true) => Warning,
        (10.., true) => Note,
        _ => Good,
    };
    let operations = |count: u64| format!("{} mount operations", grouped(count));
    let verdict = match (most, theirs) {
        (0, _) => Verdict::new(about, level, fact, "nothing to map"),
        (_, Some(theirs)) => Verdict::new(
            about,
            level,
            fact,
            format!(
                "{BURST} starts with ids of their own: {} by this containerd, {ours} by dayfly, none in the host's table",
                operations(theirs)
            ),
        ),
        (_, None) => Verdict::new(
            about,
            level,
            fact,
            format!(
                "{BURST} starts with ids of their own: {} by layer, {ours} by dayfly, none in the host's table",
                operations(BURST * 2 * (1 + 2 * most))
            ),
        ),
    };
    let verdict = verdict
        .fix_if(level >= Warning, "update containerd, or have images of fewer layers")
        .figure("overlays", overlays.len())
        .figure("layers_mounted", mounted)
        .figure("layers_stored", stored)
        .figure("idmapped", idmapped)
        .figure("operations_by_layer", BURST * 2 * (1 + 2 * most))
        .figure("operations_dayfly", ours);
    match theirs {
        Some(theirs) => verdict.figure("operations_containerd", theirs),
        None => verdict,
    }
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
    let about = ("mounts.containerd", "containerd");
    let Some(containerd) = containerd else {
        return Verdict::new(
            about,
            Good,
            "not here",
            "no engine maps the layers of images one by one",
        );
    };
    let fact = containerd.version.clone();
    let level: Level = if containerd.maps_once() { Good } else { Warning };
    let verdict = match (containerd.maps_once(), containerd.looks_unmapped()) {
        (true, true) => {
            Verdict::new(about, level, fact, "maps the ids of an image once per container")
        }
        (true, false) => Verdict::new(
            about,
            level,
            fact,
            "maps the ids of an image twice per container; 2.3 once",
        ),
        (false, _) => Verdict::new(
            about,
            level,
            fact,
            "maps each layer twice per container: bursts stall on a lock",
        )
        .fix("update to containerd 2.2, 2.1.5 or 2.0.7"),
    };
    verdict.figure("maps_once", containerd.maps_once())
}

/// Formats a number with its digits in groups of three: `20 200`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits.get(..first).unwrap_or_default().to_owned();
    for group in digits.as_bytes().get(first..).unwrap_or_default().chunks(3) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.extend(group.iter().copied().map(char::from));
    }
    text
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

    #[test]
    fn numbers_in_groups() {
        assert_eq!(grouped(20_200), "20 200");
        assert_eq!(grouped(600), "600");
        assert_eq!(grouped(1_000_000), "1 000 000");
    }
}
