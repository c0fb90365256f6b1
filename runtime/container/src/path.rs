//! Paths on the command line.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use sys::Context;

use crate::Error;

/// Returns a path of the command line as an absolute path without `.` and `..`. A relative path is relative to the
/// working directory.
///
/// # Errors
/// That of getcwd(2); a working directory whose path is not UTF-8.
pub fn absolute(path: &str) -> Result<String, Error> {
    if path.starts_with('/') {
        return Ok(plan::clean(path).into_owned());
    }
    Ok(plan::absolute(&working_directory()?, path))
}

fn working_directory() -> Result<String, Error> {
    let here = rustix::process::getcwd(Vec::new()).context("getcwd", "")?;
    here.into_string().map_err(|error| {
        let here = error.into_cstring();
        Error::Text(format!("working directory {}: its path is not UTF-8", here.to_string_lossy()))
    })
}
