//! The program criu.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;

use rustix::fs::{Access, access};

use crate::Error;

/// The environment variable that contains criu's path.
pub const PROGRAM: &str = "DAYFLY_CRIU";

/// Returns criu's path: the variable's value, or `criu` from the search path.
pub(super) fn find(env: sys::Args) -> Result<CString, Error> {
    let named = env.env(PROGRAM).filter(|path| !path.is_empty());
    let path = match named {
        Some(path) => Some(String::from(path)),
        None => {
            let directories = env.env("PATH").unwrap_or_default().split(':');
            let paths = directories
                .filter(|directory| directory.starts_with('/'))
                .map(|directory| format!("{directory}/criu"));
            paths.into_iter().find(|path| access(path.as_str(), Access::EXEC_OK).is_ok())
        }
    };
    let path = path.ok_or_else(|| {
        Error::Text(format!(
            "CRIU version check failed: exec: \"criu\": executable file not found in $PATH: \
             criu 3.0 or newer is needed, in $PATH or named by ${PROGRAM}"
        ))
    })?;
    CString::new(path).map_err(|_| Error::text("criu: a NUL byte in its path"))
}
