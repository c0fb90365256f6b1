//! `learned`: times a start with the bundle's seccomp profile, with a profile learned from the
//! container's calls, and without a profile.
//!
//! Hall and Ramachandran ask whether a function starts faster if its profile is reduced to the
//! calls that the function makes, and leave the question open.

use crate::harness::*;
use crate::{staircase, steps};
use host::follow::Stop;
use host::profile::calls::Made;
use host::profile::learner::Learner;
use host::profile::narrow::narrow;
use host::profile::saved::Cost;

/// `learned`.
#[derive(Debug, Args)]
pub struct Learned {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
    /// Number of runs that each runtime learns from
    #[arg(long, value_name = "N", value_parser = some, default_value = "3")]
    pub learn: usize,
}

/// The steps; the first one is with the unchanged container.
const STEPS: [&str; 3] = ["run", "run with the learned profile", "run without seccomp"];

/// The result of learning with one runtime.
#[derive(Debug, Serialize)]
struct Lesson {
    runtime: String,
    /// The name of the profile.
    profile: &'static str,
    calls: Option<usize>,
    instructions: usize,
    bytes: usize,
    compile_us: f64,
}

impl Experiment for Learned {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        if !stand.has_seccomp() {
            bail!(
                "these containers have no seccomp profile that could be compared: take --profile seccomp"
            );
        }
        let (mut lessons, mut profiles) = (Vec::new(), Vec::new());
        for entrant in entrants {
            interrupt::check()?;
            let learned = entrant.attempt(self.learn(stand, entrant))?;
            let (both, new) = learned.unwrap_or_default();
            lessons.extend(both);
            profiles.push(new);
        }
        let change = |at: usize, step, config: &mut Value| match step {
            0 => {}
            1 => config["linux"]["seccomp"] = profiles[at].clone(),
            _ => staircase::seccomp(config),
        };
        let outcome =
            steps::compare(stand, entrants, &self.timing, &STEPS, change, &[text(&lessons)])?;
        outcome.with("profiles", &lessons)
    }
}

impl Learned {
    /// Runs the container several times with a runtime, and learns a profile from these runs. Returns the costs of both
    /// profiles and the new profile.
    fn learn(&self, stand: &Stand, entrant: &Entrant) -> Result<(Vec<Lesson>, Value), Error> {
        let (id, config) = stand.config();
        let old = config["linux"]["seccomp"].clone();
        let lessons = self.lessons(stand, entrant, config, &old);
        stand.cgroup.clear(&id);
        lessons.map_err(|error| Error::Out(error.to_string()))
    }

    fn lessons(
        &self,
        stand: &Stand,
        entrant: &Entrant,
        config: Value,
        old: &Value,
    ) -> Result<(Vec<Lesson>, Value), report::Error> {
        let stop = Stop::default();
        let learner = Learner::new(&entrant.runtime.path, config, stand.deadline, &stop)?;
        let mut made: BTreeSet<Made> = BTreeSet::new();
        for _ in 0..self.learn {
            made.extend(learner.hear(old)?);
        }
        let names: BTreeSet<&str> = made.iter().flat_map(Made::names).collect();
        let new = narrow(old, &names)?;
        let lesson = |profile: &'static str, cost: Cost| Lesson {
            runtime: entrant.name.clone(),
            profile,
            calls: cost.calls,
            instructions: cost.instructions,
            bytes: 8 * cost.instructions,
            compile_us: cost.compile_us,
        };
        let both =
            [lesson("the bundle's", Cost::of(old, &[])?), lesson("learned", Cost::of(&new, &[])?)];
        Ok((both.into(), new))
    }
}

fn text(lessons: &[Lesson]) -> String {
    let all = || "all".to_owned();
    let table = Table::of(
        lessons,
        &[
            ("", &|it| it.runtime.clone()),
            ("", &|it| it.profile.to_owned()),
            ("calls allowed", &|it| it.calls.map_or_else(all, |calls| calls.to_string())),
            ("instructions of dayfly's filter", &|it| it.instructions.to_string()),
            ("bytes", &|it| it.bytes.to_string()),
            ("compile µs", &|it| format!("{:.0}", it.compile_us)),
        ],
    );
    format!("the profiles\n{}", table.left(&[0, 1]))
}
