//! Workers, each a process in a mount namespace of its own.

use crate::options::Options;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;

/// Seconds after which a worker without an answer hangs. Shrinking is one answer.
const PATIENCE: i64 = 300;

struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(options: &Options) -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .arg(std::env::current_exe()?)
            .arg("--worker");
        command.arg("--known").arg(&options.known);
        if options.check {
            command.arg("--check-oracle");
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

    /// Returns the answer to a request, or `None` if the worker died or hangs.
    fn ask(&mut self, request: &Value) -> Option<Value> {
        writeln!(self.requests, "{request}").ok()?;
        let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
        if poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&patience)).ok()?
            == 0
        {
            return None;
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    fn end(self, is_stuck: bool) {
        let Self { mut child, requests, answers } = self;
        drop((requests, answers));
        if is_stuck {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

/// Has all requests answered, in any order, and calls `take` for each answer.
///
/// # Errors
/// Those of `take`, and if no worker can be started.
pub fn run(
    options: &Options,
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
                while let Some(request) = next() {
                    let mut asked = match worker.take().map_or_else(|| Worker::start(options), Ok) {
                        Ok(worker) => worker,
                        Err(error) => return sender.send(Err(error)).unwrap_or(()),
                    };
                    let answer = asked.ask(&request);
                    let is_stuck = answer.is_none();
                    let answer = answer.unwrap_or_else(|| {
                        let text = "the worker died, or hangs";
                        json!({ "seed": request["seed"], "passed": false, "differences": [{ "text": text, "kind": text }] })
                    });
                    if is_stuck {
                        asked.end(true);
                    } else {
                        worker = Some(asked);
                    }
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
