//! `first-use`: times the first start with a seccomp profile that no cache contains, and the next start with the same
//! profile.
//!
//! Every pair of starts gets a new profile, with an additional rule that no earlier pair had. The rule changes the
//! filter, so no cache contains the filter. The experiment uses caches of its own: dayfly's cache is in a tmpfs that
//! covers the host's cache in the experiment's mount namespace; crun's cache is below its `--root`.

use crate::harness::*;
use crate::steps;
use crate::view::Cover;

/// `first-use`.
#[derive(Debug, Args)]
pub struct FirstUse {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
}

/// The directory of dayfly's cache.
const CACHE: &str = "/run/dayfly-cache";

/// The two starts of a pair.
const STEPS: [&str; 2] = ["run, profile never seen", "run, profile seen once"];

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

impl Experiment for FirstUse {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        if !stand.has_seccomp() {
            bail!("these containers have no seccomp profile that could be used for the first time");
        }
        let _cache = Cover::of(CACHE, c"mode=0700")?;
        let mut profiles = Profiles::begin();
        let mut kept = Vec::new();
        for entrant in entrants {
            let place = entrant.attempt(keeps(stand, entrant, &profiles.next()))?;
            kept.extend(place.map(|place| Kept { runtime: entrant.name.clone(), place }));
        }
        let mut rule = Value::Null;
        let change = |_, step, config: &mut Value| {
            if step == 0 {
                rule = profiles.next();
            }
            add(config, &rule);
        };
        let about = kept.iter().map(Kept::to_text).collect();
        steps::compare(stand, entrants, &self.timing, &STEPS, change, &[about])?.with("kept", &kept)
    }
}

/// Finds the directory in which the runtime caches filters: the directory in which files appear
/// when a profile is first used.
fn keeps(stand: &Stand, entrant: &Entrant, rule: &Value) -> Result<Option<PathBuf>, Error> {
    let root = entrant.runtime.state_root(&stand.state);
    let places = [Path::new(CACHE).join("seccomp"), root.join(".cache/seccomp")];
    let before = places.each_ref().map(|place| names(place));
    Container::changed(stand, entrant, &[], |config| add(config, rule))?.run()?;
    let found = places.into_iter().zip(before).find(|(place, before)| names(place) != *before);
    Ok(found.map(|(place, _)| place))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
