//! A container whose program answers requests: it reads them from its standard input, and writes an answer to its
//! standard output for each.

use crate::harness::*;
use rustix::io::{read, write};
use rustix::process::kill_process_group;
use std::io::{PipeReader, PipeWriter, pipe};

/// The program after its imports. Its warm-up ends with the call of the library.
pub(super) const PROGRAM: &str = include_str!("function.py");

/// A request.
const REQUEST: &[u8] = b"a request\n";

/// The time in which a dropped container may end by itself.
const MOMENT: Duration = Duration::from_secs(1);

/// A container of the function. When dropped, it is removed whatever its state, on the same conditions as [`Container`].
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) container: Container<'a>,
    deadline: Duration,
    /// The command `run`, until it has been waited for.
    run: Option<Pid>,
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    /// The time until the last answer: from before the command for the first one, else from the request on.
    pub(super) took: Duration,
}

impl<'a> Function<'a> {
    pub(super) fn new(container: Container<'a>, deadline: Duration) -> Self {
        Self { container, deadline, run: None, stdin: None, stdout: None, took: Duration::ZERO }
    }

    /// Starts the container with a request in its standard input, and waits for the answer.
    ///
    /// # Errors
    /// The container cannot be started, or there is no answer.
    pub(super) fn start(&mut self) -> Result<(), Error> {
        let failed = |error| self.container.fault("run", Failure::Spawn(error));
        let (stdin, requests) = pipe().map_err(failed)?;
        let (answers, stdout) = pipe().map_err(failed)?;
        write(&requests, REQUEST).map_err(|errno| failed(errno.into()))?;
        let mut command = self.container.attached_run(stdin.into(), stdout.into())?;
        let since = Instant::now();
        let child = command.spawn().map_err(failed)?;
        self.run = Some(Pid::from_child(&child));
        (self.stdin, self.stdout) = (Some(requests), Some(answers));
        // Closes the container's ends of the pipes here: without them, the end of the program is seen.
        drop(command);
        self.answer(since)
    }

    /// Sends a request to the running container, and waits for the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) fn ask(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        let stdin = self.stdin.as_ref().ok_or(Errno::PIPE);
        stdin
            .and_then(|stdin| write(stdin, REQUEST))
            .map_err(|errno| self.container.fault("a request", Failure::Wait(errno)))?;
        self.answer(since)
    }

    /// Waits for an answer, which is a line.
    fn answer(&mut self, since: Instant) -> Result<(), Error> {
        let wrong = |failure| self.container.fault("an answer", failure);
        let ended = || wrong(Failure::Left("the program has ended".to_owned()));
        let stdout = self.stdout.as_ref().ok_or_else(ended)?;
        let mut buffer = [0; 512];
        let mut is_line = false;
        while !is_line {
            let mut files = [PollFd::new(stdout, PollFlags::IN)];
            if !process::ready(&mut files, since, self.deadline).map_err(wrong)? {
                return Err(wrong(Failure::Overdue(self.deadline)));
            }
            match read(stdout, &mut buffer) {
                Ok(0) => return Err(ended()),
                Ok(length) => is_line = buffer[..length].ends_with(b"\n"),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(wrong(Failure::Wait(errno))),
            }
        }
        self.took = since.elapsed();
        Ok(())
    }

    /// Ends the program by the end of its input, and waits until the container is gone.
    ///
    /// # Errors
    /// The runtime's failure, or the program's exit status if it is not 0.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.stdin = None;
        let Some(run) = self.run else { return Ok(()) };
        let end = process::wait(run, self.deadline);
        let (end, _) = end.map_err(|failure| self.container.fault("run", failure))?;
        self.run = None;
        self.container.removed_by("run", end)
    }
}

impl Drop for Function<'_> {
    fn drop(&mut self) {
        self.deadline = MOMENT;
        if self.end().is_err()
            && let Some(run) = self.run
        {
            let _ = kill_process_group(run, Signal::KILL);
            let _ = process::wait(run, MOMENT);
        }
    }
}
