//! Compares a template's child with the init that stands in for it, from outside.
//!
//! Init has run the plan's steps, so it is the measure. A child that still had more rights, or was elsewhere, would
//! run with them; whether by mistake or by intent does not matter.

use alloc::format;
use alloc::string::String;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{CWD, Stat, stat};
use rustix::process::{Pid, Resource, Rlimit, getpriority_process, prlimit, setpriority_process};
use sys::sched::Affinity;

use super::Refusal;
use super::body::Sets;

/// The namespaces that are compared. The PID namespace is that of a process itself, not that of its children.
const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// What distinguishes a file from all others: its device and its number there.
pub(super) type Identity = (u64, u64);

/// Returns the pid of the process that `pidfd` refers to, from fdinfo (proc_pid_fdinfo(5)).
pub(super) fn pid_of(pidfd: &OwnedFd) -> Result<Pid, Refusal> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = sys::fs::read_text(path.as_str()).unwrap_or_default();
    sys::pidfd::pid(text.as_bytes()).ok_or_else(|| "lost its child".into())
}

/// Gives the child what only a privileged process may give it, and what init has: resource limits, OOM score, nice
/// value and CPUs.
pub(super) fn match_limits(init: Pid, child: Pid) -> Result<(), Refusal> {
    const RESOURCES: [Resource; 16] = [
        Resource::Cpu,
        Resource::Fsize,
        Resource::Data,
        Resource::Stack,
        Resource::Core,
        Resource::Rss,
        Resource::Nproc,
        Resource::Nofile,
        Resource::Memlock,
        Resource::As,
        Resource::Locks,
        Resource::Sigpending,
        Resource::Msgqueue,
        Resource::Nice,
        Resource::Rtprio,
        Resource::Rttime,
    ];
    let failed = |what: &str, errno| format!("{what}: {}", sys::errno::describe(errno));
    let limits = |pid| limits_of(pid).ok_or("lost its child");
    let (wanted, given) = (limits(init)?, limits(child)?);
    for ((resource, wanted), given) in RESOURCES.into_iter().zip(wanted).zip(given) {
        if wanted != given {
            let (current, maximum) = wanted;
            prlimit(Some(child), resource, Rlimit { current, maximum })
                .map_err(|errno| failed("prlimit", errno))?;
        }
    }
    let path = |pid: Pid| format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero());
    let score = |pid| {
        let read = sys::fs::read_text(path(pid).as_str());
        read.map_err(|errno| failed("oom_score_adj", errno))
    };
    let wanted = score(init)?;
    if wanted != score(child)? {
        sys::fs::write_at(CWD, path(child).as_str(), wanted.as_bytes())
            .map_err(|errno| failed("oom_score_adj", errno))?;
    }
    let nice = getpriority_process(Some(init)).map_err(|errno| failed("getpriority", errno))?;
    setpriority_process(Some(child), nice).map_err(|errno| failed("setpriority", errno))?;
    let cpus = Affinity::of(Some(init)).map_err(|errno| failed("affinity", errno))?;
    cpus.set(Some(child)).map_err(|errno| failed("affinity", errno))
}

/// Returns whether a process is exiting, or has a SIGKILL pending.
pub(super) fn ends(pid: Pid) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let status = read(pid, "status");
    let pending = value(&status, "ShdPnd").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    // An exiting process has no memory any more.
    value(&status, "VmSize").is_none() || pending.is_none_or(|mask| mask & SIGKILL != 0)
}

/// What the child of a template must be like: what init is like.
pub(super) struct Model {
    namespaces: [Option<Identity>; NAMESPACES.len()],
    root: Option<Identity>,
    directory: Option<Identity>,
    cgroup: String,
    status: String,
    /// The capabilities that the program has in the end, if the configuration names them.
    capabilities: Option<Sets>,
    filters: u32,
}

