//! Checks whether processes use ids of a range, whether a process exists, and whether an owner's directory is visible in
//! any mount namespace.
//!
//! A missing path is not enough to free what a container uses: the directory may be on a mount that does not exist in
//! this mount namespace, or may have been removed while its container still runs.

use alloc::format;
use alloc::vec::Vec;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, stat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::Context;
use sys::fs::c_path;
use sys::identity::{Identity, has_exited};

use crate::remove::{names, open_directory};

/// The number of ids of a container.
pub const RANGE: u32 = 65536;
/// The inode of the initial PID namespace (PROC_PID_INIT_INO, linux/proc_ns.h).
const INITIAL: u64 = 0xEFFF_FFFC;

/// A snapshot of the processes of a host.
#[derive(Debug)]
pub struct Census {
    /// One entry per line of each process's uid_map (user_namespaces(7)): the line's first id in the parent namespace,
    /// its count of ids, and the process.
    maps: Vec<(u64, u64, Pid)>,
    /// The mount namespaces of the processes.
    mount_namespaces: Vec<u64>,
    /// The processes, without zombies.
    processes: Vec<Pid>,
    /// Whether the snapshot includes all processes of the host.
    is_whole: bool,
}

/// Returns the inode of this process's mount namespace.
///
/// # Errors
/// Those of stat(2).
pub fn own_mount_namespace() -> Result<u64, sys::Error> {
    const PATH: &str = "/proc/self/ns/mnt";
    Ok(stat(PATH).context("stat", PATH)?.st_ino)
}

/// A census that is taken on first use.
#[derive(Default)]
pub(crate) struct LazyCensus(Option<Census>);

impl LazyCensus {
    pub fn get(&mut self) -> Result<&Census, sys::Error> {
        let census = self.0.take().map_or_else(Census::take, Ok)?;
        Ok(self.0.insert(census))
    }
}

impl Census {
    /// Examines every process.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn take() -> Result<Self, sys::Error> {
        let proc = open_directory(CWD.as_fd(), c"/proc").context("open", "/proc")?;
        let own = stat("/proc/self/ns/pid").context("stat", "/proc/self/ns/pid")?.st_ino;
        // Another user's processes have no part in what belongs to a user without root's rights.
        let is_user = !rustix::process::geteuid().is_root() || sys::user_namespace::is_nested();
        let mut census = Self {
            maps: Vec::new(),
            mount_namespaces: Vec::new(),
            processes: Vec::new(),
            is_whole: own == INITIAL,
        };
        for name in names(proc.as_fd()).context("read", "/proc")? {
            let Ok(name) = name.to_str() else { continue };
            let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else { continue };
            if census.add(&proc, name, pid).is_err() && !(is_user && is_of_other(&proc, name)) {
                // An error for a process that has ended does not make the snapshot incomplete. For
                // such a process, reading uid_map fails with EINVAL, reading ns/mnt fails with
                // EACCES, and both may fail with ENOENT or ESRCH.
                let found = statat(&proc, name, AtFlags::empty());
                census.is_whole &= matches!(found, Err(Errno::NOENT));
            }
        }
        Ok(census)
    }

    /// Adds the process whose directory in /proc has this name. A zombie is left out: it uses no ids and no mount
    /// namespace any more, even if its parent has not yet waited for it.
    fn add(&mut self, proc: &OwnedFd, name: &str, pid: Pid) -> Result<(), Errno> {
        let Some(mount_namespace) = mount_namespace_of(proc, name)? else { return Ok(()) };
        self.mount_namespaces.push(mount_namespace);
        self.processes.push(pid);
        let text = sys::fs::read_at(proc, format!("{name}/uid_map").as_str())?;
        self.maps.extend(lines(&text).map(|(first, count)| (first, count, pid)));
        Ok(())
    }

    /// Returns the process that has this identity, unless it has exited. Its pid may differ from the one that another PID
    /// namespace gives it, so every process is asked. An unreadable process counts as another one.
    pub fn find(&self, identity: Identity) -> Option<Pid> {
        self.processes.iter().copied().find(|pid| {
            pidfd_open(*pid, PidfdFlags::empty()).is_ok_and(|pidfd| {
                Identity::of(*pid, &pidfd) == Ok(identity) && !has_exited(&pidfd)
            })
        })
    }

    /// Returns a process that uses ids of the range: a process of the container that leased the range, or of a
    /// container nested in that container.
    pub(crate) fn inhabitant(&self, first: u32) -> Option<Pid> {
        let (first, end) = (u64::from(first), u64::from(first) + u64::from(RANGE));
        let is_inside = |start: u64, count: u64| start >= first && start + count <= end;
        self.maps.iter().find(|(start, count, _)| is_inside(*start, *count)).map(|(.., pid)| *pid)
    }

    /// Returns whether a directory whose path does not exist here is invisible in all mount namespaces. The result is
    /// true if the directory was created in this mount namespace, or in a mount namespace that has no processes. An
    /// unknown namespace (0) counts as having no processes.
    pub fn is_out_of_sight(&self, mount_namespace: u64, own: u64) -> bool {
        mount_namespace == own || self.is_whole && !self.mount_namespaces.contains(&mount_namespace)
    }
}

