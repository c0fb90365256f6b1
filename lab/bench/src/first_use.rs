//! `first-use`: times the first start with a seccomp profile that no cache contains, and the next start with the same
//! profile.
//!
//! Every pair of starts gets a new profile, with an additional rule that no earlier pair had. The rule changes the
//! filter, so no cache contains the filter. The experiment uses caches of its own: dayfly's cache is in a tmpfs that
//! covers the host's cache in the experiment's mount namespace; crun's cache is below its `--root`.

use crate::container::Container;
use crate::options::Steps;
use crate::process::Sample;
use crate::race::{Series, in_turns, series_by_step};
use crate::results::{self, compare, title};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::{Error, view};
use measure::bootstrap::{self, Estimate, Pairing};
use report::Table;
use report::interrupt;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{SystemTime, UNIX_EPOCH};

/// The directory of dayfly's cache.
const CACHE: &str = "/run/dayfly-cache";

/// The two starts of a pair.
const STEPS: [&str; 2] = ["run, profile never seen", "run, profile seen once"];

/// A tmpfs over the host's cache, in this process's mount namespace, unmounted when dropped.
struct OwnCache {
    /// Whether this experiment created the mount point, and has to remove it after the unmount.
    made: bool,
}

impl OwnCache {
    fn cover() -> Result<Self, Error> {
        // In the host's mount namespace, this mount would hide the cache from all dayfly processes.
        view::own_mounts()?;
        let place = Path::new(CACHE);
        let made = fs::create_dir(place).is_ok();
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        match mount("tmpfs", place, "tmpfs", flags, Some(c"mode=0700")) {
            Ok(()) => Ok(Self { made }),
            Err(errno) => {
                drop(made.then(|| fs::remove_dir(place)));
                Err(Error::errno("mount tmpfs on", place)(errno))
            }
        }
    }
}

impl Drop for OwnCache {
    fn drop(&mut self) {
        let _ = unmount(CACHE, UnmountFlags::DETACH);
        if self.made {
            // This fails if another process has used the directory in the meantime.
            let _ = fs::remove_dir(CACHE);
        }
    }
}

/// A sequence of new profiles.
struct Profiles(u32);

impl Profiles {
    /// Starts at a value that no experiment of the last hour has used: the host's caches may still
    /// contain filters with values of earlier experiments.
    fn begin() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(now.subsec_micros() ^ u32::try_from(now.as_secs() & 0xfff).unwrap_or(0) << 20)
    }

    /// Returns a rule that no profile had before: the rule allows one more execution domain, which no program uses.
    fn next(&mut self) -> Value {
        self.0 = self.0.wrapping_add(1);
        json!({
            "names": ["personality"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{ "index": 0, "value": self.0, "op": "SCMP_CMP_EQ" }],
        })
    }
}

/// Adds a rule to the seccomp profile of a configuration.
fn add(config: &mut Value, rule: &Value) {
    let seccomp = &mut config["linux"]["seccomp"];
    if seccomp["syscalls"].is_null() {
        seccomp["syscalls"] = json!([]);
    }
    if let Some(rules) = seccomp["syscalls"].as_array_mut() {
        rules.push(rule.clone());
    }
}

/// A runtime's cache of seccomp filters.
#[derive(Debug, Serialize)]
struct Kept {
    runtime: String,
    /// The directory of cached filters; `None` if the runtime compiles them each time.
    place: Option<PathBuf>,
}

/// The cost of first use for one runtime.
#[derive(Debug, Serialize)]
struct Cost {
    runtime: String,
    pause_ms: f64,
    /// The difference between the first start and the next one, in microseconds.
    more_us: Option<Estimate>,
    /// The first start's time ÷ the next one's.
    ratio: Option<Estimate>,
}