impl Model {
    /// Returns the facts about a ready init.
    pub(super) fn of(init: Pid, capabilities: Option<Sets>, is_filtered: bool) -> Self {
        Self {
            namespaces: NAMESPACES.map(|kind| namespace(init, kind)),
            root: place(init, "root"),
            directory: place(init, "cwd"),
            cgroup: read(init, "cgroup"),
            status: read(init, "status"),
            capabilities,
            filters: u32::from(is_filtered),
        }
    }

    /// Checks that the child is in init's namespaces, cgroups and root, and has init's user and no more rights.
    pub(super) fn compare(&self, child: Pid) -> Result<(), Refusal> {
        let differs = |what: &str| format!("has a child that is not as configured: {what} differs");
        for (kind, wanted) in NAMESPACES.into_iter().zip(self.namespaces) {
            if wanted.is_none() || wanted != namespace(child, kind) {
                return Err(differs(&format!("its {kind} namespace")));
            }
        }
        if self.cgroup.is_empty() || self.cgroup != read(child, "cgroup") {
            return Err(differs("its cgroup"));
        }
        if self.root.is_none() || self.root != place(child, "root") {
            return Err(differs("its root"));
        }
        if self.directory.is_none() || self.directory != place(child, "cwd") {
            return Err(differs("its working directory"));
        }
        let (model, status) = (&self.status, read(child, "status"));
        for field in ["Umask", "Uid", "Gid", "Groups", "Threads", "NoNewPrivs", "CapInh", "CapBnd"]
        {
            if value(model, field).is_none() || value(model, field) != value(&status, field) {
                return Err(differs(field));
            }
        }
        let sets = self.capabilities;
        for (field, wanted) in [
            ("CapPrm", sets.map(|sets| sets.permitted)),
            ("CapEff", sets.map(|sets| sets.effective)),
            ("CapAmb", sets.map(|sets| sets.ambient)),
        ] {
            let mask = |text: &str| u64::from_str_radix(value(text, field)?, 16).ok();
            let most = wanted.or_else(|| mask(model)).ok_or_else(|| differs(field))?;
            if mask(&status).is_none_or(|has| has & !most != 0) {
                return Err(differs(field));
            }
        }
        let filters = value(&status, "Seccomp_filters").and_then(|count| count.parse().ok());
        if filters == Some(self.filters) { Ok(()) } else { Err(differs("its seccomp filter")) }
    }
}

fn read(pid: Pid, file: &str) -> String {
    let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
    sys::fs::read_text(path.as_str()).unwrap_or_default()
}

/// Identifies the namespace of this type that a process is in.
pub(super) fn namespace(pid: Pid, kind: &str) -> Option<Identity> {
    place(pid, &format!("ns/{kind}"))
}

/// Identifies the file to which a link of /proc/PID leads.
fn place(pid: Pid, link: &str) -> Option<Identity> {
    stat(format!("/proc/{}/{link}", pid.as_raw_nonzero()).as_str()).ok().map(identity)
}

pub(super) fn identity(found: Stat) -> Identity {
    (found.st_dev, found.st_ino)
}

/// Returns the value of a field of /proc/PID/status (proc_pid_status(5)).
fn value<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::trim))
}

/// Reads the soft and hard limits of a process, in the kernel's order, from /proc/PID/limits.
fn limits_of(pid: Pid) -> Option<[(Option<u64>, Option<u64>); 16]> {
    let path = format!("/proc/{}/limits", pid.as_raw_nonzero());
    let text: String = sys::fs::read_text(path.as_str()).ok()?;
    let mut limits = [(None, None); 16];
    for (limit, line) in limits.iter_mut().zip(text.lines().skip(1)) {
        // The name has 26 columns, and contains spaces.
        let mut words = line.get(26..)?.split_whitespace();
        let number = |word: &str| match word {
            "unlimited" => Some(None),
            word => word.parse().ok().map(Some),
        };
        *limit = (number(words.next()?)?, number(words.next()?)?);
    }
    Some(limits)
}
