//! Files that act when a host boots.

use crate::output;
use report::Error;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The directory for the administrator's own units of systemd.
pub const UNITS: &str = "/etc/systemd/system";

/// A unit of systemd. A link in the directory of a target enables it.
#[derive(Debug)]
pub struct Unit {
    /// The unit's file.
    pub file: PathBuf,
    /// The link.
    pub link: PathBuf,
}

impl Unit {
    /// Returns the paths of a unit in the directory `units` that `target` starts.
    pub fn new(units: &Path, name: &str, target: &str) -> Self {
        let link = units.join(format!("{target}.wants")).join(name);
        Self { file: units.join(name), link }
    }

    /// Writes the unit and enables it.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn enable(&self, text: &str) -> Result<(), Error> {
        put(&self.file, text, 0o644)?;
        link("..", &self.file, &self.link)
    }
}

/// Replaces a file atomically; makes its directory if it does not exist.
///
/// # Errors
/// Failing system calls.
pub fn put(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(Error::of("make", parent))?;
    output::replace(path, text, Some(mode))
}

/// Makes a link at `place` to the file of the same name as `file` in `directory`, which is seen from the link.
///
/// # Errors
/// Failing system calls.
pub fn link(directory: &str, file: &Path, place: &Path) -> Result<(), Error> {
    let parent = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(Error::of("make", parent))?;
    let _ = fs::remove_file(place);
    let target = Path::new(directory).join(file.file_name().unwrap_or_default());
    symlink(target, place).map_err(Error::of("link", place))
}

/// Removes files; returns whether there were any.
///
/// # Errors
/// Failing system calls.
pub fn remove<'p>(files: impl IntoIterator<Item = &'p PathBuf>) -> Result<bool, Error> {
    let mut any = false;
    for file in files {
        match fs::remove_file(file) {
            Ok(()) => any = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::of("remove", file)(error)),
        }
    }
    Ok(any)
}
