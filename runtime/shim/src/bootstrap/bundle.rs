//! The bundle state: the file `dayfly.json`, which a shim writes to a bundle.
//!
//! The shim writes the file when it creates a container, and again when the container's init has exited. The action
//! `delete` reads the file, because the shim may have died.

use alloc::format;
use alloc::string::String;

use rustix::fs::{CWD, Mode, OFlags, openat, rename};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sys::Context;
use sys::fs::{Owned, read_owned_at};

use super::Failure;

/// The root directory of the containers' state, if the options do not specify one.
pub const ROOT: &str = "/run/containerd/dayfly";
/// The file's name.
const FILE: &str = "dayfly.json";
/// The maximum size of the file in bytes.
const LONGEST: usize = 1 << 16;

/// The contents of a bundle's `dayfly.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleState {
    /// The root of the state, from [`state_root`].
    pub root: String,
    /// The exit of the container's init; `None` until init has exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// The exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The pid of the process.
    pub pid: u32,
    /// The exit status, or 128 plus the signal.
    pub status: u32,
    /// The time of the exit, in nanoseconds since 1970.
    pub at: u64,
}

/// Returns the root directory of the state of all containers in `namespace`. The result is a subdirectory of `root`,
/// the value of `Options.root`, or of [`ROOT`] if `root` is empty.
pub fn state_root(root: &str, namespace: &str) -> String {
    let root = if root.is_empty() { ROOT } else { root.trim_end_matches('/') };
    format!("{root}/{namespace}")
}

impl BundleState {
    /// Reads the file from `bundle`; returns `None` if it is missing.
    ///
    /// # Errors
    /// If the file's owner is neither the caller nor root, or if the file is invalid.
    pub fn read(bundle: &str) -> Result<Option<Self>, Failure> {
        let path = format!("{bundle}/{FILE}");
        let trusted = |owner| owner == 0 || owner == geteuid().as_raw();
        match read_owned_at(CWD, path.as_str(), trusted, LONGEST) {
            Ok(Owned::Read(bytes)) => match serde_json::from_slice(&bytes) {
                Ok(state) => Ok(Some(state)),
                Err(error) => Err(format!("{path}: {error}").into()),
            },
            Ok(Owned::Foreign(owner)) => Err(format!("{path}: belongs to user {owner}").into()),
            Ok(Owned::Special) => Err(format!("{path}: not a regular file").into()),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(sys::Error::new("read", path, errno).into()),
        }
    }

    /// Writes the file to `bundle` atomically.
    ///
    /// # Errors
    /// Those of open(2), write(2) and rename(2); EINVAL if the state cannot be written as JSON.
    pub fn write(&self, bundle: &str) -> Result<(), sys::Error> {
        let bytes = serde_json::to_vec(self);
        let bytes = bytes.map_err(|_| sys::Error::new("encode", FILE, Errno::INVAL))?;
        write_whole(bundle, FILE, &bytes)
    }
}

/// Writes a file of the bundle atomically: a concurrent reader sees either all of the new contents, or the previous
/// file, if there was one.
///
/// # Errors
/// Those of open(2), write(2) and rename(2).
pub fn write_whole(bundle: &str, name: &str, bytes: &[u8]) -> Result<(), sys::Error> {
    let (path, new) = (format!("{bundle}/{name}"), format!("{bundle}/.{name}"));
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        openat(CWD, new.as_str(), flags, Mode::from_raw_mode(0o600)).context("open", &new)?;
    sys::stdio::write_all(&file, bytes).context("write", &new)?;
    rename(new.as_str(), path.as_str()).context("rename", &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots() {
        assert_eq!(state_root("", "k8s.io"), "/run/containerd/dayfly/k8s.io");
        assert_eq!(state_root("/run/x/", "default"), "/run/x/default");
    }

    #[test]
    fn written_and_read() {
        let dir = std::env::temp_dir().join(format!("dayfly-shim-bundle-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let bundle = dir.to_str().unwrap();
        assert_eq!(BundleState::read(bundle).unwrap(), None);
        let mut state = BundleState { root: "/r/ns".into(), exit: None };
        state.write(bundle).unwrap();
        assert_eq!(std::fs::read(dir.join(FILE)).unwrap(), br#"{"root":"/r/ns"}"#);
        assert_eq!(BundleState::read(bundle).unwrap(), Some(state.clone()));
        state.exit = Some(Exit { pid: 7, status: 137, at: 1 << 60 });
        state.write(bundle).unwrap();
        assert_eq!(BundleState::read(bundle).unwrap(), Some(state));
        for wrong in ["", "{", "[]", "{\"root\":1}"] {
            std::fs::write(dir.join(FILE), wrong).unwrap();
            assert!(BundleState::read(bundle).is_err(), "{wrong}");
        }
        std::fs::remove_file(dir.join(FILE)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join(FILE)).unwrap();
        assert!(BundleState::read(bundle).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
