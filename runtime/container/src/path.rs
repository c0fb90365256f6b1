//! Paths on the command line.

use alloc::string::String;
use alloc::vec::Vec;

use sys::Context;

use crate::Error;

/// Makes a path of the command line absolute.
pub(crate) fn absolute(path: &str) -> Result<String, Error> {
    if path.starts_with('/') {
        return Ok(plan::clean(path).into_owned());
    }
    let here = rustix::process::getcwd(Vec::new()).context("getcwd", "")?;
    Ok(plan::absolute(&here.to_string_lossy(), path))
}
