//! Access to the kernel's statistics files, for callers that do not use the format of [`Stats`](super::Stats).

use alloc::vec::Vec;
use rustix::fd::AsFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use sys::Context;

use crate::directory::Directory;
use crate::{Controller, Error, Location, Place};

/// The number of bytes by which the buffer grows at a time.
const PAGE: usize = 4096;

/// Reads files of a cgroup, one after another, into one buffer, which grows to the size of the longest file. A missing
/// file is returned as `None`, because controllers, kernel version and configuration determine which files exist.
#[derive(Debug)]
pub struct Files {
    directory: Directory,
    buffer: Vec<u8>,
}

impl Files {
    /// Opens the cgroup's directory on cgroup v2.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist, or if the host only has cgroup v1; failing system calls.
    pub fn unified(location: &Location) -> Result<Self, Error> {
        Self::open(location.unified.as_ref())
    }

    /// Opens the cgroup's directory in the v1 hierarchy of `controller`.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup or the hierarchy does not exist; failing system calls.
    pub fn legacy(location: &Location, controller: Controller) -> Result<Self, Error> {
        Self::open(location.of(controller))
    }

    fn open(place: Option<&Place>) -> Result<Self, Error> {
        let gone = |directory: &str| Error::Gone { directory: directory.into() };
        let path = place.map(Place::directory).ok_or_else(|| gone(""))?;
        match Directory::open(path) {
            Ok(directory) => Ok(Self { directory, buffer: Vec::new() }),
            Err(error) if error.errno == Errno::NOENT => Err(gone(path)),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a whole file of any length. Returns `None` if the file is missing or not supported (EOPNOTSUPP, for
    /// example a pressure file if PSI is disabled).
    ///
    /// # Errors
    /// Failing system calls: for example, ENODEV if the cgroup was removed after it was opened; EILSEQ if the contents
    /// are not UTF-8.
    pub fn text(&mut self, name: &str) -> Result<Option<&str>, Error> {
        let file = match self.directory.file(name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.errno == Errno::NOENT => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut length = 0;
        loop {
            if self.buffer.len() == length {
                self.buffer.resize(length + PAGE, 0);
            }
            let room = self.buffer.get_mut(length..).unwrap_or_default();
            match rustix::io::read(file.as_fd(), room) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => return Ok(None),
                Err(errno) => return Err(errno).context("read", &file).map_err(Error::from),
            }
        }
        let bytes = self.buffer.get(..length).unwrap_or_default();
        let text = core::str::from_utf8(bytes).map_err(|_| Errno::ILSEQ).context("read", file)?;
        Ok(Some(text))
    }

    /// Reads a file that contains one number; the text `max` is returned as [`u64::MAX`].
    ///
    /// # Errors
    /// Those of [`Files::text`]; [`Error::Unreadable`] if the file contains anything else.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        match self.directory.read_number(name) {
            Err(Error::System(error)) if matches!(error.errno, Errno::NOENT | Errno::OPNOTSUPP) => {
                Ok(None)
            }
            result => result.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn files_of_any_length() {
        let cgroup = Fixture::new(&["empty"]);
        let long = "anon 4096\n".repeat(2000);
        cgroup.put("long", &long).put("memory.max", "max\n").put("odd", "x\n");
        let mut files = Files { directory: cgroup.directory(), buffer: Vec::new() };
        assert_eq!(files.text("long").unwrap(), Some(long.as_str()));
        assert_eq!(files.text("empty").unwrap(), Some(""));
        assert_eq!(files.text("memory.max").unwrap(), Some("max\n"));
        assert_eq!(files.text("none").unwrap(), None);
        assert_eq!(files.number("memory.max"), Ok(Some(u64::MAX)));
        assert_eq!(files.number("none"), Ok(None));
        assert!(matches!(files.number("odd"), Err(Error::Unreadable { .. })));
        // Although a longer file was read before, a shorter one is read correctly, and the buffer is reused.
        let capacity = files.buffer.capacity();
        assert_eq!(files.text("long").unwrap().map(str::len), Some(long.len()));
        assert_eq!(files.buffer.capacity(), capacity);
    }

    #[test]
    fn what_is_not_there_is_gone() {
        let location = Location { unified: None, legacy: Vec::new(), unit: None };
        assert!(matches!(Files::unified(&location), Err(Error::Gone { .. })));
        assert!(matches!(Files::legacy(&location, Controller::Memory), Err(Error::Gone { .. })));
    }
}