/// Runs the experiment.
///
/// # Errors
/// The containers have no seccomp profile; this process can't unshare its mount namespace; errors of the harness
/// itself; an interrupt.
pub fn experiment(
    options: &Steps,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    if !stand.has_seccomp() {
        let reason =
            "these containers have no seccomp profile that could be used for the first time";
        return Err(Error::Unfit(reason.to_owned()));
    }
    let _cache = OwnCache::cover()?;
    let mut profiles = Profiles::begin();
    let racers = entrants.to_vec();
    let mut kept = Vec::new();
    for (racer, entrant) in racers.iter().zip(&mut *entrants) {
        match keeps(stand, racer, &profiles.next())? {
            Ok(place) => kept.push(Kept { runtime: racer.name.clone(), place }),
            Err(reason) => entrant.failure = Some(reason),
        }
    }
    let mut series = Vec::new();
    for rounds in options.timing.by_pause() {
        let pause = rounds.pause;
        let pairs =
            in_turns(entrants, rounds, &title("first use", pause.as_secs_f64() * 1e3), |at| {
                let rule = profiles.next();
                let first = run(stand, &racers[at], &rule)?;
                interrupt::check()?;
                sleep(pause);
                Ok(match first {
                    Ok(first) => run(stand, &racers[at], &rule)?.map(|second| [first, second]),
                    Err(reason) => Err(reason),
                })
            })?;
        series.extend(series_by_step(entrants, &STEPS, pause, &pairs));
    }
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let costs = costs(&series);
    let text = [
        results::times(&rows, first),
        results::resources(&rows),
        text(&costs),
        kept.iter().map(Kept::to_text).collect(),
        results::verdicts(&rows, first),
    ];
    Ok(Outcome {
        text: text.join("\n"),
        json: vec![
            ("rows", results::value(&rows)?),
            ("costs", results::value(&costs)?),
            ("kept", results::value(&kept)?),
        ],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

fn run(stand: &Stand, racer: &Entrant, rule: &Value) -> Result<Result<Sample, String>, Error> {
    let container = Container::changed(stand, racer, &[], |config| add(config, rule))?;
    Ok(container.run().map_err(|fault| fault.to_string()))
}

/// Finds the directory in which the runtime caches filters: the directory in which files appear
/// when a profile is first used.
fn keeps(
    stand: &Stand,
    racer: &Entrant,
    rule: &Value,
) -> Result<Result<Option<PathBuf>, String>, Error> {
    let root = racer.runtime.state_root(stand.state());
    let places = [Path::new(CACHE).join("seccomp"), root.join(".cache/seccomp")];
    let before = places.each_ref().map(|place| names(place));
    let result = run(stand, racer, rule)?;
    interrupt::check()?;
    let found = places.into_iter().zip(before).find(|(place, before)| names(place) != *before);
    Ok(result.map(|_| found.map(|(place, _)| place)))
}

fn names(directory: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

impl Kept {
    fn to_text(&self) -> String {
        match &self.place {
            Some(place) => format!("{} keeps filters in {}\n", self.runtime, place.display()),
            None => format!("{} caches no filters: it compiles them at each start\n", self.runtime),
        }
    }
}

fn costs(series: &[Series]) -> Vec<Cost> {
    let firsts = series.iter().filter(|of| of.step == STEPS[0]);
    let cost = |first: &Series| {
        let mut nexts = series.iter().filter(|of| of.step == STEPS[1]);
        let next =
            nexts.find(|next| (next.pause, &next.runtime) == (first.pause, &first.runtime))?;
        let (first_us, next_us) = (first.wall_us(), next.wall_us());
        Some(Cost {
            runtime: first.runtime.clone(),
            pause_ms: first.pause.as_secs_f64() * 1e3,
            more_us: bootstrap::difference(&first_us, &next_us, Pairing::Paired),
            ratio: bootstrap::ratio(&first_us, &next_us, Pairing::Paired),
        })
    };
    firsts.filter_map(cost).collect()
}

fn text(costs: &[Cost]) -> String {
    let headings = ["first use less the next", "", "µs more", "95 %", "first ÷ next", "95 %"];
    let mut table = Table::new(&headings).left(&[0, 1]);
    for cost in costs {
        let mut cells = vec![title("run", cost.pause_ms), cost.runtime.clone()];
        cells.extend(match cost.more_us {
            Some(more) if more.differs_from(0.0) => {
                [format!("{:.0}", more.value), format!("[{:.0} {:.0}]", more.low, more.high)]
            }
            Some(more) => {
                ["nothing shown".to_owned(), format!("[{:.0} {:.0}]", more.low, more.high)]
            }
            None => ["too few rounds".to_owned(), String::new()],
        });
        cells.extend(cost.ratio.map_or_else(Default::default, results::judged));
        table.row(cells);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn no_profile_comes_twice() {
        let mut profiles = Profiles(u32::MAX - 1);
        let mut config = json!({ "linux": { "seccomp": { "defaultAction": "SCMP_ACT_ERRNO" } } });
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            add(&mut config, &profiles.next());
            assert!(seen.insert(config.to_string()));
        }
        assert_eq!(config["linux"]["seccomp"]["syscalls"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn first_use_is_compared_with_the_next() {
        let series = |step: &str, us: u64| Series {
            step: step.to_owned(),
            pause: Duration::ZERO,
            runtime: "crun".to_owned(),
            samples: vec![Sample { wall: Duration::from_micros(us), ..Sample::default() }; 6],
            is_split: true,
        };
        let costs = costs(&[series(STEPS[0], 3000), series(STEPS[1], 2000)]);
        let expected = "\
first use less the next        µs more         95 %  first ÷ next           95 %
run, back-to-back        crun     1000  [1000 1000]         1.500  [1.500 1.500]
";
        assert_eq!(text(&costs), expected);
        let same = super::costs(&[series(STEPS[0], 2000), series(STEPS[1], 2000)]);
        assert!(text(&same).contains("nothing shown"), "{}", text(&same));
    }
}
