//! A container's resource usage on cgroup v2: `io.containerd.cgroups.v2`
//! (github.com/containerd/cgroups/v3/cgroup2/stats). A limit of [`u64::MAX`] means no limit (`max`). Amounts of memory
//! are in bytes.

use alloc::string::String;
use alloc::vec::Vec;

pub use super::metrics_v1::{NetworkStat, RdmaEntry, RdmaStat};

message! {
    /// `io.containerd.cgroups.v2.Metrics`.
    pub struct Metrics = "io.containerd.cgroups.v2.Metrics" {
        /// Values of the controller pids.
        1 => pids: Option<PidsStat>,
        /// Values of the controller cpu.
        2 => cpu: Option<CPUStat>,
        /// Values of the controller memory.
        4 => memory: Option<MemoryStat>,
        /// Values of the controller rdma.
        5 => rdma: Option<RdmaStat>,
        /// Values of the controller io.
        6 => io: Option<IOStat>,
        /// Values of the controller hugetlb: one element for each page size.
        7 => hugetlb: Vec<HugeTlbStat>,
        /// The contents of memory.events.
        8 => memory_events: Option<MemoryEvents>,
        /// Counters of network devices.
        9 => network: Vec<NetworkStat>,
    }

    /// A line of a `.pressure` file: how long tasks were stalled.
    pub struct PSIData {
        /// The percentage of the last 10 seconds in which tasks were stalled.
        1 => avg10: f64,
        /// The percentage of the last 60 seconds in which tasks were stalled.
        2 => avg60: f64,
        /// The percentage of the last 300 seconds in which tasks were stalled.
        3 => avg300: f64,
        /// The total time for which tasks were stalled, in microseconds.
        4 => total: u64,
    }

    /// The contents of a `.pressure` file.
    pub struct PSIStats {
        /// The time for which some tasks were stalled.
        1 => some: Option<PSIData>,
        /// The time for which all non-idle tasks were stalled at once.
        2 => full: Option<PSIData>,
    }

    /// The contents of pids.current and pids.max.
    pub struct PidsStat {
        /// The number of tasks.
        1 => current: u64,
        /// The maximum number of tasks.
        2 => limit: u64,
    }

    /// The contents of cpu.stat and cpu.pressure.
    pub struct CPUStat {
        /// CPU time used, in microseconds.
        1 => usage_usec: u64,
        /// CPU time used in user mode, in microseconds.
        2 => user_usec: u64,
        /// CPU time used in the kernel, in microseconds.
        3 => system_usec: u64,
        /// The number of elapsed periods of the quota.
        4 => nr_periods: u64,
        /// The number of periods in which the quota was used up.
        5 => nr_throttled: u64,
        /// The throttled time, in microseconds.
        6 => throttled_usec: u64,
        /// The contents of cpu.pressure.
        7 => psi: Option<PSIStats>,
        /// The number of periods in which a burst exceeded the quota.
        8 => nr_bursts: u64,
        /// CPU time used in bursts, in microseconds.
        9 => burst_usec: u64,
    }

    /// The contents of memory.stat, memory.current, memory.swap.current, their limits and peaks, and memory.pressure.
    pub struct MemoryStat {
        /// `anon`.
        1 => anon: u64,
        /// `file`.
        2 => file: u64,
        /// `kernel_stack`.
        3 => kernel_stack: u64,
        /// `slab`.
        4 => slab: u64,
        /// `sock`.
        5 => sock: u64,
        /// `shmem`.
        6 => shmem: u64,
        /// `file_mapped`.
        7 => file_mapped: u64,
        /// `file_dirty`.
        8 => file_dirty: u64,
        /// `file_writeback`.
        9 => file_writeback: u64,
        /// `anon_thp`.
        10 => anon_thp: u64,
        /// `inactive_anon`.
        11 => inactive_anon: u64,
        /// `active_anon`.
        12 => active_anon: u64,
        /// `inactive_file`.
        13 => inactive_file: u64,
        /// `active_file`.
        14 => active_file: u64,
        /// `unevictable`.
        15 => unevictable: u64,
        /// `slab_reclaimable`.
        16 => slab_reclaimable: u64,
        /// `slab_unreclaimable`.
        17 => slab_unreclaimable: u64,
        /// `pgfault`: a number of events, like the following fields from memory.stat.
        18 => pgfault: u64,
        /// `pgmajfault`.
        19 => pgmajfault: u64,
        /// `workingset_refault`: removed in kernel 5.9, which has separate counters `_anon` and `_file` instead.
        20 => workingset_refault: u64,
        /// `workingset_activate`: removed in kernel 5.9 as well.
        21 => workingset_activate: u64,
        /// `workingset_nodereclaim`.
        22 => workingset_nodereclaim: u64,
        /// `pgrefill`.
        23 => pgrefill: u64,
        /// `pgscan`.
        24 => pgscan: u64,
        /// `pgsteal`.
        25 => pgsteal: u64,
        /// `pgactivate`.
        26 => pgactivate: u64,
        /// `pgdeactivate`.
        27 => pgdeactivate: u64,
        /// `pglazyfree`.
        28 => pglazyfree: u64,
        /// `pglazyfreed`.
        29 => pglazyfreed: u64,
        /// `thp_fault_alloc`.
        30 => thp_fault_alloc: u64,
        /// `thp_collapse_alloc`.
        31 => thp_collapse_alloc: u64,
        /// memory.current.
        32 => usage: u64,
        /// memory.max.
        33 => usage_limit: u64,
        /// memory.swap.current.
        34 => swap_usage: u64,
        /// memory.swap.max.
        35 => swap_limit: u64,
        /// memory.peak (kernel 5.19).
        36 => max_usage: u64,
        /// memory.swap.peak (kernel 6.5).
        37 => swap_max_usage: u64,
        /// The contents of memory.pressure.
        38 => psi: Option<PSIStats>,
    }

    /// The contents of memory.events: how many times each event has occurred.
    pub struct MemoryEvents {
        /// Memory was reclaimed although the usage was below memory.low.
        1 => low: u64,
        /// The cgroup was throttled because the usage was above memory.high.
        2 => high: u64,
        /// The usage was about to exceed memory.max.
        3 => max: u64,
        /// The kernel could not reclaim enough memory.
        4 => oom: u64,
        /// A process was killed by the OOM killer.
        5 => oom_kill: u64,
        /// The whole cgroup was killed (kernel 5.17).
        6 => oom_group_kill: u64,
    }

    /// The contents of io.stat and io.pressure.
    pub struct IOStat {
        /// The lines of io.stat, one for each device.
        1 => usage: Vec<IOEntry>,
        /// The contents of io.pressure.
        2 => psi: Option<PSIStats>,
    }

    /// A line of io.stat.
    pub struct IOEntry {
        /// The device's major number.
        1 => major: u64,
        /// The device's minor number.
        2 => minor: u64,
        /// Bytes read.
        3 => rbytes: u64,
        /// Bytes written.
        4 => wbytes: u64,
        /// The number of read operations.
        5 => rios: u64,
        /// The number of write operations.
        6 => wios: u64,
    }

    /// The contents of hugetlb.SIZE.current, .max and .events.
    pub struct HugeTlbStat {
        /// Bytes used.
        1 => current: u64,
        /// The limit in bytes.
        2 => max: u64,
        /// The page size, as in the files' names (for example `2MB`).
        3 => pagesize: String,
        /// The number of times that the limit was reached.
        4 => failcnt: u64,
    }
}