/// Returns whether a process belongs to another user.
fn is_of_other(proc: &OwnedFd, name: &str) -> bool {
    let euid = rustix::process::geteuid().as_raw();
    statat(proc, name, AtFlags::empty()).is_ok_and(|stat| stat.st_uid != euid)
}

/// Returns the inode of a process's mount namespace, or `None` if the process is a zombie. A process whose first thread
/// has exited is not a zombie while other threads run.
fn mount_namespace_of(proc: &OwnedFd, name: &str) -> Result<Option<u64>, Errno> {
    let of_thread = |path: &str| match statat(proc, path, AtFlags::empty()) {
        Ok(stat) => Ok(Some(stat.st_ino)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    };
    if let Some(inode) = of_thread(&format!("{name}/ns/mnt"))? {
        return Ok(Some(inode));
    }
    let path = c_path(format!("{name}/task"))?;
    let threads = open_directory(proc.as_fd(), &path)?;
    for thread in names(threads.as_fd())? {
        let thread = thread.to_str().unwrap_or_default();
        if let Some(inode) = of_thread(&format!("{name}/task/{thread}/ns/mnt"))? {
            return Ok(Some(inode));
        }
    }
    Ok(None)
}

/// Iterates over the second and third number of each line of a uid_map.
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
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn who_has_all_ids_lives_in_no_range() {
        let maps = lines(b"         0          0 4294967295\n 0 200000 65536\n0 300001 5\n");
        let maps = maps.map(|(first, count)| (first, count, Pid::INIT)).collect();
        let census =
            Census { maps, mount_namespaces: [7].to_vec(), processes: Vec::new(), is_whole: true };
        let lives_in = |first| census.inhabitant(first).is_some();
        assert!(lives_in(200_000) && !lives_in(400_000) && lives_in(300_000));
        assert!(census.is_out_of_sight(8, 9) && census.is_out_of_sight(7, 7));
        assert!(!census.is_out_of_sight(7, 9), "somebody is there");
        assert!(!Census { is_whole: false, ..census }.is_out_of_sight(8, 9));
    }

    fn is_counted(pid: u32) -> bool {
        let pid = Pid::from_raw(pid.cast_signed());
        Census::take().unwrap().maps.iter().any(|(.., counted)| Some(*counted) == pid)
    }

    #[test]
    fn zombies_have_no_ids() {
        let mut child = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_counted(child.id()));
        drop(child.stdin.take());
        let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), exited).unwrap();
        assert!(!is_counted(child.id()));
        child.wait().unwrap();
    }

    /// After pthread_exit(3) in the first thread, the other threads of the process continue.
    #[test]
    fn a_first_thread_that_exited_hides_nothing() {
        const CODE: &str = "import ctypes, sys, threading\n\
                            threading.Thread(target=sys.stdin.read).start()\n\
                            print(flush=True)\n\
                            ctypes.CDLL(None).pthread_exit(None)";
        let mut python = std::process::Command::new("python3");
        python.args(["-c", CODE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = python.spawn() else {
            std::eprintln!("skipped: no python3");
            return;
        };
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let leader = format!("/proc/{}/task/{0}/ns/mnt", child.id());
        while stat(leader.as_str()).is_ok() {
            std::thread::yield_now();
        }
        assert!(is_counted(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn this_process_is_seen() {
        let census = Census::take().unwrap();
        assert!(census.mount_namespaces.contains(&own_mount_namespace().unwrap()));
        assert!(!census.maps.is_empty());
    }
}
