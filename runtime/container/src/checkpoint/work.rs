//! The directory of criu's logs and sockets (`--work-path`).
//!
//! An engine names one of its own directories. If the container has a user namespace, Podman gives this directory to the
//! container's root. criu follows symbolic links when it creates its files, so criu never writes to such a directory.

use alloc::format;
use alloc::string::String;

use rustix::io::Errno;

use super::images::Directory;
use super::log;
use super::session::Trouble;
use crate::Error;

/// Returns the path of a directory in the bundle for criu's log, where an engine names no other. After a failure, it is
/// kept.
pub fn own_work(bundle: &str) -> String {
    format!("{bundle}/criu-work")
}

/// Removes the directory that [`own_work`] names.
///
/// # Errors
/// If a file cannot be removed.
pub fn remove_work(path: &str) -> Result<(), Error> {
    Ok(rootfs::remove_all(&super::c_string(path)?)?)
}

/// The directory of criu's logs.
#[derive(Debug)]
pub(super) enum Work {
    /// The directory of the images.
    Images,
    /// A directory that only the caller may write to.
    Own(Directory),
    /// A directory of another user, which receives the logs when criu has ended. Until then they are in the directory of
    /// the images.
    Foreign(Directory),
}

impl Work {
    /// Opens the directory, and creates it if it is missing. Refuses a directory of another user if criu needs its
    /// sockets there (`lazy`).
    pub fn make(path: Option<&str>, lazy: bool) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::Images) };
        let directory = Directory::make_any(path)?;
        match directory.check_owner() {
            Ok(()) => Ok(Self::Own(directory)),
            Err(_) if !lazy => Ok(Self::Foreign(directory)),
            Err(error) => Err(error),
        }
    }

    /// Returns the directory to which criu writes.
    pub fn of_criu<'a>(&'a self, images: &'a Directory) -> &'a Directory {
        match self {
            Self::Own(directory) => directory,
            Self::Images | Self::Foreign(_) => images,
        }
    }

    /// Returns the directory that has the logs in the end.
    fn last<'a>(&'a self, images: &'a Directory) -> &'a Directory {
        match self {
            Self::Own(directory) | Self::Foreign(directory) => directory,
            Self::Images => images,
        }
    }

    /// Returns the error of a failed operation. If criu reported the error, adds the reason from criu's log. `config` is
    /// the file of options for criu, which may name another log.
    pub fn explain(&self, trouble: Trouble, images: &Directory, name: &str, config: &str) -> Error {
        let text = match trouble {
            Trouble::Ours(error) => return error,
            Trouble::Of(text) => text,
        };
        let (path, read) = match log::named_by(config, name) {
            None => {
                let path = format!("{}/{name}", self.last(images).path);
                (path, self.of_criu(images).read(name, log::LONGEST))
            }
            Some(named) => {
                let path = plan::absolute(&self.of_criu(images).path, &named);
                let read = Directory::open_parent(&path)
                    .and_then(|(directory, name)| directory.read(name, log::LONGEST));
                (path, read)
            }
        };
        let line = read.ok().and_then(|bytes| log::last_error(&String::from_utf8_lossy(&bytes)));
        Error::Text(match line {
            Some(line) => format!("{text}: {line} (log file: {path})"),
            None => format!("{text} (log file: {path})"),
        })
    }

    /// Copies criu's files of these names from its own directory. A missing file is no error.
    pub fn collect(
        &self,
        own: &Directory,
        images: &Directory,
        names: &[&'static str],
    ) -> Result<(), Error> {
        for name in names {
            match own.read(name, log::LONGEST) {
                Ok(bytes) => self.of_criu(images).write(name, &bytes)?,
                Err(Error::System(error)) if error.errno == Errno::NOENT => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves criu's files of these names to the directory of another user, if there is one. A missing file is no error.
    pub fn hand_over(&self, images: &Directory, names: &[&'static str]) -> Result<(), Error> {
        let Self::Foreign(directory) = self else { return Ok(()) };
        for name in names {
            match images.read(name, log::LONGEST) {
                Ok(bytes) => directory.write(name, &bytes)?,
                Err(Error::System(error)) if error.errno == Errno::NOENT => continue,
                Err(error) => return Err(error),
            }
            images.remove(name)?;
        }
        Ok(())
    }
}
