//! The circumstances of an experiment, which its figures depend on.

use crate::base::*;
use crate::runtime::Runtime;
use crate::view::View;
use host::facts::mounts;

/// The host and the runtimes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Circumstances {
    /// The date and time, in UTC.
    pub date: String,
    /// The kernel's release and version.
    pub kernel: String,
    /// The cgroup layout of /sys/fs/cgroup.
    pub cgroups: View,
    /// The controllers that containers can use there, separated by blanks; empty if there are none or not recorded.
    #[serde(default)]
    pub controllers: String,
    /// The type and options of the file system at /sys/fs/cgroup.
    pub cgroup_mount: String,
    /// Type and options of the file system of the runtimes' state.
    pub state_mount: String,
    /// The number of mounts that the runtimes see.
    pub mounts: usize,
    /// Whether RCU grace periods are always expedited (/sys/kernel/rcu_expedited).
    pub rcu_expedited: String,
    /// Whether RCU grace periods are never expedited (/sys/kernel/rcu_normal).
    pub rcu_normal: String,
    /// The CPU's model name.
    pub cpu: String,
    /// The number of CPUs.
    pub cpus: usize,
    /// The memory of the host, in MiB.
    pub memory_mib: u64,
    /// The number of NUMA nodes.
    pub nodes: usize,
    /// The cpufreq governor, if any.
    pub governor: String,
    /// The load averages.
    pub load: String,
    /// The kind of container.
    pub container: String,
    /// The compared runtimes.
    pub runtimes: Vec<Runtime>,
}

impl Circumstances {
    /// Collects everything; a value that the host does not report is `-`.
    pub fn take(container: String, runtimes: Vec<Runtime>, state: &Path) -> Self {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let uname = rustix::system::uname();
        Self {
            date: date(SystemTime::now()),
            kernel: format!(
                "{} {}",
                uname.release().to_string_lossy(),
                uname.version().to_string_lossy()
            ),
            cgroups: View::current(),
            controllers: crate::cgroup::controllers(),
            cgroup_mount: mount_of(&table, Path::new("/sys/fs/cgroup")),
            state_mount: mount_of(&table, state),
            mounts: table.lines().count(),
            rcu_expedited: line("/sys/kernel/rcu_expedited"),
            rcu_normal: line("/sys/kernel/rcu_normal"),
            cpu: cpu(),
            cpus: std::thread::available_parallelism().map_or(1, Into::into),
            memory_mib: memory_mib(),
            nodes: nodes(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load: line("/proc/loadavg"),
            container,
            runtimes,
        }
    }

    /// Records the circumstances of an experiment whose containers, if any, are not the harness's.
    pub fn of_host(container: &str) -> Self {
        Self::take(container.to_owned(), Vec::new(), Path::new("/run"))
    }

    /// Returns the facts about the host, with their names.
    pub(crate) fn facts(&self) -> [(&'static str, String); 9] {
        [
            ("date", self.date.clone()),
            ("kernel", self.kernel.clone()),
            ("CPUs", format!("{} × {}", self.cpus, self.cpu)),
            ("memory", format!("{} MiB, nodes: {}", self.memory_mib, self.nodes)),
            ("cgroups", format!("{} ({})", self.cgroups.name(), self.cgroup_mount)),
            ("mounts", self.mounts.to_string()),
            (
                "RCU",
                format!("rcu_expedited {}, rcu_normal {}", self.rcu_expedited, self.rcu_normal),
            ),
            ("frequency governor", self.governor.clone()),
            ("load", self.load.clone()),
        ]
    }

    /// Formats the circumstances as lines of text.
    pub fn to_text(&self) -> String {
        let mut table = Table::without_headings().left(&[0, 1]);
        let more = [("state", self.state_mount.clone()), ("container", self.container.clone())];
        for (name, fact) in self.facts().into_iter().chain(more) {
            table.row(vec![name.to_owned(), fact]);
        }
        for runtime in &self.runtimes {
            let path = runtime.path.display();
            table.row(vec![runtime.name.clone(), format!("{path} ({})", runtime.build())]);
        }
        table.to_string()
    }
}

/// Returns the first line of a file, or `-` if it can't be read.
fn line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("-").to_owned()
}

fn memory_mib() -> u64 {
    let total = line("/proc/meminfo");
    total.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 10
}

/// Returns the number of NUMA nodes; 1 if the kernel reports none.
pub(crate) fn nodes() -> usize {
    topology::Topology::read("").map_or(1, |host| host.nodes.len().max(1))
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    field("model name").or_else(|| field("CPU part")).unwrap_or_else(|| "-".to_owned())
}

/// Returns the type and options of the file system at `path`, from the mount table `table`. Of the mount points that
/// are `path` or one of its parents, the longest one counts; of several mounts on that mount point, the last one
/// counts.
fn mount_of(table: &str, path: &Path) -> String {
    let mount = mounts(table).into_iter().filter(|mount| path.starts_with(&mount.point));
    let Some(mount) = mount.max_by_key(|mount| mount.point.len()) else { return "-".to_owned() };
    format!("{} {}", mount.kind, mount.super_options)
}

/// Formats `time` as ISO 8601, in UTC, to the second.
pub(crate) fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_on_top_counts() {
        let table = "\
25 0 8:1 / / rw - ext4 /dev/a rw,discard
30 25 0:20 / /sys/fs/cgroup rw shared:5 - tmpfs cgroup rw,mode=755
31 30 0:21 / /sys/fs/cgroup rw - cgroup2 none rw,favordynmods
";
        assert_eq!(mount_of(table, Path::new("/sys/fs/cgroup")), "cgroup2 rw,favordynmods");
        assert_eq!(mount_of(table, Path::new("/sys/fs")), "ext4 rw,discard");
        assert_eq!(mount_of("", Path::new("/sys")), "-");
    }
}
