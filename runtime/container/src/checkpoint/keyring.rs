//! The session keyring of restored processes.

use alloc::format;

use sys::fs::c_path;
use sys::{Context, Errno};

use crate::Error;

/// Joins a new session keyring, so that the container's processes do not inherit the caller's keyring from criu.
pub(super) fn join(id: &str) -> Result<(), Error> {
    let name = c_path(format!("_ses.{id}")).context("join keyring of", id)?;
    match sys::keyring::join_session(&name) {
        Ok(key) => {
            // A failure is ignored, as in init.
            let _ = sys::keyring::allow_owner_search(key);
            Ok(())
        }
        Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(sys::Error::new("keyctl", "session keyring", errno).into()),
    }
}
