//! The file of running `auto` commands.

use report::Error;
use std::fs::File;
use std::path::Path;

/// A file on which each command that needs the option holds a lock. It is not empty if the option was off before the
/// first of these commands.
pub(super) const WANTED: &str = "/run/dayfly-favordynmods";
/// The content of that file if the option was off before.
pub(super) const MARK: &[u8] = b"on for a while\n";

/// Keeps the option on when the running commands end.
///
/// # Errors
/// The file cannot be written.
pub(super) fn keep() -> Result<(), Error> {
    let path = Path::new(WANTED);
    match File::options().write(true).truncate(true).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::of("write", path)(error))
        }
        _ => Ok(()),
    }
}
