//! The fast paths, each of which can be done without.
//!
//! A start uses all that the kernel has. To measure what one is worth (`dayfly bench ablation`), the
//! environment variable `DAYFLY_WITHOUT` names those to leave out; a container made without any of
//! them is the same container, later.

use alloc::format;
use alloc::string::String;
use bitflags::bitflags;

bitflags! {
    /// FastPaths of the start path.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FastPaths: u32 {
        /// Init is born in its cgroup (CLONE_INTO_CGROUP, Linux 5.7) instead of moving there.
        const CLONE_INTO_CGROUP = 1;
        /// Init takes its mount namespace from an empty one instead of copying the host's and
        /// letting go of it.
        const TEMPLATE_NAMESPACE = 1 << 1;
        /// Init works in the memory of the parent until its exec.
        const SHARED_MEMORY = 1 << 2;
        /// A process of its own makes the network namespace while init mounts.
        const PARALLEL_NETWORK = 1 << 3;
        /// `run` lets init go on without asking once it is on record.
        const ONE_WAY_HANDSHAKE = 1 << 4;
        /// Compiled seccomp filters are kept.
        const SECCOMP_CACHE = 1 << 5;
        /// Loaded device programs are kept.
        const DEVICE_CACHE = 1 << 6;
        /// Masked paths share what covers them.
        const SHARED_MASKS = 1 << 7;
        /// Where all CPUs are taken, init makes its network namespace itself.
        const CROWD_CHECK = 1 << 8;
        /// Where a process of one thread moves itself on cgroup v1, it moves as that thread, which takes
        /// no lock that all of the host's forks share (Linux 5.5).
        const THREAD_MOVE = 1 << 9;
        /// The read-only mount that a command runs from (CVE-2019-5736) is kept.
        const KEPT_PROGRAM = 1 << 10;
    }
}

/// The environment variable that names what to do without, for benchmarks only.
pub const WITHOUT: &str = "DAYFLY_WITHOUT";

impl Default for FastPaths {
    fn default() -> Self {
        Self::all()
    }
}

impl FastPaths {
    /// Every fast path by its name.
    pub const NAMES: [(&str, Self); 11] = [
        ("clone-into-cgroup", Self::CLONE_INTO_CGROUP),
        ("template-namespace", Self::TEMPLATE_NAMESPACE),
        ("shared-memory", Self::SHARED_MEMORY),
        ("parallel-network", Self::PARALLEL_NETWORK),
        ("one-way-handshake", Self::ONE_WAY_HANDSHAKE),
        ("seccomp-cache", Self::SECCOMP_CACHE),
        ("device-cache", Self::DEVICE_CACHE),
        ("shared-masks", Self::SHARED_MASKS),
        ("crowd-check", Self::CROWD_CHECK),
        ("thread-move", Self::THREAD_MOVE),
        ("kept-program", Self::KEPT_PROGRAM),
    ];

    /// All but those of a comma-separated list.
    ///
    /// # Errors
    /// A name that is none, with those that are.
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
