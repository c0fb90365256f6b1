//! Performs the measurements of each figure, and the probes.

use super::client::Client;
use super::daemon::Daemon;
use super::span::{self, Events};
use super::{image, minder};
use crate::Error;
use crate::cgroup;
use crate::held::{Held, held};
use crate::options::{Measured, Shim};
use crate::process;
use crate::results::figures::{Figure, Sample, gather};
use crate::stand::Entrant;
use measure::progress::Progress;
use report::interrupt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

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
    /// The outer error is an error of the harness itself. The inner error says why the measurement failed.
    pub(super) fn go(
        &mut self,
        measured: Measured,
        at: usize,
        entrant: &Entrant,
    ) -> Result<Result<Sample, String>, Error> {
        let mut last = Err(String::new());
        for _ in 0..TRIES {
            last = match measured {
                Measured::Run => self.run(entrant)?,
                Measured::Exec => self.exec(at)?,
                Measured::Idle => self.idle(entrant)?,
                Measured::Pod => self.pod(entrant)?,
                Measured::IdlePod => self.idle_pod(entrant)?,
            };
            self.daemon.reap();
            interrupt::check()?;
            if last.is_ok() {
                break;
            }
        }
        Ok(last.map_err(|reason| format!("{}: {reason}", title(measured))))
    }

    /// Executes a command; returns its time, its CPU time, and the CPU time of all other measured
    /// processes until the end of the pause, in milliseconds.
    fn timed(
        &self,
        command: &mut std::process::Command,
    ) -> Result<Result<[f64; 3], String>, Error> {
        let before = self.daemon.group.cpu_ms()?;
        let sample = process::run(command, self.options.common.deadline);
        sleep(self.options.pause);
        let beside = self.daemon.group.cpu_ms()? - before;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(sample
            .map(|sample| [ms(sample.wall), ms(sample.usage.cpu()), beside])
            .map_err(|failure| format!("{failure}: {}", self.daemon.complaint())))
    }

    fn run(&mut self, entrant: &Entrant) -> Result<Result<Sample, String>, Error> {
        let id = self.id();
        let mut command = self.start_of(entrant, &["--rm"], &id, &["/bin/true"]);
        if let Some(events) = &mut self.events {
            events.take();
        }
        let times = self.timed(&mut command)?;
        let events = self.events.as_mut().and_then(Events::take);
        let span = events.and_then(|events| span::between(&events, self.daemon.pid()));
        if times.is_err() {
            self.remove(&id);
        }
        Ok(times.map(|[wall, client, beside]| {
            let mut sample = vec![
                ("ctr run".to_owned(), "ms", wall),
                ("ctr run: CPU beside the client".to_owned(), "ms CPU", beside),
                ("ctr run: CPU of the client".to_owned(), "ms CPU", client),
            ];
            sample.extend(span.map(|span| {
                ("ctr run: from the shim's start to its delete".to_owned(), "ms", span)
            }));
            sample
        }))
    }

    /// Returns the command that starts a container.
    fn start_of(
        &self,
        entrant: &Entrant,
        words: &[&str],
        id: &str,
        program: &[&str],
    ) -> std::process::Command {
        let mut command = self.daemon.ctr();
        command.arg("run").args(minder::ctr_options(entrant)).args(words);
        // The default limit of open files since containerd 2 may be above the experiment's own.
        if self.daemon.is_two() {
            command.args(["--rlimit-nofile", "1024"]);
        }
        // By default, ctr gives each container CPU shares, which fails without the controller.
        if !cgroup::can_limit("cpu") {
            command.args(["--cpu-shares", "0"]);
        }
        command.args([image::BOX, id]).args(program).stdout(Stdio::null());
        command
    }

    /// Starts a sleeping container.
    fn asleep(&mut self, entrant: &Entrant) -> Result<Result<String, String>, Error> {
        let id = self.id();
        let program = ["/bin/sleep", "1000000"];
        let mut command = self.start_of(entrant, &["-d", "--null-io"], &id, &program);
        let result = process::run(&mut command, self.options.common.deadline);
        interrupt::check()?;
        if let Err(failure) = result {
            let reason = format!("{failure}: {}", self.daemon.complaint());
            self.remove(&id);
            return Ok(Err(reason));
        }
        Ok(Ok(id))
    }

    /// Starts the container in which an entrant's programs are executed.
    pub(super) fn hold(
        &mut self,
        at: usize,
        entrant: &Entrant,
    ) -> Result<Result<(), String>, Error> {
        let mut last = Err(String::new());
        for _ in 0..TRIES {
            last = self.asleep(entrant)?;
            if last.is_ok() {
                break;
            }
        }
        Ok(last.map(|id| self.held.push((at, id))))
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
            let _ = process::run(&mut command, self.options.common.deadline);
        }
    }

    fn exec(&mut self, at: usize) -> Result<Result<Sample, String>, Error> {
        let exec = self.id();
        let held = self.held.iter().find(|(of, _)| *of == at);
        let Some((_, id)) = held else { return Ok(Err("its container is gone".to_owned())) };
        let mut command = self.daemon.ctr();
        command.args(["task", "exec", "--exec-id", &exec, id, "/bin/true"]).stdout(Stdio::null());
        let times = self.timed(&mut command)?;
        Ok(times.map(|[wall, client, beside]| {
            vec![
                ("ctr task exec".to_owned(), "ms", wall),
                ("ctr task exec: CPU beside the client".to_owned(), "ms CPU", beside),
                ("ctr task exec: CPU of the client".to_owned(), "ms CPU", client),
            ]
        }))
    }

    fn idle(&mut self, entrant: &Entrant) -> Result<Result<Sample, String>, Error> {
        let before = self.daemon.shims();
        let id = match self.asleep(entrant)? {
            Ok(id) => id,
            Err(reason) => return Ok(Err(reason)),
        };
        sleep(SETTLE);
        let held = self.beside(&before);
        self.remove(&id);
        Ok(Ok(of_shims("an idle container", held)))
    }

    /// Returns the resources of the shims that are not in `before`.
    fn beside(&self, before: &[i32]) -> Held {
        let shims: Vec<i32> =
            self.daemon.shims().into_iter().filter(|pid| !before.contains(pid)).collect();
        held(&shims)
    }

    /// Sends a request to the CRI client. The client may take `times` times a command's deadline, plus the interval of
    /// probes.
    fn ask(
        &mut self,
        line: &str,
        times: u32,
    ) -> Result<Result<super::client::Answer, String>, Error> {
        let deadline = self.options.common.deadline * times + self.options.interval;
        let client = self.client.as_mut();
        let client = client.ok_or_else(|| Error::Unfit("no client of the CRI".to_owned()))?;
        client.ask(line, deadline)
    }

    fn pod(&mut self, entrant: &Entrant) -> Result<Result<Sample, String>, Error> {
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
        let before = self.daemon.group.cpu_ms()?;
        let answer = self.ask(&format!("pod {}", minder::handler(entrant)), 8)?;
        sleep(self.options.pause);
        let beside = self.daemon.group.cpu_ms()? - before;
        Ok(answer.map(|answer| {
            let step =
                |call: &&str| Some(((*call).to_owned(), "ms", answer.steps.get(*call)? / 1e3));
            let mut sample: Sample = CALLS.iter().filter_map(step).collect();
            sample.push(("whole pod: CPU beside the client".to_owned(), "ms CPU", beside));
            sample
        }))
    }

    fn idle_pod(&mut self, entrant: &Entrant) -> Result<Result<Sample, String>, Error> {
        let before = self.daemon.shims();
        let hold = self.ask(&format!("hold {} 1", minder::handler(entrant)), 5)?;
        let sample = match hold {
            Ok(_) => {
                sleep(SETTLE);
                let mut sample = of_shims("an idle pod", self.beside(&before));
                let cpu = self.daemon.group.cpu_ms()?;
                let exec = self.ask("exec", 1)?;
                sleep(self.options.pause);
                let beside = self.daemon.group.cpu_ms()? - cpu;
                exec.map(|answer| {
                    let us = answer.times.first().copied().unwrap_or(f64::NAN);
                    sample.push(("ExecSync".to_owned(), "ms", us / 1e3));
                    sample.push(("ExecSync: CPU beside the client".to_owned(), "ms CPU", beside));
                    sample
                })
            }
            Err(reason) => Err(reason),
        };
        let drop = self.ask("drop", 5)?;
        Ok(sample.and_then(|sample| drop.map(|_| sample)))
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

/// Runs probed pods, entrant by entrant, so that at any time only one entrant's pods exist.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(super) fn probes(
    options: &Shim,
    bench: &mut Bench<'_>,
    entrants: &mut [Entrant],
    pods: usize,
) -> Result<Vec<Figure>, Error> {
    let interval = options.interval.as_secs_f64();
    let windows = (options.probe_for.as_secs_f64() / interval).round().max(1.0) as usize;
    let pods_u32 = u32::try_from(pods).unwrap_or(u32::MAX);
    let mut progress = Progress::new();
    let mut all = Vec::new();
    for (number, entrant) in entrants.iter_mut().enumerate() {
        let mut samples = Vec::new();
        if entrant.failure.is_none() {
            progress.tell("shim, probes", number, 0);
            let before = bench.daemon.shims();
            let hold =
                bench.ask(&format!("hold {} {pods}", minder::handler(entrant)), 4 * pods_u32)?;
            if let Err(reason) = hold {
                entrant.failure = Some(format!("{pods} pods: {reason}"));
            } else {
                sleep(options.interval.min(Duration::from_secs(5)));
                let what = format!("{pods} pods");
                let mut first = of_shims(&what, bench.beside(&before));
                let (cpu, time) = (bench.daemon.group.cpu_ms()?, Instant::now());
                sleep(options.interval);
                let idle = (bench.daemon.group.cpu_ms()? - cpu) / time.elapsed().as_secs_f64();
                first.push((format!("{what} at rest: CPU beside the client"), "ms CPU/s", idle));
                samples.push(first);
                for _ in 0..windows {
                    let (cpu, time) = (bench.daemon.group.cpu_ms()?, Instant::now());
                    let answer = bench.ask(&format!("probe {interval} {interval}"), 10)?;
                    let spent = bench.daemon.group.cpu_ms()? - cpu;
                    match answer {
                        Ok(answer) => {
                            let rate = spent / time.elapsed().as_secs_f64();
                            let count = answer.times.len().max(1) as f64;
                            let mut sample: Sample = vec![
                                (format!("{what} probed: CPU beside the client"), "ms CPU/s", rate),
                                (
                                    "a probe: CPU beside the client".to_owned(),
                                    "ms CPU",
                                    spent / count,
                                ),
                            ];
                            sample.extend(
                                answer
                                    .times
                                    .iter()
                                    .map(|us| ("a probe".to_owned(), "ms", us / 1e3)),
                            );
                            samples.push(sample);
                        }
                        Err(reason) => {
                            entrant.failure = Some(format!("probes: {reason}"));
                            break;
                        }
                    }
                }
                samples.push(of_shims(&format!("{what} that were probed"), bench.beside(&before)));
            }
            // The request also removes what a failed `hold` has made.
            let dropped = bench.ask("drop", 4 * pods_u32)?;
            if let (Err(reason), None) = (dropped, &entrant.failure) {
                entrant.failure = Some(format!("{pods} pods: {reason}"));
            }
            bench.daemon.reap();
            interrupt::check()?;
        }
        all.push(samples);
    }
    drop(progress);
    Ok(gather(entrants.iter().map(|entrant| entrant.name.as_str()), all))
}
