//! Waits until a container's program reports that it is ready.

use super::program::READY;
use crate::Error;
use crate::container::{Container, Fault};
use crate::process::{self, Failure, Sample};
use report::interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use sys::rusage::End;

/// A directory in which a program reports.
#[derive(Debug)]
pub(super) struct Reports {
    /// The directory.
    pub directory: PathBuf,
}

impl Reports {
    /// Makes the directory.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub(super) fn make(directory: PathBuf) -> Result<Self, Error> {
        fs::create_dir(&directory).map_err(Error::at("make", &directory))?;
        Ok(Self { directory })
    }

    /// Removes an earlier report, calls `begin`, and waits until the program reports, and until the command that
    /// `begin` has started ends. The sample's time ends with the report. `learn` receives the command's end.
    ///
    /// # Errors
    /// The inner error is the runtime's failure, or a program that does not report in time.
    pub(super) fn time(
        &self,
        container: &Container<'_>,
        step: &'static str,
        deadline: Duration,
        begin: impl FnOnce() -> Result<Child, Fault>,
        learn: impl FnOnce(End) -> Result<(), Fault>,
    ) -> Result<Result<Sample, Fault>, Error> {
        let _ = fs::remove_file(self.directory.join(READY));
        let watch = self.watch()?;
        let since = Instant::now();
        let command = match begin() {
            Ok(child) => Pid::from_child(&child),
            Err(fault) => return Ok(Err(fault)),
        };
        let failed = |failure| Err(container.wrong(step, failure));
        let reported = wait_for(&watch, command, since, deadline);
        let wall = since.elapsed();
        let (end, usage) = match process::wait(command, deadline) {
            Ok(ended) => ended,
            Err(failure) => return Ok(failed(failure)),
        };
        if let Err(fault) = learn(end) {
            return Ok(Err(fault));
        }
        Ok(match reported {
            Ok(true) => Ok(Sample { wall, usage, ..Sample::default() }),
            // The command had ended before.
            Ok(false) => match wait_for_report(&watch, since, deadline) {
                Ok(wall) => Ok(Sample { wall, usage, ..Sample::default() }),
                Err(failure) => failed(failure),
            },
            Err(failure) => failed(failure),
        })
    }

    fn watch(&self) -> Result<OwnedFd, Error> {
        let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let watch = watch.map_err(Error::errno("inotify_init", Path::new("")))?;
        add_watch(&watch, &self.directory, WatchFlags::CREATE)
            .map_err(Error::errno("watch", &self.directory))?;
        Ok(watch)
    }
}

/// Waits for a report, or for the end of the command. Returns whether there was a report.
fn wait_for(
    watch: &OwnedFd,
    command: Pid,
    since: Instant,
    deadline: Duration,
) -> Result<bool, Failure> {
    let pidfd = pidfd_open(command, PidfdFlags::empty()).map_err(Failure::Wait)?;
    let mut both = [PollFd::new(watch, PollFlags::IN), PollFd::new(&pidfd, PollFlags::IN)];
    await_one(&mut both, since, deadline)?;
    Ok(both[0].revents().contains(PollFlags::IN))
}

/// Waits for a report; returns the time until then.
fn wait_for_report(
    watch: &OwnedFd,
    since: Instant,
    deadline: Duration,
) -> Result<Duration, Failure> {
    await_one(&mut [PollFd::new(watch, PollFlags::IN)], since, deadline)?;
    Ok(since.elapsed())
}

fn await_one(files: &mut [PollFd<'_>], since: Instant, deadline: Duration) -> Result<(), Failure> {
    loop {
        let left = deadline.saturating_sub(since.elapsed());
        let timeout = Timespec::try_from(left).map_err(|_| Failure::Overdue(deadline))?;
        match poll(files, Some(&timeout)) {
            Ok(0) => return Err(Failure::Left("the program does not become ready".to_owned())),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) if interrupt::came() => return Err(Failure::Interrupted),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::Wait(errno)),
        }
    }
}
