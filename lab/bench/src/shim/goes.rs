//! Performs the measurements of each figure.

use super::client::{Answer, Client};
use super::daemon::Daemon;
use super::span::{self, Events};
use super::{Measured, Shim, image, minder};
use crate::figures::Sample;
use crate::harness::*;
use crate::held::{Held, held};

/// The time for which a shim is left idle before it is examined.
const SETTLE: Duration = Duration::from_millis(700);
/// The maximum number of attempts at a measurement: containerd hangs occasionally.
const TRIES: usize = 3;

/// Returns the title that is shown while a figure is measured.
pub(super) fn title(measured: Measured) -> &'static str {
    match measured {
        Measured::Run => "ctr run",
        Measured::Exec => "ctr task exec",
        Measured::Idle => "idle containers",
        Measured::Pod => "pods",
        Measured::IdlePod => "idle pods",
    }
}

/// The state of the measurements: containerd, its CRI client, and sleeping containers.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    options: &'a Shim,
    daemon: &'a Daemon,
    /// The CRI client, if containerd has the CRI.
    pub(super) client: Option<Client>,
    events: Option<Events>,
    /// The sleeping containers, each with the index of its entrant.
    held: Vec<(usize, String)>,
    serial: u64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(options: &'a Shim, daemon: &'a Daemon) -> Self {
        let events = Events::listen();
        if let Err(error) = &events {
            eprintln!(
                "warning: {error}: the time from a shim's start to its delete is not measured"
            );
        }
        Self { options, daemon, client: None, events: events.ok(), held: Vec::new(), serial: 0 }
    }

    fn id(&mut self) -> String {
        self.serial += 1;
        format!("bench-{}", self.serial)
    }

    /// Performs one measurement, and repeats it if it fails.
    ///
    /// # Errors
    /// An error of the harness itself; the reason why the measurement failed.
    pub(super) fn go(
        &mut self,
        measured: Measured,
        at: usize,
        entrant: &Entrant,
    ) -> Result<Sample, Error> {
        let last = self.repeated(|it| {
            let done = match measured {
                Measured::Run => it.run(entrant),
                Measured::Exec => it.exec(at),
                Measured::Idle => it.idle(entrant),
                Measured::Pod => it.pod(entrant),
                Measured::IdlePod => it.idle_pod(entrant),
            };
            it.daemon.reap();
            done
        });
        last.map_err(|error| error.during(title(measured)))
    }

    /// Tries until it succeeds, at most [`TRIES`] times.
    fn repeated<T>(&mut self, work: impl Fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        for _ in 1..TRIES {
            let done = work(self);
            interrupt::check()?;
            if !matches!(done, Err(Error::Out(_))) {
                return done;
            }
        }
        work(self)
    }

    /// Does `work`; returns its result, and the CPU time of all measured processes until the end of the pause, in
    /// milliseconds.
    fn beside_client<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, f64), Error> {
        let before = self.daemon.group.cpu_ms()?;
        let done = work(self);
        sleep(self.options.pause);
        let spent = self.daemon.group.cpu_ms()? - before;
        Ok((done?, spent))
    }

    /// Executes a command of ctr; returns its time and its CPU time under the name `what`, and the CPU time of all
    /// other measured processes.
    fn timed(&mut self, what: &str, mut command: Command) -> Result<Sample, Error> {
        let (sample, beside) = self.beside_client(|it| it.execute(&mut command))?;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(vec![
            (what.to_owned(), "ms", ms(sample.wall)),
            (format!("{what}: CPU beside the client"), "ms CPU", beside),
            (format!("{what}: CPU of the client"), "ms CPU", ms(sample.usage.cpu())),
        ])
    }

    fn execute(&self, command: &mut Command) -> Result<process::Sample, Error> {
        let sample = process::run(command, self.daemon.deadline);
        sample.map_err(|failure| Error::Out(format!("{failure}: {}", self.daemon.complaint())))
    }

    fn run(&mut self, entrant: &Entrant) -> Result<Sample, Error> {
        let id = self.id();
        let command = self.start_of(entrant, &["--rm"], &id, &["/bin/true"]);
        if let Some(events) = &mut self.events {
            events.take();
        }
        let sample = self.timed("ctr run", command);
        let events = self.events.as_mut().and_then(Events::take);
        let span = events.and_then(|events| span::between(&events, self.daemon.pid()));
        if sample.is_err() {
            self.remove(&id);
        }
        let name = "ctr run: from the shim's start to its delete".to_owned();
        Ok(sample?.into_iter().chain(span.map(|span| (name, "ms", span))).collect())
    }

    /// Returns the command that starts a container.
    fn start_of(&self, entrant: &Entrant, words: &[&str], id: &str, program: &[&str]) -> Command {
        let mut command = self.daemon.ctr();
        command.arg("run").args(minder::ctr_options(entrant)).args(words);
        // The default limit of open files since containerd 2 may be above the experiment's own.
        if self.daemon.is_two() {
            command.args(["--rlimit-nofile", "1024"]);
        }
        // By default, ctr gives each container CPU shares, which fails without the controller.
        if !can_limit("cpu") {
            command.args(["--cpu-shares", "0"]);
        }
        command.args([image::BOX, id]).args(program).stdout(Stdio::null());
        command
    }

    /// Starts a sleeping container.
    fn asleep(&mut self, entrant: &Entrant) -> Result<String, Error> {
        let id = self.id();
        let program = ["/bin/sleep", "1000000"];
        let mut command = self.start_of(entrant, &["-d", "--null-io"], &id, &program);
        let result = self.execute(&mut command);
        interrupt::check()?;
        if result.is_err() {
            self.remove(&id);
        }
        result.map(|_| id)
    }

    /// Starts the container in which an entrant's programs are executed.
    pub(super) fn hold(&mut self, at: usize, entrant: &Entrant) -> Result<(), Error> {
        let id = self.repeated(|it| it.asleep(entrant))?;
        self.held.push((at, id));
        Ok(())
    }

    /// Removes the containers started by [`Self::hold`].
    pub(super) fn let_go(&mut self) {
        for (_, id) in std::mem::take(&mut self.held) {
            self.remove(&id);
        }
    }

    /// Removes a container, whatever its state.
    fn remove(&self, id: &str) {
        for words in [["task", "rm", "-f"].as_slice(), &["container", "rm"]] {
            let mut command = self.daemon.ctr();
            command.args(words).arg(id).stdout(Stdio::null());
            let _ = process::run(&mut command, self.daemon.deadline);
        }
    }

    fn exec(&mut self, at: usize) -> Result<Sample, Error> {
        let exec = self.id();
        let held = self.held.iter().find(|(of, _)| *of == at);
        let gone = || Error::Out("its container is gone".to_owned());
        let (_, id) = held.ok_or_else(gone)?;
        let mut command = self.daemon.ctr();
        command.args(["task", "exec", "--exec-id", &exec, id, "/bin/true"]).stdout(Stdio::null());
        self.timed("ctr task exec", command)
    }

    fn idle(&mut self, entrant: &Entrant) -> Result<Sample, Error> {
        let before = self.daemon.shims();
        let id = self.asleep(entrant)?;
        sleep(SETTLE);
        let held = self.beside(&before);
        self.remove(&id);
        Ok(of_shims("an idle container", held))
    }

    /// Returns the resources of the shims that are not in `before`.
    fn beside(&self, before: &[i32]) -> Held {
        let shims: Vec<i32> =
            self.daemon.shims().into_iter().filter(|pid| !before.contains(pid)).collect();
        held(&shims)
    }

    /// Sends a request to the CRI client. The client may take `times` times a command's deadline.
    fn ask(&mut self, line: &str, times: u32) -> Result<Answer, Error> {
        let deadline = self.daemon.deadline * times;
        let client = self.client.as_mut();
        let client = client.ok_or_else(|| unfit!("no client of the CRI"))?;
        client.ask(line, deadline)
    }

    fn pod(&mut self, entrant: &Entrant) -> Result<Sample, Error> {
        const CALLS: [&str; 9] = [
            "RunPodSandbox",
            "CreateContainer",
            "StartContainer",
            "StopContainer",
            "RemoveContainer",
            "StopPodSandbox",
            "RemovePodSandbox",
            "pod and container up",
            "whole pod",
        ];
        let line = format!("pod {}", minder::handler(entrant));
        let (answer, beside) = self.beside_client(|it| it.ask(&line, 8))?;
        let step = |call: &&str| Some(((*call).to_owned(), "ms", answer.steps.get(*call)? / 1e3));
        let mut sample: Sample = CALLS.iter().filter_map(step).collect();
        sample.push(("whole pod: CPU beside the client".to_owned(), "ms CPU", beside));
        Ok(sample)
    }

    fn idle_pod(&mut self, entrant: &Entrant) -> Result<Sample, Error> {
        let before = self.daemon.shims();
        let hold = self.ask(&format!("hold {} 1", minder::handler(entrant)), 5);
        let done = hold.and_then(|_| {
            sleep(SETTLE);
            let mut sample = of_shims("an idle pod", self.beside(&before));
            let (answer, beside) = self.beside_client(|it| it.ask("exec", 1))?;
            let us = answer.times.first().copied().unwrap_or(f64::NAN);
            sample.push(("ExecSync".to_owned(), "ms", us / 1e3));
            sample.push(("ExecSync: CPU beside the client".to_owned(), "ms CPU", beside));
            Ok(sample)
        });
        // The request also removes what a failed `hold` has made.
        let dropped = self.ask("drop", 5);
        done.and_then(|done| dropped.map(|_| done))
    }
}

fn of_shims(beside: &str, held: Held) -> Sample {
    vec![
        (format!("private memory beside {beside}"), "KiB", held.private_kib),
        (format!("resident memory beside {beside}, shared in parts"), "KiB", held.pss_kib),
        (format!("threads beside {beside}"), "threads", held.threads),
        (format!("descriptors beside {beside}"), "descriptors", held.descriptors),
    ]
}
