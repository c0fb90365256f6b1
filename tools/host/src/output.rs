//! Where results go: to a file, or to the standard output.

use report::{Error, say};
use std::fs;
use std::path::Path;

/// Writes `text` to `file`; to the standard output without one, and where it is called `-`.
///
/// # Errors
/// A file that can't be written.
pub fn write(file: Option<&Path>, text: &str) -> Result<(), Error> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => fs::write(file, text).map_err(Error::of("write", file)),
        None => {
            say!("{text}");
            Ok(())
        }
    }
}
