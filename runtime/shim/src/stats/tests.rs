//! Tests with files as fixtures, and tests on the running kernel.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use cgroup::{Cgroup, Controllers, Hierarchies, Hierarchy};
use proto::messages::{metrics_v1, metrics_v2};

use super::*;

fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("dayfly-stats-{}-{count}", std::process::id())
}

/// A temporary directory that contains the cgroup `x` of one hierarchy.
struct Fixture {
    root: PathBuf,
    location: Location,
}

impl Fixture {
    fn new(controllers: Option<&str>) -> Self {
        let root = std::env::temp_dir().join(unique());
        fs::create_dir_all(root.join("x")).unwrap();
        let mount = root.to_str().unwrap().to_string();
        let hierarchies = Hierarchies {
            root: mount.clone(),
            unified: controllers.is_none().then(|| mount.clone()),
            legacy: controllers
                .map(|list| Hierarchy { controllers: Controllers::from_list(list), mount })
                .into_iter()
                .collect(),
        };
        let location = Location::resolve(&hierarchies, Some("/x"), "x").unwrap();
        Self { root, location }
    }

    fn put(&self, file: &str, content: &str) -> &Self {
        fs::write(self.root.join("x").join(file), content).unwrap();
        self
    }

    fn v1(&self) -> metrics_v1::Metrics {
        metrics(&self.location).unwrap().unpack().unwrap().unwrap()
    }

