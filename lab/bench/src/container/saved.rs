//! Checkpoint and restore of a container.

use super::{Container, Fault};
use crate::process::Sample;
use std::path::Path;
use std::process::Child;
use sys::rusage::End;

/// The option that prevents criu from saving cgroups. In a hierarchy in which the container has no
/// cgroup of its own, criu would save the cgroups of the whole host, and a restore by runc would
/// create those that have disappeared by then.
const CGROUPS: &str = "--manage-cgroups-mode=ignore";

impl Container<'_> {
    /// Runs `checkpoint`, which ends the container's processes.
    ///
    /// # Errors
    /// The runtime's failure.
    pub fn checkpoint(&self, images: &Path) -> Result<Sample, Fault> {
        let arguments = [
            "checkpoint".as_ref(),
            CGROUPS.as_ref(),
            "--image-path".as_ref(),
            images.as_ref(),
            self.id.as_ref(),
        ];
        self.call("checkpoint", &arguments)
    }

    /// Starts `restore --detach` without waiting for its end. criu's logs and statistics are written to `work`. Call
    /// [`Self::restored`] when the command ends.
    ///
    /// # Errors
    /// The runtime can't be executed.
    pub fn begin_restore(&self, images: &Path, work: &Path) -> Result<Child, Fault> {
        self.made.set(true);
        let file = self.pid_file();
        let arguments = [
            "restore".as_ref(),
            CGROUPS.as_ref(),
            "--detach".as_ref(),
            "--pid-file".as_ref(),
            file.as_os_str(),
            "--image-path".as_ref(),
            images.as_ref(),
            "--work-path".as_ref(),
            work.as_ref(),
            "--bundle".as_ref(),
            self.bundle.as_ref(),
            self.id.as_ref(),
        ];
        self.spawn("restore", self.command(&arguments))
    }

    /// Records the pid of the restored program, after `restore --detach` has ended with `end`.
    ///
    /// # Errors
    /// The runtime's failure, or a pid file without a pid.
    pub fn restored(&self, end: End) -> Result<(), Fault> {
        self.check("restore", end)?;
        self.read_pid("restore").map(drop)
    }

    /// Removes the container by force, but keeps its bundle, from which the container can be made again.
    pub fn discard(&self) {
        self.remove();
        self.made.set(false);
    }
}
