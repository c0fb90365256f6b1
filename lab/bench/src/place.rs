//! The names and the directories of test stands.

use rustix::fs::statfs;
use std::path::{Path, PathBuf};

/// The prefix of all stands' names.
pub const PREFIX: &str = "dayfly-bench-";
/// TMPFS_MAGIC of statfs(2).
const TMPFS: i64 = 0x0102_1994;

/// Returns the directory of bundles of the stand with this name.
pub(crate) fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

/// Returns the state directory of the stand with this name.
pub(crate) fn state(name: &str) -> PathBuf {
    tmpfs().join(name)
}

/// Returns whether a directory is on a tmpfs.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.f_type == TMPFS)
}

/// Returns /run, the host's directory for files that last until reboot, or /dev/shm if only /dev/shm is on a tmpfs.
fn tmpfs() -> PathBuf {
    ["/run", "/dev/shm"]
        .into_iter()
        .find(|path| is_in_memory(Path::new(path)))
        .unwrap_or("/run")
        .into()
}
