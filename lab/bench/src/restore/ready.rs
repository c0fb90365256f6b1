//! Waits until a container's program reports that it is ready.

use super::program::READY;
use crate::harness::*;
use crate::process::Sample;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use std::os::unix::fs::PermissionsExt;
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
    /// Those of mkdir(2) and chmod(2).
    pub(super) fn make(directory: PathBuf) -> Result<Self, Error> {
        fs::create_dir(&directory).map_err(Error::at("make", &directory))?;
        // Root of a user namespace is another user here.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))
            .map_err(Error::at("chmod", &directory))?;
        Ok(Self { directory })
    }

    /// Removes an earlier report and calls `begin`, which starts a command. Waits until the program reports, and until
    /// the command exits. The sample's time ends with the report. `learn` is called with the exit status or the signal
    /// that ended the command.
    ///
    /// # Errors
    /// The runtime's failure; a program that does not report in time.
    pub(super) fn time(
        &self,
        container: &Container<'_>,
        step: &'static str,
        deadline: Duration,
        begin: impl FnOnce() -> Result<Child, Error>,
        learn: impl FnOnce(End) -> Result<(), Error>,
    ) -> Result<Sample, Error> {
        let _ = fs::remove_file(self.directory.join(READY));
        let watch = self.watch()?;
        let since = Instant::now();
        let command = Pid::from_child(&begin()?);
        let reported = report_or_end(&watch, command, since, deadline);
        let mut wall = since.elapsed();
        let wrong = |failure| container.fault(step, failure);
        let (end, usage) = process::wait(command, deadline).map_err(wrong)?;
        learn(end)?;
        if !reported.map_err(wrong)? {
            // The command ended before the program reported.
            await_one(&mut [PollFd::new(&watch, PollFlags::IN)], since, deadline).map_err(wrong)?;
            wall = since.elapsed();
        }
        Ok(Sample { wall, usage, ..Sample::default() })
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
fn report_or_end(
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

fn await_one(files: &mut [PollFd<'_>], since: Instant, deadline: Duration) -> Result<(), Failure> {
    match process::ready(files, since, deadline)? {
        true => Ok(()),
        false => Err(Failure::Left("the program does not become ready".to_owned())),
    }
}
