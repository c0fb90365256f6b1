//! Checks whether a process has ids of a range, and whether an owner's directory is visible in any mount namespace.
//!
//! A missing path alone proves little: the directory may be on a mount that this mount namespace lacks, or may have
//! been removed while its container still runs.

use alloc::format;
use alloc::vec::Vec;

use rustix::fs::{AtFlags, CWD, stat, statat};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::Context;

use super::RANGE;
use crate::remove::{names, open_directory};

/// The inode of the initial PID namespace (PROC_PID_INIT_INO, linux/proc_ns.h).
const INITIAL: u64 = 0xEFFF_FFFC;

/// A snapshot of the processes of a host.
#[derive(Debug)]
pub(super) struct Census {
    /// The lines of each process's uid_map(5): first id outside, count, and the process.
    maps: Vec<(u64, u64, Pid)>,
    /// The mount namespaces of the processes.
    mount_namespaces: Vec<u64>,
    /// Whether the snapshot includes all processes.
    is_whole: bool,
}

/// Returns the inode of this process's mount namespace.
pub(super) fn own_mount_namespace() -> Result<u64, sys::Error> {
    const PATH: &str = "/proc/self/ns/mnt";
    Ok(stat(PATH).context("stat", PATH)?.st_ino)
}

impl Census {
    /// Examines every process.
    pub fn take() -> Result<Self, sys::Error> {
        let proc =
            open_directory(rustix::fd::AsFd::as_fd(&CWD), c"/proc").context("open", "/proc")?;
        let own = stat("/proc/self/ns/pid").context("stat", "/proc/self/ns/pid")?.st_ino;
        let mut census =
            Self { maps: Vec::new(), mount_namespaces: Vec::new(), is_whole: own == INITIAL };
        for name in names(rustix::fd::AsFd::as_fd(&proc)).context("read", "/proc")? {
            let pid = name.to_str().ok().and_then(|name| name.parse::<i32>().ok());
            let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
            match sys::fs::read_at(&proc, format!("{}/uid_map", pid.as_raw_nonzero()).as_str()) {
                Ok(text) => {
                    census.maps.extend(lines(&text).map(|(first, count)| (first, count, pid)));
                }
                // The process has ended meanwhile.
                Err(Errno::NOENT | Errno::SRCH) => continue,
                Err(_) => census.is_whole = false,
            }
            match statat(
                &proc,
                format!("{}/ns/mnt", pid.as_raw_nonzero()).as_str(),
                AtFlags::empty(),
            ) {
                Ok(stat) => census.mount_namespaces.push(stat.st_ino),
                Err(Errno::NOENT | Errno::SRCH) => {}
                Err(_) => census.is_whole = false,
            }
        }
        Ok(census)
    }

    /// Returns a process that has ids of the range: a process of the container that leased the range, or of a container
    /// nested in it.
    pub fn inhabitant(&self, first: u32) -> Option<Pid> {
        let (first, end) = (u64::from(first), u64::from(first) + u64::from(RANGE));
        let is_inside = |start: u64, count: u64| start >= first && start + count <= end;
        self.maps.iter().find(|(start, count, _)| is_inside(*start, *count)).map(|(.., pid)| *pid)
    }

    /// Returns whether a directory that does not exist here is not visible anywhere, because it was created in this
    /// mount namespace or in one without processes. An unknown namespace (0) counts as one without processes.
    pub fn is_out_of_sight(&self, mount_namespace: u64, own: u64) -> bool {
        mount_namespace == own || self.is_whole && !self.mount_namespaces.contains(&mount_namespace)
    }
}

/// Iterates over the second and third number of each line.
fn lines(text: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let text = core::str::from_utf8(text).unwrap_or_default();
    text.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_all_ids_lives_in_no_range() {
        let maps = lines(b"         0          0 4294967295\n 0 200000 65536\n0 300001 5\n");
        let maps = maps.map(|(first, count)| (first, count, Pid::INIT)).collect();
        let census = Census { maps, mount_namespaces: [7].to_vec(), is_whole: true };
        let lives_in = |first| census.inhabitant(first).is_some();
        assert!(lives_in(200_000) && !lives_in(400_000) && lives_in(300_000));
        assert!(census.is_out_of_sight(8, 9) && census.is_out_of_sight(7, 7));
        assert!(!census.is_out_of_sight(7, 9), "somebody is there");
        assert!(!Census { is_whole: false, ..census }.is_out_of_sight(8, 9));
    }

    #[test]
    fn this_process_is_seen() {
        let census = Census::take().unwrap();
        assert!(census.mount_namespaces.contains(&own_mount_namespace().unwrap()));
        assert!(!census.maps.is_empty());
    }
}
