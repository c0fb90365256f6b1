//! Measures memory, threads and descriptors of processes.

use std::fs;

/// The resources of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Held {
    /// Private memory that has been modified (Private_Dirty), in KiB.
    pub(crate) private_kib: f64,
    /// Resident memory in KiB, where a shared page counts in proportion to the number of its users
    /// (PSS).
    pub(crate) pss_kib: f64,
    /// The number of threads.
    pub(crate) threads: f64,
    /// The number of open descriptors.
    pub(crate) descriptors: f64,
}

/// Returns the sums over the processes `pids`. A process that no longer exists counts as 0.
pub(crate) fn held(pids: &[i32]) -> Held {
    let mut sum = Held::default();
    for &pid in pids {
        sum.private_kib += of(pid, "smaps_rollup", "Private_Dirty:");
        sum.pss_kib += of(pid, "smaps_rollup", "Pss:");
        sum.threads += of(pid, "status", "Threads:");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        sum.descriptors += descriptors.map_or(0, Iterator::count) as f64;
    }
    sum
}

/// Returns the processes in the PID namespace of the process `first`, including it; none if it has ended. Processes in
/// namespaces inside this one are not among them.
pub(crate) fn namespace(first: i32) -> Vec<i32> {
    let of = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(own) = of(first) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| of(*pid).as_ref() == Some(&own)).collect()
}

/// Returns the descendants of this process, except one child and that child's descendants. This process is a subreaper,
/// so orphans below it become its children.
pub(crate) fn descendants(without: i32) -> Vec<i32> {
    let mut found = Vec::new();
    collect(std::process::id().cast_signed(), without, &mut found);
    found
}

/// Collects the descendants of a process, except one child and that child's descendants.
fn collect(of: i32, without: i32, found: &mut Vec<i32>) {
    let tasks = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> = children
        .flat_map(|text| {
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    for pid in children.into_iter().filter(|&pid| pid != without && is_alive(pid)) {
        found.push(pid);
        collect(pid, without, found);
    }
}

/// Returns whether the process is alive, rather than a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns the file with the memory charged to the cgroup of a process, if there is a memory controller.
pub(crate) fn charged(pid: i32) -> Option<String> {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    cgroups.lines().filter_map(file_of).find(|file| fs::exists(file).unwrap_or(false))
}

/// Returns that file for a line of /proc/PID/cgroup.
fn file_of(line: &str) -> Option<String> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    match controllers {
        "" => Some(format!("/sys/fs/cgroup{path}/memory.current")),
        "memory" => Some(format!("/sys/fs/cgroup/memory{path}/memory.usage_in_bytes")),
        _ => None,
    }
}

/// Returns the number after `name` in a file of /proc/PID; 0 if there is none.
pub(crate) fn of(pid: i32, file: &str, name: &str) -> f64 {
    field(&fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default(), name)
}

/// Returns the number that follows a field's name.
pub(crate) fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_something() {
        let one = held(&[std::process::id().cast_signed()]);
        assert!(one.private_kib > 0.0 && one.pss_kib > one.private_kib / 2.0, "{one:?}");
        assert!(one.threads >= 1.0 && one.descriptors >= 3.0, "{one:?}");
        assert_eq!(held(&[i32::MAX]), Held::default());
    }

    #[test]
    fn lines_of_other_hierarchies_tell_nothing() {
        assert_eq!(file_of("4:cpu,cpuacct:/a"), None);
        assert_eq!(file_of("junk"), None);
        let file = file_of("5:memory:/a:b").expect("v1");
        assert_eq!(file, "/sys/fs/cgroup/memory/a:b/memory.usage_in_bytes");
    }

    #[test]
    fn this_process_is_in_its_namespace() {
        let own = std::process::id().cast_signed();
        assert!(namespace(own).contains(&own));
        assert_eq!(namespace(i32::MAX), Vec::<i32>::new());
    }
}
