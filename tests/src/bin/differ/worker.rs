//! A worker: runs one seed after another in a mount namespace of its own.
//!
//! It reads a JSON line for each seed from standard input, `{"seed": N}`, or `{"seed": N, "shrink": KIND}`, and answers
//! each with a JSON line.

use crate::options::Options;
use dayfly_tests::differ::bed::{self, Bed};
use dayfly_tests::differ::compare::{Difference, Known, differences, explain, known};
use dayfly_tests::differ::execute::{Channel, Outcome, Runtime, run};
use dayfly_tests::differ::shrink::shrink;
use dayfly_tests::differ::view::View;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// Seeds of one block have the same kind of host, because it takes time to make another one.
const BLOCK: u64 = 25;
/// Runs of the two runtimes that one shrinking may take.
const MOST_TRIES: usize = 150;

struct Worker {
    bed: Bed,
    channel: Channel,
    known: Vec<Known>,
    dayfly: Runtime,
    runc: Runtime,
    crun: Option<Runtime>,
    is_changed: bool,
    /// Whether the host's mounts are shared, if the seed does not say it.
    is_shared: Option<bool>,
}

/// Answers seeds until standard input ends.
///
/// # Errors
/// What keeps the worker from running.
pub fn work(options: &Options) -> io::Result<()> {
    let channel = Channel::take()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let view = View::current();
    let id = bed::id(std::process::id());
    let top = bed::top(&id);
    let probe = std::env::current_exe()?.with_file_name("differ-probe");
    let table = std::fs::read_to_string(&options.known)?;
    let bed = Bed::new(&top, &id, view, &probe, options.rootless)?;
    // A user may not enter every directory of a checkout.
    let runtime = |name: &'static str, program: &Path| -> io::Result<Runtime> {
        let own = top.join(name);
        std::fs::copy(program, &own)?;
        Ok(Runtime { name, program: own })
    };
    let mut known = known(&table).map_err(io::Error::other)?;
    if options.check {
        known.retain(|row| !row.id.starts_with("unmended-"));
    }
    let mut worker = Worker {
        bed,
        channel,
        known,
        dayfly: runtime("dayfly", &options.dayfly)?,
        runc: runtime("runc", &options.runc)?,
        // crun does not know hybrid hosts.
        crun: options
            .crun
            .as_ref()
            .filter(|_| view != View::Hybrid)
            .map(|program| runtime("crun", program))
            .transpose()?,
        is_changed: false,
        is_shared: None,
    };
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let seed = request["seed"].as_u64().unwrap_or(0);
        let answer = match (request["shrink"].as_str(), &request["fault"]) {
            (Some(kind), _) => worker.shrink(seed, kind, &options.case(seed, view))?,
            (None, Value::Null) => worker.judge(seed, options.case(seed, view), options.show)?,
            (None, fault) => {
                worker.is_shared = fault["shared"].as_bool();
                worker.judge(seed, fault["case"].clone(), options.show)?
            }
        };
        let mut out = io::stdout().lock();
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            // The driver has stopped.
            break;
        }
    }
    Ok(())
}

/// Returns whether the driver has gone, or wants no more answers.
fn is_alone() -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
}

impl Worker {
    /// Runs a case with one runtime, on a host that no earlier run has changed.
    fn run(&mut self, case: &Value, seed: u64, runtime: &Runtime) -> io::Result<Outcome> {
        self.bed.prepare_host(self.is_shared.unwrap_or(seed / BLOCK % 2 == 1), self.is_changed)?;
        self.is_changed = true;
        let outcome = run(&self.bed, &mut self.channel, runtime, case)?;
        self.is_changed = outcome.facts.keys().any(|key| key.starts_with("host "));
        Ok(outcome)
    }

    /// Returns the unexplained differences, the rows that explain the others, and both outcomes.
    fn compare(
        &mut self,
        case: &Value,
        seed: u64,
    ) -> io::Result<(Vec<Difference>, Vec<Known>, Outcome, Outcome)> {
        let (dayfly, runc) = (self.dayfly.clone(), self.runc.clone());
        let own = self.run(case, seed, &dayfly)?;
        let peer = self.run(case, seed, &runc)?;
        let all = differences(&peer, &own);
        let (left, rows) = explain(all, &self.known, "runc", self.bed.view.name(), case);
        Ok((left, rows.into_iter().cloned().collect(), own, peer))
    }

    fn judge(&mut self, seed: u64, case: Value, show: bool) -> io::Result<Value> {
        let (mut left, rows, mut own, mut peer) = self.compare(&case, seed)?;
        let mut unsteady: Vec<String> = Vec::new();
        if !left.is_empty() {
            // What no second run shows is a race in one of the runtimes, or in the oracle.
            let (again, _, _, _) = self.compare(&case, seed)?;
            let is_steady = |one: &Difference| again.iter().any(|other| other.key == one.key);
            if again.is_empty() {
                unsteady = left.drain(..).map(|one| one.to_string()).collect();
            } else if left.iter().any(is_steady) {
                left.retain(is_steady);
            } else {
                left.extend(again);
            }
        }
        let mut crun = Outcome::default();
        if let Some(runtime) = self.crun.clone().filter(|_| !left.is_empty() || show) {
            crun = self.run(&case, seed, &runtime)?;
        }
        let told: Vec<Value> = left
            .iter()
            .map(|one| {
                let third = crun.facts.get(&one.key).map_or("-", String::as_str);
                let third = match (crun.facts.is_empty(), third == one.own, third == one.peer) {
                    (true, ..) => "",
                    (_, true, _) => " (crun as dayfly)",
                    (_, _, true) => " (crun as runc)",
                    _ => " (crun another)",
                };
                json!({ "text": format!("{one}{third}"), "kind": one.kind() })
            })
            .collect();
        let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let numbers: Vec<u64> = rows.iter().map(Known::number).collect();
        let mut answer = json!({
            "seed": seed, "passed": left.is_empty(), "known": ids, "rows": numbers, "unsteady": unsteady, "differences": told,
            "started": own.has_started() && peer.has_started(),
        });
        if !left.is_empty() || show {
            answer["case"] = case;
            answer["errors"] = json!({ "dayfly": own.text, "runc": peer.text, "crun": crun.text });
        }
        if show {
            let facts = |outcome: &mut Outcome| json!(std::mem::take(&mut outcome.facts));
            answer["facts"] = json!({ "dayfly": facts(&mut own), "runc": facts(&mut peer), "crun": facts(&mut crun) });
        }
        Ok(answer)
    }

    fn shrink(&mut self, seed: u64, kind: &str, case: &Value) -> io::Result<Value> {
        let mut failure = None;
        let small = shrink(case, MOST_TRIES, |case| {
            if failure.is_some() || is_alone() {
                return false;
            }
            match self.compare(case, seed) {
                Ok((left, ..)) => left.iter().any(|one| one.kind() == kind),
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let (left, _, own, peer) = self.compare(&small, seed)?;
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        Ok(
            json!({ "seed": seed, "case": small, "differences": left, "errors": { "dayfly": own.text, "runc": peer.text } }),
        )
    }
}
