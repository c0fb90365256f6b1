//! Memory and the kernel's objects, before and after a crowd has grown.

use crate::cgroup;
use crate::harness::*;
use crate::held::{field, held};

/// What is read on the host.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// /proc/meminfo.
    memory: String,
    /// The number of mounts in the table in which the runtimes run.
    mounts: usize,
    /// The number of cgroups below the stand's, in all hierarchies.
    cgroups: usize,
}

impl Reading {
    pub(super) fn take(stand: &Stand) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let path = stand.cgroup.path.trim_start_matches('/');
        let cgroups = cgroup::tops().iter().map(|top| directories(&top.join(path))).sum();
        Self { memory: meminfo(), mounts: mounts.lines().count(), cgroups }
    }
}

fn meminfo() -> String {
    fs::read_to_string("/proc/meminfo").unwrap_or_default()
}

fn directories(of: &Path) -> usize {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.map(|entry| 1 + directories(&entry.path())).sum()
}

/// What one container of a crowd holds, by name; memory in KiB.
pub(super) type Share = BTreeMap<&'static str, f64>;

/// The kernel's memory for a container, and the counters in /proc/meminfo.
pub(super) const KERNEL: [(&str, &str); 4] = [
    // Inodes, mounts, namespaces.
    ("slab", "SUnreclaim:"),
    ("stacks", "KernelStack:"),
    ("page tables", "PageTables:"),
    ("per CPU", "Percpu:"),
];
/// The smallest growth that these counters show: they change in steps, and by what else the host does.
pub(super) const FEWEST: usize = 50;

/// Divides what a crowd holds by its size, and what has grown between two readings by the number of new containers.
/// `beside` are the processes that the runtime has left.
pub(super) fn share(
    pids: &[i32],
    beside: &[i32],
    (before, after, grown): &(Reading, Reading, usize),
) -> Share {
    let network = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let host = network(std::process::id().cast_signed());
    let networks: HashSet<_> =
        pids.iter().map(|pid| network(*pid)).filter(|it| *it != host).collect();
    let own = held(pids);
    let of_all = [
        ("PSS", own.pss_kib),
        ("private", own.private_kib),
        ("processes beside", beside.len() as f64),
        ("PSS beside", held(beside).pss_kib),
        ("network namespaces", networks.len() as f64),
    ];
    let of_new = [
        ("mounts outside", after.mounts as f64 - before.mounts as f64),
        ("cgroups", after.cgroups as f64 - before.cgroups as f64),
    ];
    let mut share: Share = of_all.map(|(name, all)| (name, all / pids.len().max(1) as f64)).into();
    share.extend(of_new.map(|(name, new)| (name, new / (*grown).max(1) as f64)));
    if *grown >= FEWEST {
        let growth =
            |name| (field(&after.memory, name) - field(&before.memory, name)) / *grown as f64;
        let kernel = KERNEL.map(|(name, counter)| (name, growth(counter)));
        share.insert("kernel", kernel.iter().map(|(_, kib)| kib).sum());
        share.extend(kernel);
        // Files in memory are the runtime's records; what is no longer available includes everything.
        share.extend([("files", growth("Shmem:")), ("in all", -growth("MemAvailable:"))]);
    }
    share
}

/// Returns the limit of the host that has been reached, if any.
pub(super) fn limit(leave: Option<usize>) -> Option<String> {
    let memory = meminfo();
    let [all, left] = ["MemTotal:", "MemAvailable:"].map(|name| field(&memory, name) / 1024.0);
    let least = leave.map_or(all / 8.0, |kib| kib as f64 / 1024.0);
    if left < least {
        return Some(format!("{left:.0} MiB of memory are available, less than {least:.0}"));
    }
    let number = |file: &str| fs::read_to_string(file).ok()?.trim().parse::<f64>().ok();
    let most = ["pid_max", "threads-max"].map(|name| number(&format!("/proc/sys/kernel/{name}")));
    let most = most.into_iter().flatten().fold(f64::MAX, f64::min);
    // The fourth field has the numbers of running and of all threads.
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let threads = load.split([' ', '/']).nth(4)?.parse::<f64>().ok()?;
    (threads > most * 7.0 / 8.0).then(|| format!("{threads} of {most} possible threads exist"))
}

/// Waits until the kernel has done what it puts off at starts and ends of containers, or for half a minute: until its
/// memory for network namespaces and cgroups stays the same for a second.
///
/// # Errors
/// An interrupt.
pub(super) fn settle() -> Result<(), Error> {
    let due = Instant::now() + Duration::from_secs(30);
    let (mut since, mut last) = (Instant::now(), [0.0; 2]);
    while since.elapsed() < Duration::from_secs(1) && Instant::now() < due {
        let memory = meminfo();
        let now = ["Percpu:", "SUnreclaim:"].map(|name| field(&memory, name));
        // Other processes of the host use slab, too: up to a MiB counts as nothing.
        if now[0] != last[0] || (now[1] - last[1]).abs() > 1024.0 {
            (since, last) = (Instant::now(), now);
        }
        pause(Duration::from_millis(100), &mut || {})?;
    }
    Ok(())
}
