//! A CRI client: the Go program `cri-client serve`, which keeps its connection open.

use super::daemon::{Daemon, built};
use super::{Shim, image};
use crate::harness::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout};

/// The client's answer to a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    /// The time of each call, in microseconds.
    pub(super) steps: BTreeMap<String, f64>,
    /// Times in microseconds.
    pub(super) times: Vec<f64>,
    /// The reason why there are no results.
    pub(super) error: String,
}

/// The running program.
#[derive(Debug)]
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Starts the client.
    ///
    /// # Errors
    /// The program is missing.
    pub(super) fn start(options: &Shim, stand: &Stand, daemon: &Daemon) -> Result<Self, Error> {
        let program = program(options)?;
        let mut command = Command::new(&program);
        command.arg("serve").arg("--address").arg(daemon.socket());
        command.args(["--image", image::BOX, "--cgroup", &stand.cgroup.path, "--directory"]);
        command.arg(stand.directory.join("logs"));
        command.arg("--patience").arg(format!("{}s", stand.deadline.as_secs().max(1)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(Error::at("execute", &program))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes to the CRI's client");
        };
        Ok(Self { child, input: Some(input), output: BufReader::new(output) })
    }

    /// Sends a request to the client.
    ///
    /// # Errors
    /// The client has exited or does not answer in time; an interrupt; the CRI's.
    pub(super) fn ask(&mut self, line: &str, deadline: Duration) -> Result<Answer, Error> {
        let gone = |error: std::io::Error| unfit!("the CRI's client: {line}: {error}");
        let none = || unfit!("the CRI's client is gone");
        let input = self.input.as_mut().ok_or_else(none)?;
        writeln!(input, "{line}").map_err(gone)?;
        let mut output = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        let ready = process::ready(&mut output, Instant::now(), deadline);
        interrupt::check()?;
        if !ready.is_ok_and(|ready| ready) {
            bail!("the CRI's client: no answer to {line} after {deadline:?}");
        }
        let mut text = String::new();
        self.output.read_line(&mut text).map_err(gone)?;
        let answer: Answer = serde_json::from_str(&text)
            .map_err(|error| unfit!("the CRI's client: {line}: {error}: {text}"))?;
        if answer.error.is_empty() { Ok(answer) } else { Err(Error::Out(answer.error)) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // At the end of its input, the client removes its pods. Processes that remain are killed with the stand's
        // cgroup.
        self.input = None;
        let patience = Duration::from_secs(if interrupt::came() { 2 } else { 60 });
        process::end(&mut self.child, patience);
    }
}

fn program(options: &Shim) -> Result<PathBuf, Error> {
    let beside = || options.containerd.as_ref()?.parent().map(|build| build.join("cri-client"));
    let known = [beside(), built("cri-client"), report::program::in_path("cri-client")];
    let found =
        options.client.clone().or_else(|| known.into_iter().flatten().find(|path| path.is_file()));
    found.ok_or_else(|| {
        unfit!("no client of the CRI: scripts/programs builds it, --client names it")
    })
}
