//! Tests which values are written to which files. Plain directories replace the cgroups; tests/legacy.rs tests the
//! kernel's behaviour.

use super::*;
use crate::Controllers;
use crate::fixture::Fixture;

/// Sets limits in one hierarchy that has all of `controllers`.
fn set_in(cgroup: &Fixture, controllers: &str, json: &str) -> Result<(), Error> {
    let controllers = Controllers::from_list(controllers);
    let all = [Legacy { controllers, directory: cgroup.directory() }];
    set(&all, &serde_json::from_str(json).unwrap())
}

#[test]
fn nothing_asked_nothing_written() {
    let json = r#"{"memory": {"limit": 0, "swap": 0, "disableOOMKiller": false},
        "cpu": {"shares": 0, "quota": 0, "cpus": ""}, "pids": {},
        "blockIO": {"weight": 0, "weightDevice": []}, "hugepageLimits": [],
        "network": {"priorities": []}, "devices": []}"#;
    set(&[], &serde_json::from_str(json).unwrap()).unwrap();
}

#[test]
fn memory_limits() {
    let files = [LIMIT, SWAP_LIMIT, "memory.soft_limit_in_bytes", "memory.swappiness"];
    let cgroup = Fixture::new(&files);
    let memory = |present: &str, json: &str| {
        cgroup.put(LIMIT, present);
        set_in(&cgroup, "memory", &format!(r#"{{"memory": {json}}}"#)).unwrap();
        files.map(|file| cgroup.get(file))
    };
    let json = r#"{"limit": 1000, "swap": 2000, "reservation": 500, "swappiness": 0}"#;
    assert_eq!(memory("9999", json), ["1000", "2000", "500", "0"]);
    cgroup.put(SWAP_LIMIT, "");
    assert_eq!(memory("", r#"{"limit": -1}"#), ["-1", "-1", "500", "0"]);

    let error = set_in(&cgroup, "memory", r#"{"memory": {"swappiness": 101}}"#).unwrap_err();
    assert!(error.to_string().ends_with("swappiness value: 101 (valid range is 0-100)"));
}

#[test]
fn deprecated_kernel_memory_may_be_gone() {
    let cgroup = Fixture::new(&["memory.kmem.tcp.limit_in_bytes"]);
    let json = r#"{"memory": {"kernel": 7, "kernelTCP": 8, "useHierarchy": true}}"#;
    set_in(&cgroup, "memory", json).unwrap();
    assert_eq!(cgroup.get("memory.kmem.tcp.limit_in_bytes"), "8");
}

#[test]
fn cpu_limits() {
    let files = [
        "cpu.shares",
        "cpu.cfs_quota_us",
        "cpu.cfs_period_us",
        "cpu.cfs_burst_us",
        "cpu.rt_runtime_us",
        "cpu.rt_period_us",
        "cpu.idle",
        "cpuset.cpus",
        "cpuset.mems",
    ];
    let cgroup = Fixture::new(&files);
    let json = r#"{"cpu": {"shares": 1024, "quota": 5000, "period": 9000, "burst": 3, "idle": 1,
        "realtimeRuntime": 11, "realtimePeriod": 12, "cpus": "0", "mems": "0-1"}}"#;
    set_in(&cgroup, "cpu,cpuset", json).unwrap();
    let written = files.map(|file| cgroup.get(file));
    assert_eq!(written, ["1024", "5000", "9000", "3", "11", "12", "1", "0", "0-1"]);
}

#[test]
fn blkio_limits() {
    let files = [
        "blkio.bfq.weight",
        "blkio.bfq.weight_device",
        "blkio.throttle.read_bps_device",
        "blkio.throttle.write_bps_device",
        "blkio.throttle.read_iops_device",
        "blkio.throttle.write_iops_device",
    ];
    let cgroup = Fixture::new(&files);
    let json = r#"{"blockIO": {"weight": 500,
        "weightDevice": [{"major": 8, "minor": 0, "weight": 100}],
        "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 1}],
        "throttleWriteBpsDevice": [{"major": 8, "minor": 0, "rate": 2}],
        "throttleReadIOPSDevice": [{"major": 8, "minor": 0, "rate": 3}],
        "throttleWriteIOPSDevice": [{"major": 8, "minor": 0, "rate": 4}]}}"#;
    set_in(&cgroup, "blkio", json).unwrap();
    let written = files.map(|file| cgroup.get(file));
    assert_eq!(written, ["500", "8:0 100", "8:0 1", "8:0 2", "8:0 3", "8:0 4"]);

    cgroup.put("blkio.weight", "").put("blkio.leaf_weight", "");
    let json = r#"{"blockIO": {"weight": 10, "leafWeight": 20}}"#;
    set_in(&cgroup, "blkio", json).unwrap();
    assert_eq!([cgroup.get("blkio.weight"), cgroup.get("blkio.leaf_weight")], ["10", "20"]);
}

#[test]
fn other_limits() {
    let files = ["hugetlb.2MB.limit_in_bytes", "net_cls.classid", "net_prio.ifpriomap", "rdma.max"];
    let cgroup = Fixture::new(&files);
    let json = r#"{"hugepageLimits": [{"pageSize": "2MB", "limit": 0}],
        "network": {"classID": 1048577, "priorities": [{"name": "eth0", "priority": 5}]},
        "rdma": {"mlx5_1": {"hcaHandles": 3}}}"#;
    set_in(&cgroup, "hugetlb,net_cls,net_prio,rdma", json).unwrap();
    let written = files.map(|file| cgroup.get(file));
    assert_eq!(written, ["0", "1048577", "eth0 5", "mlx5_1 hca_handle=3\n"]);
}

#[test]
fn a_missing_controller_is_named() {
    for (json, controller) in [
        (r#"{"memory": {"limit": 1}}"#, "memory"),
        (r#"{"cpu": {"shares": 5}}"#, "cpu"),
        (r#"{"cpu": {"mems": "0"}}"#, "cpuset"),
        (r#"{"pids": {"limit": -1}}"#, "pids"),
        (r#"{"blockIO": {"weight": 10}}"#, "blkio"),
        (r#"{"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]}"#, "hugetlb"),
        (r#"{"network": {"classID": 1}}"#, "net_cls"),
        (r#"{"network": {"priorities": [{"name": "lo", "priority": 0}]}}"#, "net_prio"),
        (r#"{"rdma": {"x": {}}}"#, "rdma"),
    ] {
        let error = set(&[], &serde_json::from_str(json).unwrap()).unwrap_err().to_string();
        assert!(error.contains(&format!("{controller:?} is not mounted")), "{error}");
    }
}

#[test]
fn unified_is_refused() {
    let json = r#"{"unified": {"memory.max": "1"}}"#;
    let error = set(&[], &serde_json::from_str(json).unwrap()).unwrap_err();
    assert_eq!(error, Error::UnifiedOnV1);
}
