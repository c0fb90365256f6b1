//! Access to the kernel's statistics files, for callers that do not use the format of [`Stats`](super::Stats).

use alloc::string::String;

use rustix::io::Errno;

use crate::directory::Directory;
use crate::{Controller, Error, Location, Place};

/// Reads files of a cgroup. A missing file is returned as `None`, because controllers, kernel version and configuration
/// determine which files exist.
#[derive(Debug)]
pub struct Files {
    directory: Directory,
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
        let gone = |directory: &str| Error::Gone(directory.into());
        let path = place.map(Place::directory).ok_or_else(|| gone(""))?;
        match Directory::open(path) {
            Ok(directory) => Ok(Self { directory }),
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
    pub fn text(&self, name: &str) -> Result<Option<String>, Error> {
        match self.directory.read(name) {
            Err(error) if matches!(error.errno, Errno::NOENT | Errno::OPNOTSUPP) => Ok(None),
            result => Ok(Some(result?)),
        }
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
        let files = Files { directory: cgroup.directory() };
        assert_eq!(files.text("long").unwrap(), Some(long));
        assert_eq!(files.text("empty").unwrap(), Some("".into()));
        assert_eq!(files.text("memory.max").unwrap(), Some("max\n".into()));
        assert_eq!(files.text("none").unwrap(), None);
        assert_eq!(files.number("memory.max"), Ok(Some(u64::MAX)));
        assert_eq!(files.number("none"), Ok(None));
        assert!(matches!(files.number("odd"), Err(Error::Unreadable { .. })));
    }

    #[test]
    fn what_is_not_there_is_gone() {
        let location = Location { unified: None, legacy: Vec::new(), unit: None };
        assert!(matches!(Files::unified(&location), Err(Error::Gone { .. })));
        assert!(matches!(Files::legacy(&location, Controller::Memory), Err(Error::Gone { .. })));
    }
}
