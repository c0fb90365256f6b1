//! The life cycle of one container: create, perhaps start, exec, pause and kill, and finally delete. Any of these
//! commands may be killed on the way.

use crate::kinds::{Kind, Kinds};
use crate::tally::{Tally, Verb};
use dayfly_tests::bed::Bed;
use dayfly_tests::runtime::wait_within;
use dayfly_tests::seed::Seed;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The percentage of commands to be killed; some of them end before the kill.
const KILLED: u64 = 20;
/// The time after which a command counts as hung, even under load.
const PATIENCE: Duration = Duration::from_secs(180);
/// The maximum number of `delete --force` attempts, each of which may be killed.
const TIMES: usize = 50;

/// One of the concurrent workers. A worker has one container at a time, always with the same id, so that each container
/// finds what the previous one has left behind.
pub struct Worker<'a> {
    bed: &'a Bed,
    kinds: &'a Kinds,
    tally: &'a Tally,
    seed: Seed,
    number: usize,
    /// The file for the commands' output.
    said: PathBuf,
    /// Whether the worker kills no commands.
    is_quiet: bool,
}

/// The error of a cycle that can't continue because a command was killed or failed.
struct Over;

impl<'a> Worker<'a> {
    pub fn new(
        bed: &'a Bed,
        kinds: &'a Kinds,
        tally: &'a Tally,
        seed: Seed,
        number: usize,
    ) -> Self {
        let said = bed.dir.join(format!("said{number}"));
        Self { bed, kinds, tally, seed, number, said, is_quiet: false }
    }

    /// Runs every life cycle once with a container of this kind, without killing commands.
    pub fn quiet_cycles(&mut self, kind: &Kind) {
        self.is_quiet = true;
        for life in [0, 40, 60, 85, 95] {
            self.one(kind, life);
        }
    }

    pub fn cycle(&mut self) {
        let place = self.seed.below(self.kinds.weight());
        let life = self.seed.below(100);
        self.one(self.kinds.at(place), life);
        self.tally.cycle();
    }

    fn one(&mut self, kind: &Kind, life: u64) {
        let id = format!("s{}-{}-{}", std::process::id(), self.number, kind.name);
        let lived = self.live(kind, &id, life);
        let record = self.bed.root().join(&id);
        // A container whose creation failed as expected, or that ended by itself, must not need a `delete`.
        if (lived.is_err() || record.exists()) && !(kind.fails && lived.is_ok()) {
            self.delete(&id);
        }
        if record.exists() {
            self.tally.failed(format!("{id}: its record is there after its end"));
            self.delete(&id);
        }
    }

    fn live(&mut self, kind: &Kind, id: &str, life: u64) -> Result<(), Over> {
        if kind.fails {
            let verb = if life < 50 { Verb::Create } else { Verb::Run };
            return self.make(verb, kind, id, false, &[]);
        }
        match life {
            0..40 => self.make(Verb::Run, kind, id, false, &[]),
            40..58 => {
                self.make(Verb::Run, kind, id, true, &["--detach"])?;
                self.sometimes(50, &[Verb::Exec], id)
            }
            58..82 => {
                self.make(Verb::Create, kind, id, true, &[])?;
                self.sometimes(20, &[Verb::Pause, Verb::Resume], id)?;
                self.call(Verb::Start, &["start", id], true)?;
                self.sometimes(40, &[Verb::Exec], id)?;
                self.sometimes(30, &[Verb::Pause, Verb::Resume], id)?;
                self.sometimes(10, &[Verb::Pause], id)?;
                self.call(Verb::Kill, &["kill", id, "KILL"], true)
            }
            82..91 => {
                self.make(Verb::Create, kind, id, true, &[])?;
                self.call(Verb::Kill, &["kill", id, "TERM"], true)
            }
            _ => self.make(Verb::Create, kind, id, true, &[]),
        }
    }

    /// Runs the commands with a probability of `percent` %.
    fn sometimes(&mut self, percent: u64, verbs: &[Verb], id: &str) -> Result<(), Over> {
        if !self.is_quiet && self.seed.below(100) >= percent {
            return Ok(());
        }
        // A worker that kills no commands leaves out a pause that no resume follows, because only `delete` removes a
        // container that stays frozen.
        if self.is_quiet && verbs == [Verb::Pause] {
            return Ok(());
        }
        for verb in verbs {
            let program: &[&str] = if *verb == Verb::Exec { &["/bin/true"] } else { &[] };
            self.call(*verb, &[&[verb.name(), id], program].concat(), true)?;
        }
        Ok(())
    }

    fn make(
        &mut self,
        verb: Verb,
        kind: &Kind,
        id: &str,
        stays: bool,
        flags: &[&str],
    ) -> Result<(), Over> {
        let config = self.kinds.write(kind, id, stays);
        let layers = self.kinds.layers.flags();
        let mut args = vec![verb.name()];
        args.extend(flags);
        if kind.layered {
            args.extend(layers.iter().map(String::as_str));
            args.extend(["--userns", "auto"]);
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (bundle, config) = (text(&self.kinds.bundle), text(&config));
        args.extend(["--bundle", &bundle, "--config", &config, id]);
        self.call(verb, &args, !kind.fails)
    }

    /// Repeats `delete --force` until it succeeds, as each attempt may be killed.
    fn delete(&mut self, id: &str) {
        for _ in 0..TIMES {
            if self.call(Verb::Delete, &["delete", "--force", id], true).is_ok() || self.is_quiet {
                return;
            }
        }
    }

    /// Runs one command, which may be killed. If it is not killed, it must succeed or fail as expected.
    fn call(&mut self, verb: Verb, args: &[&str], succeeds: bool) -> Result<(), Over> {
        let killed_after = (!self.is_quiet && self.seed.below(100) < KILLED)
            .then(|| Duration::from_micros(self.seed.below(self.tally.usual(verb) * 5 / 4)));
        let said = File::create(&self.said).expect("make a file for what is said");
        let layers = &self.kinds.layers;
        let mut command = Command::new(self.bed.runtime());
        command.arg("--root").arg(self.bed.root()).args(args);
        command.env("DAYFLY_IDS", &layers.leases).env("DAYFLY_STORE", &layers.store);
        command.env("DAYFLY_SUBUID", "/dev/null").env("DAYFLY_SUBGID", "/dev/null");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let begun = Instant::now();
        let mut child = command.spawn().expect("execute the runtime");
        let kill = |child: &std::process::Child| {
            let _ = kill_process(Pid::from_child(child), Signal::KILL);
        };
        let mut status = wait_within(&mut child, killed_after.unwrap_or(PATIENCE));
        let hung = status.is_none() && killed_after.is_none();
        if status.is_none() {
            kill(&child);
            status = child.wait().ok();
        }
        let killed = status.is_some_and(|status| status.signal() == Some(9));
        self.tally.called(verb, begun.elapsed(), killed);
        let code = status.and_then(|status| status.code());
        let line = args.join(" ");
        if hung {
            self.tally.failed(format!("{line}: no end after {PATIENCE:?}"));
            return Err(Over);
        }
        if killed && killed_after.is_some() {
            return Err(Over);
        }
        if (code == Some(0)) != succeeds || code.is_none() {
            let said = fs::read_to_string(&self.said).unwrap_or_default();
            self.tally.failed(format!("{line}: {status:?}: {}", said.trim()));
            return Err(Over);
        }
        Ok(())
    }
}
