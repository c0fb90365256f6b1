//! Runs perf(1), which samples the stacks of this process's children, including their kernel functions.

use crate::harness::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::io::{BufRead, BufReader, Write};

/// The time that perf may take to write its data.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time after which it is looked whether perf still runs.
const MOMENT: Duration = Duration::from_millis(200);

/// A running perf.
pub(super) struct Perf {
    child: Child,
    commands: File,
    answers: BufReader<File>,
    data: PathBuf,
}

impl Perf {
    /// Starts perf, and waits until it records this process and all its future children into a file in `directory`.
    ///
    /// # Errors
    /// perf is missing, or the kernel forbids it.
    pub(super) fn ready(directory: &Path, frequency: u32) -> Result<Self, Error> {
        let [commands, answers, data] =
            ["perf.commands", "perf.answers", "perf.data"].map(|name| directory.join(name));
        let (errors, copy) = process::captured().map_err(Error::at("make", Path::new("memfd")))?;
        for fifo in [&commands, &answers] {
            let _ = std::fs::remove_file(fifo);
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(CWD, fifo, FileType::Fifo, mode, 0).map_err(Error::errno("make fifo", fifo))?;
        }
        // Both FIFOs are opened for reading and writing, so that neither end waits for the other to open it.
        let open = |path: &PathBuf| {
            File::options().read(true).write(true).open(path).map_err(Error::at("open", path))
        };
        let (to, from) = (open(&commands)?, open(&answers)?);
        let mut perf = Command::new("perf");
        // The samples are taken by the event cpu-clock, because virtual machines often have no performance counters.
        // perf records nothing until the command "enable".
        perf.args(["record", "--quiet", "-e", "cpu-clock", "-g", "--delay=-1", "-F"])
            .arg(frequency.to_string())
            .args(["-p", &std::process::id().to_string(), "-o"])
            .arg(&data)
            .arg(format!("--control=fifo:{},{}", commands.display(), answers.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(copy);
        let child = perf.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                unfit!("perf is missing: install linux-perf")
            }
            _ => Error::at("execute", Path::new("perf"))(error),
        })?;
        let mut perf = Self { child, commands: to, answers: BufReader::new(from), data };
        perf.tell("enable").map_err(|error| match process::content(&errors).trim() {
            "" => error,
            said => unfit!("perf record: {said}"),
        })?;
        Ok(perf)
    }

    /// Sends a command to perf, and waits for the acknowledgement.
    fn tell(&mut self, what: &str) -> Result<(), Error> {
        let failed = Error::at("tell", Path::new("perf"));
        writeln!(self.commands, "{what}").map_err(failed)?;
        let mut answer = String::new();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                bail!("perf record: {status}");
            }
            let mut answers = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
            let ready = process::ready(&mut answers, Instant::now(), MOMENT);
            interrupt::check()?;
            if ready.map_err(|failure| unfit!("wait for perf: {failure}"))? {
                self.answers.read_line(&mut answer).map_err(Error::at("ask", Path::new("perf")))?;
                return Ok(());
            }
        }
    }

    /// Stops recording; returns the output of `perf script`.
    ///
    /// # Errors
    /// perf does not exit, or can't read its data.
    pub(super) fn seen(mut self) -> Result<String, Error> {
        self.tell("disable")?;
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::INT);
        process::wait(pid, PATIENCE).map_err(|failure| unfit!("perf record: {failure}"))?;
        let mut script = Command::new("perf");
        script.args(["script", "-F", "comm,pid,ip,sym", "-i"]).arg(&self.data);
        let output = script.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let output = output.map_err(Error::at("execute", Path::new("perf")))?;
        let _ = std::fs::remove_file(&self.data);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        // If perf has been waited for, this has no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
