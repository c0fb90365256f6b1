//! What `inspect` prints besides the state: a container's process and mounts.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fs::{AtFlags, OFlags, fstat, statat};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::value::RawValue;
use sys::Context;

use crate::checkpoint::unescape;
use crate::directory::START;
use crate::time::{Rfc3339, modified};
use crate::{Container, Error};

/// A mount in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountPoint {
    /// The mount point.
    pub destination: String,
    /// The type of the file system.
    #[serde(rename = "type")]
    pub kind: String,
    /// The source, as the file system names it.
    pub source: String,
    /// The directory or file of the file system that is mounted, if that is not the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// The options of the mount.
    pub options: Vec<String>,
}

impl MountPoint {
    /// Reads a line of mountinfo (proc_pid_mountinfo(5)).
    fn parse(line: &str) -> Option<Self> {
        let (own, of_system) = line.split_once(" - ")?;
        let mut words = own.split(' ').skip(3);
        let root = Some(unescape(words.next()?)).filter(|root| root != "/");
        let (destination, options) = (unescape(words.next()?), words.next()?);
        let mut words = of_system.split(' ');
        Some(Self {
            destination,
            kind: words.next()?.into(),
            source: unescape(words.next()?),
            root: root.unwrap_or_default(),
            options: options.split(',').map(ToString::to_string).collect(),
        })
    }
}

impl Container {
    /// Returns the process of the container's configuration: arguments, environment, user and others.
    ///
    /// # Errors
    /// None, unless the record is damaged.
    pub fn process(&self) -> Result<Box<RawValue>, Error> {
        RawValue::from_string(self.record.process.clone())
            .map_err(|error| Error::Json { what: "the container's process".into(), error })
    }

    /// Returns the time at which the program was started, RFC 3339: that of the last change of the container's directory,
    /// in which `run` makes files before the start, and `start` removes a socket. `None` before the start.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn started(&self) -> Result<Option<String>, Error> {
        if statat(&self.directory, START, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(None);
        }
        let stat = fstat(&self.directory).context("fstat", self.id())?;
        // The time of files is that of the last tick.
        Ok(Some(Rfc3339(modified(&stat).max(self.record.created)).to_string()))
    }

    /// Returns the mounts that the container's processes see; none if it has no process.
    ///
    /// # Errors
    /// Those of the container's state, and of reading the mount table.
    pub fn mounts(&self) -> Result<Vec<MountPoint>, Error> {
        let table = match self.open_of_init("mountinfo", OFlags::RDONLY) {
            Err(Error::NotRunning) => return Ok(Vec::new()),
            // A dying process has left its mount namespace.
            Err(Error::System(error)) if error.errno == Errno::INVAL => return Ok(Vec::new()),
            table => table?,
        };
        let text = sys::fs::read_all(&table).context("read", "mountinfo")?;
        Ok(String::from_utf8_lossy(&text).lines().filter_map(MountPoint::parse).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_mount_table() {
        let line =
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext4 /dev/root rw,errors=continue";
        let mount = MountPoint::parse(line).unwrap();
        assert_eq!((&*mount.destination, &*mount.root), ("/mnt 2", "/mnt1"));
        assert_eq!((&*mount.kind, &*mount.source), ("ext4", "/dev/root"));
        assert_eq!(mount.options, ["rw", "noatime"]);
        assert!(MountPoint::parse("36 35").is_none());
    }
}