    fn v2(&self) -> metrics_v2::Metrics {
        metrics(&self.location).unwrap().unpack().unwrap().unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

#[test]
fn all_that_v2_has() {
    let cgroup = Fixture::new(None);
    cgroup
        .put("pids.current", "3\n")
        .put("pids.max", "max\n")
        .put("cpu.stat", "usage_usec 7\nuser_usec 4\nsystem_usec 3\nnice_usec 0\nnr_periods 2\nnr_throttled 1\nthrottled_usec 9\nnr_bursts 5\nburst_usec 6\n")
        .put("cpu.pressure", "some avg10=1.50 avg60=0.00 avg300=0.25 total=12\n")
        .put("memory.stat", "anon 1\nfile 4096\nkernel_stack 2\nthp_collapse_alloc 31\nnew 7\n")
        .put("memory.current", "8192\n")
        .put("memory.max", "max\n")
        .put("memory.peak", "9000\n")
        .put("memory.swap.current", "100\n")
        .put("memory.swap.max", "1000\n")
        .put("memory.swap.peak", "odd\n")
        .put("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=2.00 avg300=0.00 total=3\n")
        .put("memory.events", "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n")
        // The second line is in the format of kernels before 6.0.
        .put("io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n253:1 253:2 rbytes=5\n9:0 \n")
        .put("rdma.current", "mlx4_0 hca_handle=2 hca_object=2000\n")
        .put("rdma.max", "mlx4_0 hca_handle=max hca_object=3000\n");
    for size in cgroup::stats::huge_page_sizes() {
        cgroup
            .put(&format!("hugetlb.{size}.current"), "11\n")
            .put(&format!("hugetlb.{size}.max"), "max\n")
            .put(&format!("hugetlb.{size}.events"), "max 12\n");
    }
    let metrics = cgroup.v2();
    let pids = metrics.pids.unwrap();
    assert_eq!((pids.current, pids.limit), (3, u64::MAX));
    let cpu = metrics.cpu.unwrap();
    assert_eq!((cpu.usage_usec, cpu.user_usec, cpu.system_usec), (7, 4, 3));
    assert_eq!((cpu.nr_periods, cpu.nr_throttled, cpu.throttled_usec), (2, 1, 9));
    assert_eq!((cpu.nr_bursts, cpu.burst_usec), (5, 6));
    let psi = cpu.psi.unwrap();
    assert_eq!((psi.some.unwrap().avg10, psi.full), (1.5, None));
    let memory = metrics.memory.unwrap();
    assert_eq!((memory.anon, memory.file, memory.kernel_stack), (1, 4096, 2));
    assert_eq!(memory.thp_collapse_alloc, 31);
    assert_eq!((memory.usage, memory.usage_limit, memory.max_usage), (8192, u64::MAX, 9000));
    assert_eq!((memory.swap_usage, memory.swap_limit, memory.swap_max_usage), (100, 1000, 0));
    assert_eq!(memory.psi.unwrap().full.unwrap().total, 3);
    let events = metrics.memory_events.unwrap();
    assert_eq!((events.low, events.high, events.max, events.oom), (1, 2, 3, 4));
    assert_eq!((events.oom_kill, events.oom_group_kill), (5, 6));
    let io = metrics.io.unwrap();
    let devices: Vec<_> = io.usage.iter().map(|io| (io.major, io.minor, io.rbytes)).collect();
    assert_eq!(devices, [(8, 0, 1), (253, 2, 5)]);
    assert_eq!((io.usage[0].wbytes, io.usage[0].rios, io.usage[0].wios), (2, 3, 4));
    assert_eq!(io.psi, None);
    let rdma = metrics.rdma.unwrap();
    assert_eq!((rdma.current[0].hca_handles, rdma.current[0].hca_objects), (2, 2000));
    assert_eq!((rdma.limit[0].hca_handles, rdma.limit[0].device.as_str()), (u32::MAX, "mlx4_0"));
    assert_eq!(metrics.hugetlb.len(), cgroup::stats::huge_page_sizes().len());
    let huge = |page: &metrics_v2::HugeTlbStat| (page.current, page.max, page.failcnt);
    assert!(metrics.hugetlb.iter().all(|page| huge(page) == (11, u64::MAX, 12)));
}

#[test]
fn v2_without_controllers() {
    let cgroup = Fixture::new(None);
    let metrics = cgroup.v2();
    assert_eq!(metrics.memory, Some(metrics_v2::MemoryStat::default()));
    assert_eq!(metrics.memory_events, None);
    assert_eq!(metrics.cpu, Some(metrics_v2::CPUStat::default()));
}

#[test]
fn all_that_v1_has() {
    let cgroup = Fixture::new(Some("cpu,cpuacct,memory,pids,blkio,hugetlb,rdma"));
    cgroup
        .put("cpuacct.usage", "1000\n")
        .put("cpuacct.stat", "user 4\nsystem 3\n")
        .put("cpuacct.usage_percpu", "600 400 \n")
        .put("cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_time 9\n")
        .put(
            "memory.stat",
            "cache 1\nrss 2\npgpgin 3\nhierarchical_memsw_limit 4\ntotal_unevictable 5\n",
        )
        .put("memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 2\n")
        .put("pids.current", "3\n")
        .put("pids.max", "max\n")
        .put("blkio.throttle.io_serviced", "1:1 Read 9\n1:1 Total 9\nTotal 9\n")
        .put("blkio.throttle.io_service_bytes", "1:1 Write 4096\nTotal 4096\n")
        .put("rdma.current", "");
    for (prefix, value) in [("", 10), (".memsw", 20), (".kmem.tcp", 40)] {
        for (index, name) in
            ["limit_in_bytes", "usage_in_bytes", "max_usage_in_bytes", "failcnt"].iter().enumerate()
        {
            cgroup.put(&format!("memory{prefix}.{name}"), &format!("{}\n", value + index));
        }
    }
    for size in cgroup::stats::huge_page_sizes() {
        cgroup
            .put(&format!("hugetlb.{size}.usage_in_bytes"), "1\n")
            .put(&format!("hugetlb.{size}.max_usage_in_bytes"), "2\n")
            .put(&format!("hugetlb.{size}.failcnt"), "3\n");
    }
    let metrics = cgroup.v1();
    let cpu = metrics.cpu.unwrap();
    let usage = cpu.usage.unwrap();
    assert_eq!((usage.total, usage.user, usage.kernel), (1000, 40_000_000, 30_000_000));
    assert_eq!(usage.per_cpu, [600, 400]);
    let throttling = cpu.throttling.unwrap();
    assert_eq!((throttling.nr_periods, throttling.throttled_time), (2, 9));
    assert_eq!(throttling.nr_throttled, 1);
    let memory = metrics.memory.unwrap();
    assert_eq!((memory.cache, memory.rss, memory.pgpgin), (1, 2, 3));
    assert_eq!((memory.hierarchical_memsw_limit, memory.total_unevictable), (4, 5));
    let entry = |entry: Option<metrics_v1::MemoryEntry>| {
        let entry = entry.unwrap();
        [entry.limit, entry.usage, entry.max, entry.failcnt]
    };
    assert_eq!(entry(memory.usage), [10, 11, 12, 13]);
    assert_eq!(entry(memory.swap), [20, 21, 22, 23]);
    assert_eq!(entry(memory.kernel), [0; 4]);
    assert_eq!(entry(memory.kernel_tcp), [40, 41, 42, 43]);
    let oom = metrics.memory_oom_control.unwrap();
    assert_eq!((oom.oom_kill_disable, oom.under_oom, oom.oom_kill), (0, 1, 2));
    let pids = metrics.pids.unwrap();
    assert_eq!((pids.current, pids.limit), (3, 0));
    let blkio = metrics.blkio.unwrap();
    let ops: Vec<_> =
        blkio.io_serviced_recursive.iter().map(|io| (io.op.as_str(), io.value)).collect();
    assert_eq!(ops, [("Read", 9), ("Total", 9)]);
    assert_eq!(blkio.io_service_bytes_recursive[0].value, 4096);
    let huge = |page: &metrics_v1::HugetlbStat| (page.usage, page.max, page.failcnt);
    assert!(metrics.hugetlb.iter().all(|page| huge(page) == (1, 2, 3)));
    assert_eq!(metrics.rdma, Some(metrics_v1::RdmaStat::default()));
    assert!(metrics.network.is_empty() && metrics.cgroup_stats.is_none());
}

#[test]
fn devices_have_the_names_of_proc_partitions() {
    let entry = |major, minor| metrics_v1::BlkIOEntry { major, minor, ..Default::default() };
    let mut stat = metrics_v1::BlkIOStat {
        io_serviced_recursive: vec![entry(254, 0), entry(7, 1)],
        ..Default::default()
    };
    let text =
        "major minor  #blocks  name\n\n   7        0     123 loop0\n 254        0  10485760 vda\n";
    v1::name_devices(&mut stat, text);
    let names: Vec<_> = stat.io_serviced_recursive.iter().map(|io| io.device.as_str()).collect();
    assert_eq!(names, ["/dev/vda", ""]);
}

#[test]
fn a_cgroup_that_is_not_there() {
    for controllers in [None, Some("memory")] {
        let cgroup = Fixture::new(controllers);
        fs::remove_dir(cgroup.root.join("x")).unwrap();
        assert!(metrics(&cgroup.location).unwrap_err().is_gone());
    }
}

/// A cgroup on the running kernel, which contains a process that has used some CPU time.
struct Real {
    cgroup: Option<Cgroup>,
    location: Location,
    child: Child,
}

impl Real {
    fn new(hierarchies: &Hierarchies) -> Self {
        let path = format!("/{}", unique());
        let location = Location::resolve(hierarchies, Some(&path), "x").unwrap();
        let cgroup = Cgroup::create(&location, &Default::default(), None).unwrap();
        let mut child = Command::new("sh")
            .args([
                "-c",
                "read go; while [ $((i += 1)) -lt 20000 ]; do :; done; echo; exec sleep 100",
            ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        cgroup.add(child.id().cast_signed()).unwrap();
        drop(child.stdin.take());
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Self { cgroup: Some(cgroup), location, child }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.cgroup.take();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the hierarchies if the host is hybrid and the tests run as root; otherwise `None`.
fn hierarchies() -> Option<Hierarchies> {
    Hierarchies::detect().ok().filter(|all| is_root() && !all.is_unified())
}

#[test]
fn as_the_kernel_has_it_on_v1() {
    let Some(hierarchies) = hierarchies() else { return eprintln!("skipped: wants v1 and root") };
    let real = Real::new(&hierarchies);
    let read = || {
        let any = metrics(&real.location).unwrap();
        any.unpack::<metrics_v1::Metrics>().unwrap().unwrap()
    };
    // The kernel may update the sums of its per-CPU counters at any time, so the test uses a reading between two equal
    // readings.
    let (metrics, stats) = loop {
        let (before, stats) = (read(), real.cgroup.as_ref().unwrap().stats().unwrap());
        if before.memory == read().memory {
            break (before, stats);
        }
    };
    let usage = metrics.cpu.unwrap().usage.unwrap();
    assert!(usage.total > 0 && usage.total <= stats.cpu.usage.total);
    assert_eq!(usage.per_cpu.len(), stats.cpu.usage.percpu.len());
    let memory = metrics.memory.unwrap();
    let total = memory.usage.unwrap();
    assert_eq!(total.limit, stats.memory.usage.limit);
    assert!(total.usage > 0 && total.max >= total.usage);
    for (value, key) in [
        (memory.rss, "rss"),
        (memory.pgfault, "pgfault"),
        (memory.total_active_anon, "total_active_anon"),
        (memory.hierarchical_memory_limit, "hierarchical_memory_limit"),
    ] {
        assert_eq!(Some(&value), stats.memory.raw.get(key), "{key}");
    }
    assert_eq!(metrics.pids.unwrap().current, stats.pids.current);
    assert!(metrics.memory_oom_control.is_some() && metrics.blkio.is_some());
}

#[test]
fn as_the_kernel_has_it_on_v2() {
    let unified = hierarchies().and_then(|all| all.unified);
    let Some(root) = unified else { return eprintln!("skipped: wants a hybrid host and root") };
    let hierarchies = Hierarchies { root: root.clone(), unified: Some(root), legacy: vec![] };
    let mut real = Real::new(&hierarchies);
    let result = metrics(&real.location).unwrap().unpack::<metrics_v2::Metrics>();
    let (now, stats) = (result.unwrap().unwrap(), real.cgroup.as_ref().unwrap().stats().unwrap());
    let cpu = now.cpu.unwrap();
    assert!(cpu.usage_usec > 0 && cpu.usage_usec * 1000 <= stats.cpu.usage.total);
    assert_eq!(cpu.psi.is_some(), stats.cpu.psi.is_some());
    real.child.kill().unwrap();
    real.child.wait().unwrap();
    real.cgroup.take();
    assert!(metrics(&real.location).unwrap_err().is_gone());
}
