//! Workers, each a process in a mount namespace of its own, and in a process group of its own: a terminal's Ctrl-C
//! reaches the driver only, which lets them end what they do.

use crate::options::Options;
use dayfly_tests::differ::bed;
use dayfly_tests::differ::view::View;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;
use sys::signal::{SignalSet, read_signal, set_mask, signalfd};

/// Seconds after which a worker without an answer hangs. Shrinking is one answer.
const PATIENCE: i64 = 300;

/// The signals that end a run: SIGINT, SIGTERM and the like. They stay pending, so that every thread sees them.
pub struct Stop(OwnedFd);

impl Stop {
    /// Blocks the signals, in this thread and in those that it starts.
    ///
    /// # Errors
    /// Those of signalfd(2).
    pub fn new() -> io::Result<Self> {
        let set = SignalSet::INTERRUPTS;
        set_mask(set)?;
        Ok(Self(signalfd(set)?))
    }

    /// Returns the number of the signal that has arrived, once.
    pub fn signal(&self) -> Option<i32> {
        read_signal(self.0.as_fd()).ok()
    }

    fn has_come(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
    }
}

/// Why a worker gives no answer.
enum NoAnswer {
    Stuck,
    Stopped,
}

struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(options: &Options) -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command
            .process_group(0)
            .args(["--mount", "--propagation", "private"])
            .arg(std::env::current_exe()?)
            .arg("--worker");
        command.arg("--known").arg(&options.known);
        if options.check {
            command.arg("--check-oracle");
        }
        if options.rootless {
            command.arg("--rootless");
        }
        if options.show {
            command.arg("--show");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("a worker without pipes");
        let requests = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self { child, requests, answers })
    }

    /// Returns the answer to a request.
    fn ask(&mut self, request: &Value, stop: &Stop) -> Result<Value, NoAnswer> {
        writeln!(self.requests, "{request}").map_err(|_| NoAnswer::Stuck)?;
        let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
        let mut fds = [
            PollFd::new(self.answers.get_ref(), PollFlags::IN),
            PollFd::new(&stop.0, PollFlags::IN),
        ];
        if poll(&mut fds, Some(&patience)).is_ok_and(|count| count == 0) {
            return Err(NoAnswer::Stuck);
        }
        if fds[0].revents().is_empty() {
            return Err(NoAnswer::Stopped);
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|_| NoAnswer::Stuck)?;
        serde_json::from_str(&line).map_err(|_| NoAnswer::Stuck)
    }

    /// Lets the worker finish its request and remove its place, or kills it and removes the place.
    fn end(self, is_stuck: bool) {
        let Self { mut child, requests, answers } = self;
        drop((requests, answers));
        if is_stuck {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        let _ = child.wait();
        if is_stuck {
            let id = bed::id(child.id());
            bed::sweep(&bed::top(&id), &id, View::current());
        }
    }
}

/// Has requests answered, in any order, and calls `take` for each answer: all of them, unless a signal stops the run.
///
/// # Errors
/// Those of `take`, and if no worker can be started.
pub fn run(
    options: &Options,
    stop: &Stop,
    requests: Vec<Value>,
    mut take: impl FnMut(Value) -> io::Result<()>,
) -> io::Result<()> {
    let jobs = options.jobs.min(requests.len());
    let left = Mutex::new(requests.into_iter());
    let (sender, receiver) = mpsc::channel::<io::Result<Value>>();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, left) = (sender.clone(), &left);
            scope.spawn(move || {
                let next = || left.lock().ok().and_then(|mut left| left.next());
                let mut worker = None;
                while let Some(request) = next().filter(|_| !stop.has_come()) {
                    let mut asked = match worker.take().map_or_else(|| Worker::start(options), Ok) {
                        Ok(worker) => worker,
                        Err(error) => return sender.send(Err(error)).unwrap_or(()),
                    };
                    let answer = match asked.ask(&request, stop) {
                        Ok(answer) => answer,
                        Err(NoAnswer::Stopped) => return asked.end(false),
                        Err(NoAnswer::Stuck) => {
                            asked.end(true);
                            let text = "the worker died, or hangs";
                            let answer = json!({ "seed": request["seed"], "passed": false, "differences": [{ "text": text, "kind": text }] });
                            if sender.send(Ok(answer)).is_err() {
                                return;
                            }
                            continue;
                        }
                    };
                    worker = Some(asked);
                    if sender.send(Ok(answer)).is_err() {
                        break;
                    }
                }
                if let Some(worker) = worker {
                    worker.end(false);
                }
            });
        }
        drop(sender);
        for answer in receiver {
            take(answer?)?;
        }
        Ok(())
    })
}
