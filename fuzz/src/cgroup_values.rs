//! Limits, as written to files of v1 and v2 and as systemd properties, and the parsers of the kernel's files.
//!
//! An input that begins with `{` is `linux.resources`; any other is a list of files, each given by a line with its
//! name, its content, and a line with a dot.

use cgroup::Cgroup;
use spec::resources::Resources;

use crate::scratch;

/// The names of the cgroup's files.
const V2: &[&str] = &[
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.idle",
    "cpuset.cpus",
    "cpuset.mems",
    "io.bfq.weight",
    "io.weight",
    "io.max",
    "memory.current",
    "memory.high",
    "memory.low",
    "memory.max",
    "memory.swap.current",
    "memory.swap.max",
    "pids.max",
    "hugetlb.2MB.max",
    "hugetlb.2MB.rsvd.max",
    "rdma.max",
    "misc.max",
    "cgroup.freeze",
];
const V1: &[&str] = &[
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "cpu.cfs_burst_us",
    "cpu.shares",
    "cpu.rt_period_us",
    "cpu.rt_runtime_us",
    "cpu.idle",
    "cpuset.cpus",
    "cpuset.mems",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.kmem.tcp.limit_in_bytes",
    "memory.swappiness",
    "memory.oom_control",
    "memory.use_hierarchy",
    "pids.max",
    "blkio.weight",
    "blkio.bfq.weight",
    "blkio.leaf_weight",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "net_cls.classid",
    "net_prio.ifpriomap",
    "hugetlb.2MB.limit_in_bytes",
    "rdma.max",
    "misc.max",
];

/// Runs the target on one input; see the module's text.
pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.starts_with('{') {
        true => limits(text),
        false => files(text),
    }
}

fn limits(text: &str) {
    let Ok(mut resources) = serde_json::from_str::<Resources>(text) else { return };
    for unified in [true, false] {
        for idles in [true, false] {
            let _ = cgroup::fuzz::properties(&resources, unified, idles);
        }
    }
    // Device rules have a separate target.
    resources.devices.clear();
    for (unified, names) in [(true, V2), (false, V1)] {
        let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "0\n")).collect();
        let cgroup = Cgroup::open(&scratch::location(unified, &files)).expect("cgroup");
        let _ = cgroup.set(&resources);
    }
}

fn files(text: &str) {
    let mut files = Vec::new();
    for file in text.split("\n.\n") {
        let (name, content) = file.split_once('\n').unwrap_or((file, ""));
        if !name.is_empty() && name.len() < 100 && !name.contains(['/', '\0']) && name != ".." {
            files.push((name, content));
        }
    }
    for unified in [true, false] {
        let cgroup = Cgroup::open(&scratch::location(unified, &files)).expect("cgroup");
        let _ = cgroup.stats();
        let _ = cgroup.freezer_state();
        let _ = cgroup.all_pids();
    }
}
