//! The directory for the state of containers.

use alloc::format;
use alloc::string::String;

use container::{Error, Store, Trace};
use rustix::fs::{Mode, chmod};
use sys::{Context, Errno};

use crate::NAME;
use crate::definition::options::ROOT;
use crate::failure::{Failure, failure};
use crate::values::Values;

/// The state root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StateRoot {
    /// The directory's absolute path.
    pub path: String,
    /// Whether the directory was given on the command line.
    pub is_given: bool,
    /// Whether the directory is the default below $XDG_RUNTIME_DIR, where files without the sticky bit may be removed
    /// at any time.
    pub is_sticky: bool,
}

/// Returns the directory given on the command line, or the user's default directory if none was given.
pub(crate) fn of(globals: &Values<'_>, args: sys::Args) -> Result<StateRoot, Failure> {
    if globals.is_set(&ROOT) {
        let path = given(globals.text(&ROOT).unwrap_or_default())?;
        return Ok(StateRoot { path, is_given: true, is_sticky: false });
    }
    let runtime_dir = args.env("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    Ok(match runtime_dir {
        Some(dir) if !is_real_root(args.env("USER")) => {
            StateRoot { path: format!("{dir}/{NAME}"), is_given: false, is_sticky: true }
        }
        _ => StateRoot { path: format!("/run/{NAME}"), is_given: false, is_sticky: false },
    })
}

impl StateRoot {
    /// Opens the state root.
    pub fn open(&self, trace: &'static Trace) -> Result<Store, Failure> {
        Store::open(&self.path, trace).map_err(|error| match error {
            Error::System(error) if error.errno == Errno::ACCESS && self.is_roots() => {
                failure!("{error}: the directory belongs to root; for your own containers, set XDG_RUNTIME_DIR or give --root")
            }
            error => error.into(),
        })
    }

    /// Opens the state root without making it.
    pub fn open_for_plan(&self, trace: &'static Trace) -> Result<Store, Failure> {
        Ok(Store::open_for_plan(&self.path, trace)?)
    }

    /// Returns whether the state root is the default directory of root, although the caller is not root.
    fn is_roots(&self) -> bool {
        !self.is_given && !self.is_sticky && !rustix::process::geteuid().is_root()
    }
}

fn given(path: &str) -> Result<String, Failure> {
    match container::absolute(path)? {
        root if root == "/" => Err(Failure::new("Option --root argument should not be set to /")),
        path => Ok(path),
    }
}

/// Returns whether the caller is treated as root on the host. Id 0 in a user namespace counts as root only if the user
/// name is `root`; otherwise the user's own directory is used.
fn is_real_root(name: Option<&str>) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    name == Some("root") || !sys::user_namespace::is_nested()
}

/// Sets the sticky bit, which protects the directory from automatic removal (XDG base directory specification,
/// "$XDG_RUNTIME_DIR").
pub(crate) fn keep(path: &str) -> Result<(), Failure> {
    Ok(chmod(path, Mode::from_raw_mode(0o1700)).context("chmod", path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_roots() {
        assert_eq!(given("/run//x/../y/").unwrap(), "/run/y");
        assert!(given("here").unwrap().ends_with("/here"));
        for root in ["/", "//", "/..", "../../../../../../../../../.."] {
            assert!(given(root).is_err(), "{root}");
        }
    }
}
