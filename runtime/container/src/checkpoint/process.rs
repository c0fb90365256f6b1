//! Reads the files of init in /proc during a checkpoint or a restore. Never reads the files of a later process with the same pid.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, readlinkat};
use rustix::process::Pid;
use sys::Context;

use crate::Error;
use crate::identity::has_exited;

/// A process and its open directory in /proc. The descriptor always refers to this process: after
/// its exit, reads fail with ESRCH or ENOENT, even if another process has the same pid by then.
#[derive(Debug)]
pub(super) struct Process {
    pub pid: i32,
    pidfd: OwnedFd,
    directory: OwnedFd,
}

impl Process {
    /// Opens the directory of the process.
    ///
    /// # Errors
    /// [`Error::NotRunning`] if the process has exited; those of open(2).
    pub fn open((pid, pidfd): (Pid, OwnedFd)) -> Result<Self, Error> {
        let pid = pid.as_raw_nonzero().get();
        let path = format!("/proc/{pid}");
        let opened = sys::fs::open_dir(CWD, path.as_str());
        // If the process has exited, the directory may belong to another process.
        if has_exited(&pidfd) {
            return Err(Error::NotRunning);
        }
        Ok(Self { pid, pidfd, directory: opened.context("open", &path)? })
    }

    /// Fails if the process has exited.
    ///
    /// # Errors
    /// [`Error::NotRunning`]
    pub fn check(&self) -> Result<(), Error> {
        if has_exited(&self.pidfd) { Err(Error::NotRunning) } else { Ok(()) }
    }

    /// Returns a pidfd of the process.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Returns a path to a file of the process's directory.
    pub fn path(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd())
    }

    /// Opens the root directory of the process.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn root(&self) -> Result<OwnedFd, Error> {
        let object = format!("/proc/{}/root", self.pid);
        Ok(sys::fs::open_dir(&self.directory, "root").context("open", &object)?)
    }

    /// Returns the targets of the standard streams. The target of a closed stream is empty.
    pub fn streams(&self) -> [String; 3] {
        [0, 1, 2].map(|number| {
            let path = readlinkat(&self.directory, format!("fd/{number}"), Vec::new());
            path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;

    fn sleeping() -> (Child, Pid, OwnedFd) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        (child, pid, pidfd)
    }

    #[test]
    fn reads_end_with_the_process() {
        let (mut child, pid, pidfd) = sleeping();
        let process = Process::open((pid, pidfd)).unwrap();
        process.check().unwrap();
        assert!(!process.streams()[0].is_empty());
        assert!(sys::fs::read_text(process.path("mountinfo").as_str()).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(process.check(), Err(Error::NotRunning)));
        assert_eq!(process.streams(), [""; 3]);
        assert!(process.root().is_err());
        assert!(sys::fs::read_text(process.path("mountinfo").as_str()).is_err());
    }

    #[test]
    fn directory_of_an_exited_process_is_refused() {
        let (mut child, _, pidfd) = sleeping();
        child.kill().unwrap();
        child.wait().unwrap();
        // The pid of the directory now belongs to another process: the test process.
        let other = rustix::process::getpid();
        assert!(matches!(Process::open((other, pidfd)), Err(Error::NotRunning)));
    }
}
