//! A container's resource usage on cgroup v1: `io.containerd.cgroups.v1`
//! (github.com/containerd/cgroups/v3/cgroup1/stats). Amounts of memory are in bytes.

use alloc::string::String;
use alloc::vec::Vec;

message! {
    /// `io.containerd.cgroups.v1.Metrics`.
    pub struct Metrics = "io.containerd.cgroups.v1.Metrics" {
        /// Values of the controller hugetlb: one element for each page size.
        1 => hugetlb: Vec<HugetlbStat>,
        /// Values of the controller pids.
        2 => pids: Option<PidsStat>,
        /// Values of the controllers cpu and cpuacct.
        3 => cpu: Option<CPUStat>,
        /// Values of the controller memory.
        4 => memory: Option<MemoryStat>,
        /// Values of the controller blkio.
        5 => blkio: Option<BlkIOStat>,
        /// Values of the controller rdma.
        6 => rdma: Option<RdmaStat>,
        /// Counters of network devices.
        7 => network: Vec<NetworkStat>,
        /// The numbers of tasks in each state, from taskstats.
        8 => cgroup_stats: Option<CgroupStats>,
        /// The contents of memory.oom_control.
        9 => memory_oom_control: Option<MemoryOomControl>,
    }

    /// The contents of hugetlb.SIZE.usage_in_bytes, .max_usage_in_bytes and .failcnt.
    pub struct HugetlbStat {
        /// Bytes used.
        1 => usage: u64,
        /// Maximum bytes used.
        2 => max: u64,
        /// The number of times that the limit was reached.
        3 => failcnt: u64,
        /// The page size, as in the files' names (for example `2MB`).
        4 => pagesize: String,
    }

    /// The contents of pids.current and pids.max.
    pub struct PidsStat {
        /// The number of tasks.
        1 => current: u64,
        /// The maximum number of tasks; 0 means no limit.
        2 => limit: u64,
    }

    /// CPU usage.
    pub struct CPUStat {
        /// The CPU time used, from the controller cpuacct.
        1 => usage: Option<CPUUsage>,
        /// Throttling, from cpu.stat.
        2 => throttling: Option<Throttle>,
    }

    /// The contents of cpuacct.usage, .stat and .usage_percpu, in nanoseconds.
    pub struct CPUUsage {
        /// The total CPU time.
        1 => total: u64,
        /// The CPU time in the kernel.
        2 => kernel: u64,
        /// The CPU time in user mode.
        3 => user: u64,
        /// The CPU time on each CPU.
        4 => per_cpu: Vec<u64>,
    }

    /// The contents of cpu.stat: throttling by the quota.
    pub struct Throttle {
        /// The number of elapsed periods.
        1 => nr_periods: u64,
        /// The number of periods in which the quota was used up.
        2 => nr_throttled: u64,
        /// The throttled time, in nanoseconds.
        3 => throttled_time: u64,
    }

    /// The contents of memory.stat, and the usage of each kind of memory.
    pub struct MemoryStat {
        /// `cache`.
        1 => cache: u64,
        /// `rss`.
        2 => rss: u64,
        /// `rss_huge`.
        3 => rss_huge: u64,
        /// `mapped_file`.
        4 => mapped_file: u64,
        /// `dirty`.
        5 => dirty: u64,
        /// `writeback`.
        6 => writeback: u64,
        /// `pgpgin`: a number of events, like the next three fields.
        7 => pgpgin: u64,
        /// `pgpgout`.
        8 => pgpgout: u64,
        /// `pgfault`.
        9 => pgfault: u64,
        /// `pgmajfault`.
        10 => pgmajfault: u64,
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
        /// `hierarchical_memory_limit`.
        16 => hierarchical_memory_limit: u64,
        /// `hierarchical_memsw_limit`.
        17 => hierarchical_memsw_limit: u64,
        /// `total_cache`: includes descendants, like all following fields from memory.stat.
        18 => total_cache: u64,
        /// `total_rss`.
        19 => total_rss: u64,
        /// `total_rss_huge`.
        20 => total_rss_huge: u64,
        /// `total_mapped_file`.
        21 => total_mapped_file: u64,
        /// `total_dirty`.
        22 => total_dirty: u64,
        /// `total_writeback`.
        23 => total_writeback: u64,
        /// `total_pgpgin`: a number of events, like the next three fields.
        24 => total_pgpgin: u64,
        /// `total_pgpgout`.
        25 => total_pgpgout: u64,
        /// `total_pgfault`.
        26 => total_pgfault: u64,
        /// `total_pgmajfault`.
        27 => total_pgmajfault: u64,
        /// `total_inactive_anon`.
        28 => total_inactive_anon: u64,
        /// `total_active_anon`.
        29 => total_active_anon: u64,
        /// `total_inactive_file`.
        30 => total_inactive_file: u64,
        /// `total_active_file`.
        31 => total_active_file: u64,
        /// `total_unevictable`.
        32 => total_unevictable: u64,
        /// Memory, from the files memory.*.
        33 => usage: Option<MemoryEntry>,
        /// Memory and swap together, from the files memory.memsw.*.
        34 => swap: Option<MemoryEntry>,
        /// Kernel memory, from the files memory.kmem.*.
        35 => kernel: Option<MemoryEntry>,
        /// TCP buffers, from the files memory.kmem.tcp.*.
        36 => kernel_tcp: Option<MemoryEntry>,
    }

    /// The usage of one kind of memory. Each field has the value of one file. The field's docstring is the end of the
    /// file's name.
    pub struct MemoryEntry {
        /// `.limit_in_bytes`
        1 => limit: u64,
        /// `.usage_in_bytes`
        2 => usage: u64,
        /// `.max_usage_in_bytes`
        3 => max: u64,
        /// `.failcnt`
        4 => failcnt: u64,
    }

    /// The contents of memory.oom_control.
    pub struct MemoryOomControl {
        /// Whether the OOM killer is disabled.
        1 => oom_kill_disable: u64,
        /// Whether tasks are waiting for memory now.
        2 => under_oom: u64,
        /// The number of processes that the OOM killer has killed (kernel 4.13).
        3 => oom_kill: u64,
    }

    /// The contents of the files blkio.*_recursive, or of blkio.throttle.*.
    pub struct BlkIOStat {
        /// Bytes transferred.
        1 => io_service_bytes_recursive: Vec<BlkIOEntry>,
        /// The number of requests.
        2 => io_serviced_recursive: Vec<BlkIOEntry>,
        /// The number of requests in the queue.
        3 => io_queued_recursive: Vec<BlkIOEntry>,
        /// The time for which requests were served, in nanoseconds.
        4 => io_service_time_recursive: Vec<BlkIOEntry>,
        /// The time that requests waited in the queue, in nanoseconds.
        5 => io_wait_time_recursive: Vec<BlkIOEntry>,
        /// The number of requests that were merged.
        6 => io_merged_recursive: Vec<BlkIOEntry>,
        /// The time for which the device was allocated to the cgroup, in milliseconds.
        7 => io_time_recursive: Vec<BlkIOEntry>,
        /// The number of sectors transferred.
        8 => sectors_recursive: Vec<BlkIOEntry>,
    }

    /// A line of a blkio file.
    pub struct BlkIOEntry {
        /// The operation: `Read`, `Write`, `Sync`, `Async`, `Discard` or `Total`.
        1 => op: String,
        /// The device's path below /dev.
        2 => device: String,
        /// The device's major number.
        3 => major: u64,
        /// The device's minor number.
        4 => minor: u64,
        /// The value of the counter.
        5 => value: u64,
    }

    /// The contents of rdma.current and rdma.max.
    pub struct RdmaStat {
        /// The current usage.
        1 => current: Vec<RdmaEntry>,
        /// The limits.
        2 => limit: Vec<RdmaEntry>,
    }

    /// A line of rdma.current or rdma.max.
    pub struct RdmaEntry {
        /// The device's name.
        1 => device: String,
        /// The number of handles.
        2 => hca_handles: u32,
        /// The number of objects.
        3 => hca_objects: u32,
    }

    /// The counters of a network device.
    pub struct NetworkStat {
        /// The device's name.
        1 => name: String,
        /// Bytes received.
        2 => rx_bytes: u64,
        /// Packets received.
        3 => rx_packets: u64,
        /// Receive errors.
        4 => rx_errors: u64,
        /// Received packets that were dropped.
        5 => rx_dropped: u64,
        /// Bytes sent.
        6 => tx_bytes: u64,
        /// Packets sent.
        7 => tx_packets: u64,
        /// Transmit errors.
        8 => tx_errors: u64,
        /// Outgoing packets that were dropped.
        9 => tx_dropped: u64,
    }

    /// The numbers of tasks in each state.
    pub struct CgroupStats {
        /// The number of sleeping tasks.
        1 => nr_sleeping: u64,
        /// The number of running tasks.
        2 => nr_running: u64,
        /// The number of stopped tasks.
        3 => nr_stopped: u64,
        /// The number of tasks in uninterruptible sleep.
        4 => nr_uninterruptible: u64,
        /// The number of tasks that wait for I/O.
        5 => nr_io_wait: u64,
    }
}
