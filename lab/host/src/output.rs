//! Output to a file or to standard output.

use report::{Error, say};
use std::fs;
use std::path::Path;

/// Writes `text` to `file`, or to standard output if `file` is `None` or `-`.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: Option<&Path>, text: &str) -> Result<(), Error> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => fs::write(file, text).map_err(Error::of("write", file)),
        None => {
            say!("{text}");
            Ok(())
        }
    }
}
