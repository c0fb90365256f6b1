//! The optional fast paths.
//!
//! A start uses all fast paths that the kernel supports. To measure the gain of a fast path
//! (`dayfly bench ablation`), list the fast paths to leave out in the environment variable
//! `DAYFLY_WITHOUT`. The resulting container is the same; only its creation takes longer.

use alloc::format;
use alloc::string::String;
use bitflags::bitflags;

bitflags! {
    /// A set of fast paths.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FastPaths: u32 {
        /// Init is created in its cgroup (CLONE_INTO_CGROUP, Linux 5.7) instead of moving there.
        const CLONE_INTO_CGROUP = 1;
        /// Init's mount namespace is a copy of the blank namespace. Without this fast path, it is a copy of the host's
        /// mount namespace, and init detaches the host's mounts later.
        const BLANK_NAMESPACE = 1 << 1;
        /// Init shares the parent's memory until its exec.
        const SHARED_MEMORY = 1 << 2;
        /// A separate process creates the network namespace while init mounts.
        const PARALLEL_NETWORK = 1 << 3;
        /// `run` lets init continue once the container is recorded, without an exchange of messages.
        const ONE_WAY_HANDSHAKE = 1 << 4;
        /// Compiled seccomp filters are cached.
        const SECCOMP_CACHE = 1 << 5;
        /// Loaded device programs are cached.
        const DEVICE_CACHE = 1 << 6;
        /// All masked directories are covered by mounts of one empty directory.
        const SHARED_MASKS = 1 << 7;
        /// A single-threaded process that moves itself on cgroup v1 moves as a thread, which avoids a host-wide lock
        /// shared with all forks (Linux 5.5).
        const THREAD_MOVE = 1 << 8;
        /// The read-only mount from which a command runs (CVE-2019-5736) is kept for later commands.
        const KEPT_PROGRAM = 1 << 9;
        /// The directory of a systemd scope is made before systemd has the scope, and the program need not wait for
        /// systemd.
        const EARLY_SCOPE = 1 << 10;
    }
}

/// The environment variable that lists fast paths to leave out, for benchmarks only.
pub const WITHOUT: &str = "DAYFLY_WITHOUT";

impl Default for FastPaths {
    fn default() -> Self {
        Self::all()
    }
}

impl FastPaths {
    /// Every fast path with its name.
    pub const NAMES: [(&str, Self); 11] = [
        ("clone-into-cgroup", Self::CLONE_INTO_CGROUP),
        ("blank-namespace", Self::BLANK_NAMESPACE),
        ("shared-memory", Self::SHARED_MEMORY),
        ("parallel-network", Self::PARALLEL_NETWORK),
        ("one-way-handshake", Self::ONE_WAY_HANDSHAKE),
        ("seccomp-cache", Self::SECCOMP_CACHE),
        ("device-cache", Self::DEVICE_CACHE),
        ("shared-masks", Self::SHARED_MASKS),
        ("thread-move", Self::THREAD_MOVE),
        ("kept-program", Self::KEPT_PROGRAM),
        ("early-scope", Self::EARLY_SCOPE),
    ];

    /// Returns all fast paths except those in a comma-separated list.
    ///
    /// # Errors
    /// Fails for an unknown name; the error lists the valid ones.
    pub fn without(list: &str) -> Result<Self, String> {
        let mut all = Self::all();
        for name in list.split(',').filter(|name| !name.is_empty()) {
            match Self::NAMES.iter().find(|(known, _)| *known == name) {
                Some((_, fast_path)) => all.remove(*fast_path),
                None => {
                    let known = Self::NAMES.map(|(name, _)| name).join(", ");
                    return Err(format!("{WITHOUT}: {name:?} is none of {known}"));
                }
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_list() {
        assert_eq!(FastPaths::without(""), Ok(FastPaths::all()));
        let some = FastPaths::without("shared-memory,seccomp-cache").unwrap();
        let gone = FastPaths::SHARED_MEMORY | FastPaths::SECCOMP_CACHE;
        assert_eq!(some, FastPaths::all().difference(gone));
        assert!(FastPaths::without("sharedmemory").unwrap_err().contains("shared-memory"));
        let every = FastPaths::NAMES.iter().fold(FastPaths::empty(), |all, (_, one)| all | *one);
        assert_eq!(every, FastPaths::all());
    }
}
