//! Resource usage of a container by cgroup v2: `io.containerd.cgroups.v2`
//! (github.com/containerd/cgroups/v3/cgroup2/stats). A limit of [`u64::MAX`] means none (`max`). Memory is in bytes.

use alloc::string::String;
use alloc::vec::Vec;

pub use super::metrics_v1::{NetworkStat, RdmaEntry, RdmaStat};

message! {
    /// `io.containerd.cgroups.v2.Metrics`.
    pub struct Metrics = "io.containerd.cgroups.v2.Metrics" {
        /// The controller pids.
        1 => pids: Option<PidsStat>,
        /// The controller cpu.
        2 => cpu: Option<CPUStat>,
        /// The controller memory.
        4 => memory: Option<MemoryStat>,
        /// The controller rdma.
        5 => rdma: Option<RdmaStat>,
        /// The controller io.
        6 => io: Option<IOStat>,
        /// The controller hugetlb: one element for each page size.
        7 => hugetlb: Vec<HugeTlbStat>,
        /// memory.events.
        8 => memory_events: Option<MemoryEvents>,
        /// Network devices.
        9 => network: Vec<NetworkStat>,
    }

    /// A line of a `.pressure` file: the share of time that tasks were stalled.
    pub struct PSIData {
        /// Over the last 10 seconds, in percent.
        1 => avg10: f64,
        /// Over the last 60 seconds, in percent.
        2 => avg60: f64,
        /// Over the last 300 seconds, in percent.
        3 => avg300: f64,
        /// Total in microseconds.
        4 => total: u64,
    }

    /// A `.pressure` file.
    pub struct PSIStats {
        /// Some task was stalled.
        1 => some: Option<PSIData>,
        /// All tasks were stalled.
        2 => full: Option<PSIData>,
    }

    /// pids.current and pids.max.
    pub struct PidsStat {
        /// The number of tasks.
        1 => current: u64,
        /// The limit of tasks.
        2 => limit: u64,
    }

    /// cpu.stat and cpu.pressure.
    pub struct CPUStat {
        /// Microseconds used.
        1 => usage_usec: u64,
        /// Microseconds used in user mode.
        2 => user_usec: u64,
        /// Microseconds used in the kernel.
        3 => system_usec: u64,
        /// Periods of the quota.
        4 => nr_periods: u64,
        /// Periods in which the quota ran out.
        5 => nr_throttled: u64,
        /// Throttled time in microseconds.
        6 => throttled_usec: u64,
        /// cpu.pressure.
        7 => psi: Option<PSIStats>,
        /// Periods with bursts beyond the quota.
        8 => nr_bursts: u64,
        /// Time used in bursts, in microseconds.
        9 => burst_usec: u64,
    }

    /// memory.stat, memory.current, memory.swap.current, their limits and peaks, and memory.pressure.
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
        /// `pgfault`, a count like the following fields.
        18 => pgfault: u64,
        /// `pgmajfault`.
        19 => pgmajfault: u64,
        /// `workingset_refault`: removed in kernel 5.9, which counts `_anon` and `_file` separately.
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
        /// memory.swap.peak (kernel 6.6).
        37 => swap_max_usage: u64,
        /// memory.pressure.
        38 => psi: Option<PSIStats>,
    }

    /// memory.events: the number of occurrences of each event.
    pub struct MemoryEvents {
        /// Reclaimed although below memory.low.
        1 => low: u64,
        /// Throttled because above memory.high.
        2 => high: u64,
        /// Usage about to exceed memory.max.
        3 => max: u64,
        /// Failed to reclaim enough.
        4 => oom: u64,
        /// Processes killed by the OOM killer.
        5 => oom_kill: u64,
        /// Whole groups killed (kernel 5.17).
        6 => oom_group_kill: u64,
    }

    /// io.stat and io.pressure.
    pub struct IOStat {
        /// The lines of io.stat, one for each device.
        1 => usage: Vec<IOEntry>,
        /// io.pressure.
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
        /// Reads.
        5 => rios: u64,
        /// Writes.
        6 => wios: u64,
    }

    /// hugetlb.SIZE.current, .max and .events.
    pub struct HugeTlbStat {
        /// Bytes used.
        1 => current: u64,
        /// The limit in bytes.
        2 => max: u64,
        /// The page size as in the files' names: `2MB`.
        3 => pagesize: String,
        /// How often the limit was hit.
        4 => failcnt: u64,
    }
}
