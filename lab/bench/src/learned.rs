//! `learned`: times a start with the bundle's seccomp profile, with a profile learned from the
//! container's calls, and without a profile.
//!
//! Hall and Ramachandran ask whether a function starts faster if its profile is reduced to the
//! calls that the function makes, and leave the question open.

use crate::Error;
use crate::options::Learned;
use crate::race::race_in_steps;
use crate::results::{self, compare, title};
use crate::session::Outcome;
use crate::staircase;
use crate::stand::{Entrant, Stand};
use profile::calls::Made;
use profile::follow::Stop;
use profile::learner::Learner;
use profile::narrow::narrow;
use profile::saved::Cost;
use report::{Table, interrupt};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The step with the unchanged container.
const WHOLE: &str = staircase::WHOLE;
const STEPS: [&str; 3] = [WHOLE, "run with the learned profile", "run without seccomp"];

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

/// Runs the experiment.
///
/// # Errors
/// Errors of the harness itself; containers without a profile; an interrupt.
pub fn experiment(
    options: &Learned,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    if !stand.has_seccomp() {
        return Err(Error::Unfit(
            "these containers have no seccomp profile that could be compared: take --profile seccomp".to_owned(),
        ));
    }
    let (mut lessons, mut profiles) = (Vec::new(), Vec::new());
    for entrant in &mut *entrants {
        interrupt::check()?;
        let learned = learn(options, stand, entrant)?;
        profiles.push(match learned {
            Ok((both, new)) => {
                lessons.extend(both);
                new
            }
            Err(reason) => {
                entrant.failure = Some(reason);
                Value::Null
            }
        });
    }
    let mut series = Vec::new();
    for rounds in options.timing.by_pause() {
        let name = title("learned", rounds.pause.as_secs_f64() * 1e3);
        series.extend(race_in_steps(
            stand,
            entrants,
            rounds,
            &name,
            &STEPS,
            |at, number, config| match number {
                0 => {}
                1 => config["linux"]["seccomp"] = profiles[at].clone(),
                _ => staircase::seccomp(config),
            },
        )?);
    }
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let costs = staircase::costs(&series);
    Ok(Outcome {
        text: [
            text(&lessons),
            results::times(&rows, first),
            staircase::text(&costs),
            results::verdicts(&rows, first),
        ]
        .join("\n"),
        json: vec![
            ("rows", results::value(&rows)?),
            ("costs", results::value(&costs)?),
            ("profiles", results::value(&lessons)?),
        ],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

/// Runs the container several times with a runtime, and learns a profile from these runs. Returns the costs of both
/// profiles and the new profile, or the reason of a failure.
fn learn(
    options: &Learned,
    stand: &Stand,
    entrant: &Entrant,
) -> Result<Result<(Vec<Lesson>, Value), String>, Error> {
    let (id, bundle) = stand.write_bundle(&[], |_| {})?;
    let file = bundle.join("config.json");
    let text = fs::read_to_string(&file).map_err(Error::at("read", &file))?;
    fs::remove_dir_all(&bundle).map_err(Error::at("remove", &bundle))?;
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| Error::Unfit(format!("{}: {error}", file.display())))?;
    let old = config["linux"]["seccomp"].clone();
    let result = lessons(options, stand, entrant, config, &old).map_err(|error| error.to_string());
    stand.clear(&id);
    interrupt::check()?;
    Ok(result)
}

fn lessons(
    options: &Learned,
    stand: &Stand,
    entrant: &Entrant,
    config: Value,
    old: &Value,
) -> Result<(Vec<Lesson>, Value), report::Error> {
    let stop = Stop::default();
    let learner = Learner::new(Path::new(&entrant.runtime.path), config, stand.deadline, &stop)?;
    let mut made: BTreeSet<Made> = BTreeSet::new();
    for _ in 0..options.learn {
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
        vec![lesson("the bundle's", Cost::of(old, &[])?), lesson("learned", Cost::of(&new, &[])?)];
    Ok((both, new))
}

fn text(lessons: &[Lesson]) -> String {
    let headings =
        ["", "", "calls allowed", "instructions of dayfly's filter", "bytes", "compile µs"];
    let mut table = Table::new(&headings).left(&[0, 1]);
    for lesson in lessons {
        let calls = lesson.calls.map_or_else(|| "all".to_owned(), |calls| calls.to_string());
        table.row(vec![
            lesson.runtime.clone(),
            lesson.profile.to_owned(),
            calls,
            lesson.instructions.to_string(),
            lesson.bytes.to_string(),
            format!("{:.0}", lesson.compile_us),
        ]);
    }
    format!("the profiles\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_stand_below_each_other() {
        let lesson = |profile, calls, instructions| Lesson {
            runtime: "crun".to_owned(),
            profile,
            calls,
            instructions,
            bytes: 8 * instructions,
            compile_us: 12.3,
        };
        let text = text(&[lesson("the bundle's", None, 300), lesson("learned", Some(40), 70)]);
        let words: Vec<&str> = text.lines().last().expect("a row").split_whitespace().collect();
        assert_eq!(words, ["crun", "learned", "40", "70", "560", "12"]);
    }
}
