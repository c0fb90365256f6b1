//! Tests which values are written to which files. A plain directory replaces the cgroup.

use super::*;
use crate::fixture::Fixture;

impl Fixture {
    fn set(&self, json: &str) -> Result<(), Error> {
        set(&self.directory(), &serde_json::from_str(json).unwrap())
    }

    fn fails(&self, json: &str) -> String {
        self.set(json).unwrap_err().to_string()
    }
}

#[test]
fn nothing_asked_nothing_written() {
    let cgroup = Fixture::new(&[]);
    cgroup.set("{}").unwrap();
    cgroup
        .set(
            r#"{"memory": {"limit": 0, "swap": 0, "reservation": 0, "disableOOMKiller": false},
            "cpu": {"shares": 0, "quota": 0, "period": 0, "cpus": ""}, "pids": {},
            "blockIO": {"weight": 0, "weightDevice": []}, "hugepageLimits": [], "network": {}}"#,
        )
        .unwrap();
}

#[test]
fn pids_limit() {
    let cgroup = Fixture::new(&["pids.max"]);
    for (limit, written) in [(7, "7"), (-1, "max"), (-9, "max")] {
        cgroup.put("pids.max", "").set(&format!(r#"{{"pids": {{"limit": {limit}}}}}"#)).unwrap();
        assert_eq!(cgroup.get("pids.max"), written);
    }
}

#[test]
fn memory_limits() {
    let files = ["memory.max", "memory.swap.max", "memory.low"];
    let cgroup = Fixture::new(&files);
    let memory = |json: &str| {
        for file in files {
            cgroup.put(file, "");
        }
        cgroup.set(&format!(r#"{{"memory": {json}}}"#)).unwrap();
        files.map(|file| cgroup.get(file))
    };
    assert_eq!(memory(r#"{"limit": 100, "swap": 300, "reservation": 50}"#), ["100", "200", "50"]);
    assert_eq!(memory(r#"{"limit": 100, "swap": 100}"#), ["100", "0", ""]);
    assert_eq!(memory(r#"{"limit": 100}"#), ["100", "", ""]);
    assert_eq!(memory(r#"{"limit": -1}"#), ["max", "max", ""]);
    assert_eq!(memory(r#"{"limit": 5, "swap": -1, "reservation": -1}"#), ["5", "max", "max"]);
}

#[test]
fn swap_alone_builds_on_the_present_limit() {
    let cgroup = Fixture::new(&["memory.swap.max"]);
    cgroup.put("memory.max", "100\n").set(r#"{"memory": {"swap": 150}}"#).unwrap();
    assert_eq!(cgroup.get("memory.swap.max"), "50");
    cgroup.put("memory.max", "max\n");
    let error = cgroup.fails(r#"{"memory": {"swap": 150}}"#);
    assert_eq!(error, "linux.resources.memory: unable to set swap limit without memory limit");
}

#[test]
fn swap_without_accounting() {
    let cgroup = Fixture::new(&["memory.max"]);
    cgroup.put("cgroup.controllers", "memory\n");
    cgroup.set(r#"{"memory": {"limit": 100, "swap": 100}}"#).unwrap();
    cgroup.set(r#"{"memory": {"limit": 100, "swap": -1}}"#).unwrap();
    assert!(cgroup.fails(r#"{"memory": {"limit": 1, "swap": 2}}"#).contains("memory.swap.max"));
}

#[test]
fn an_update_below_usage_can_be_refused() {
    let cgroup = Fixture::new(&["memory.max"]);
    cgroup.put("memory.current", "1000\n");
    let error = cgroup.fails(r#"{"memory": {"limit": 1000, "checkBeforeUpdate": true}}"#);
    assert!(error.ends_with("rejecting memory limit 1000 <= usage 1000"), "{error}");
    assert_eq!(cgroup.get("memory.max"), "");
    cgroup.set(r#"{"memory": {"limit": 1001, "checkBeforeUpdate": true}}"#).unwrap();
    assert_eq!(cgroup.get("memory.max"), "1001");
}

#[test]
fn cpu_limits() {
    let files =
        ["cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle", "cpuset.cpus", "cpuset.mems"];
    let cgroup = Fixture::new(&files);
    cgroup
        .set(
            r#"{"cpu": {"shares": 1024, "quota": 50000, "period": 200000, "burst": 10,
            "cpus": "0-1", "mems": "0"}}"#,
        )
        .unwrap();
    assert_eq!(files.map(|file| cgroup.get(file)), ["100", "50000 200000", "10", "", "0-1", "0"]);

    let bandwidth = |present: &str, json: &str| {
        cgroup.put("cpu.max", present).set(&format!(r#"{{"cpu": {json}}}"#)).unwrap();
        cgroup.get("cpu.max")
    };
    assert_eq!(bandwidth("", r#"{"quota": 7000}"#), "7000");
    assert_eq!(bandwidth("", r#"{"quota": -1}"#), "max");
    assert_eq!(bandwidth("7000 100000\n", r#"{"period": 900000}"#).trim_end(), "7000 900000");

    cgroup.put("cpu.weight", "").set(r#"{"cpu": {"idle": 1, "shares": 2048}}"#).unwrap();
    assert_eq!(["cpu.idle", "cpu.weight"].map(|file| cgroup.get(file)), ["1", ""]);
}

const IO: &str = r#"{"blockIO": {"weight": 500, "leafWeight": 300,
    "weightDevice": [{"major": 8, "minor": 0, "weight": 1000}, {"major": 8, "minor": 16}],
    "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 1}, {"major": 9, "minor": 1, "rate": 0}],
    "throttleWriteBpsDevice": [{"major": 8, "minor": 0, "rate": 2}],
    "throttleReadIOPSDevice": [{"major": 8, "minor": 0, "rate": 3}],
    "throttleWriteIOPSDevice": [{"major": 8, "minor": 0, "rate": 4}]}}"#;

#[test]
fn io_limits() {
    let cgroup = Fixture::new(&["io.weight", "io.max"]);
    cgroup.set(IO).unwrap();
    assert_eq!(cgroup.get("io.weight"), "4950\n8:0 10000\n");
    let limits = "8:0 rbps=1\n9:1 rbps=max\n8:0 wbps=2\n8:0 riops=3\n8:0 wiops=4\n";
    assert_eq!(cgroup.get("io.max"), limits);
}

#[test]
fn bfq_takes_weights_as_they_are() {
    let cgroup = Fixture::new(&["io.bfq.weight", "io.weight", "io.max"]);
    cgroup.set(IO).unwrap();
    assert_eq!(cgroup.get("io.bfq.weight"), "500\n8:0 1000\n");
    assert_eq!(cgroup.get("io.weight"), "");
}

#[test]
fn hugepage_limits() {
    let cgroup = Fixture::new(&["hugetlb.2MB.max", "hugetlb.2MB.rsvd.max", "hugetlb.1GB.max"]);
    cgroup.put("cgroup.controllers", "hugetlb\n");
    cgroup
        .set(
            r#"{"hugepageLimits": [{"pageSize": "2MB", "limit": 4194304},
            {"pageSize": "1GB", "limit": 0}]}"#,
        )
        .unwrap();
    assert_eq!(cgroup.get("hugetlb.2MB.max"), "4194304");
    assert_eq!(cgroup.get("hugetlb.2MB.rsvd.max"), "4194304");
    assert_eq!(cgroup.get("hugetlb.1GB.max"), "0");
    let error = cgroup.fails(r#"{"hugepageLimits": [{"pageSize": "../x", "limit": 0}]}"#);
    assert!(error.contains("invalid page size"), "{error}");
}

#[test]
fn rdma_limits() {
    let cgroup = Fixture::new(&["rdma.max"]);
    cgroup
        .set(
            r#"{"rdma": {"mlx5_1": {"hcaHandles": 3, "hcaObjects": 10000}, "mlx4_0": {"hcaObjects": 7},
            "rxe3": {}}}"#,
        )
        .unwrap();
    let lines = "mlx4_0 hca_object=7\nmlx5_1 hca_handle=3 hca_object=10000\n";
    assert_eq!(cgroup.get("rdma.max"), lines);
}

#[test]
fn unified_files() {
    let cgroup = Fixture::new(&["memory.high", "io.max"]);
    cgroup.put("cgroup.controllers", "memory io\n");
    cgroup
        .set(r#"{"unified": {"memory.high": "max", "io.max": "8:0 rbps=1\n8:16 rbps=2"}}"#)
        .unwrap();
    assert_eq!(cgroup.get("memory.high"), "max");
    assert_eq!(cgroup.get("io.max"), "8:0 rbps=1\n8:16 rbps=2");

    let unified = |name: &str| cgroup.fails(&format!(r#"{{"unified": {{"{name}": "1"}}}}"#));
    assert!(unified("../memory.max").contains("must be a file name (no slashes)"));
    for name in ["", ".", "..", "memory", "memory.", ".max"] {
        let error = unified(name);
        assert!(error.contains("must be in the form CONTROLLER.PARAMETER"), "{name:?}: {error}");
    }
    assert!(unified("pids.max").contains(r#"cgroup controller "pids" is not available"#));
    assert!(unified("memory.bogus").contains("no such file or directory"));
}

#[test]
fn a_missing_controller_is_named() {
    let cgroup = Fixture::new(&[]);
    cgroup.put("cgroup.controllers", "cpuset hugetlb\n");
    for (json, controller, file) in [
        (r#"{"memory": {"limit": 1}}"#, "memory", "memory.max"),
        (r#"{"memory": {"limit": 1, "swap": 1}}"#, "memory", "memory.swap.max"),
        (r#"{"memory": {"swap": 1}}"#, "memory", "memory.max"),
        (r#"{"cpu": {"shares": 5}}"#, "cpu", "cpu.weight"),
        (r#"{"cpu": {"period": 5}}"#, "cpu", "cpu.max"),
        (r#"{"pids": {"limit": -1}}"#, "pids", "pids.max"),
        (r#"{"blockIO": {"weight": 10}}"#, "io", "io.weight"),
        (IO, "io", "io.weight"),
        (r#"{"rdma": {"x": {}}}"#, "rdma", "rdma.max"),
    ] {
        let error = cgroup.fails(json);
        let expected =
            format!("cannot set {file}: cgroup controller {controller:?} is not available");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn v1_settings_are_reported() {
    let resources = serde_json::from_str(
        r#"{"memory": {"swappiness": 0, "disableOOMKiller": true, "limit": 5},
        "cpu": {"realtimePeriod": 1}, "network": {"classID": 1}, "blockIO": {"weight": 10}}"#,
    )
    .unwrap();
    assert_eq!(
        ignored(&resources).collect::<Vec<_>>(),
        ["memory.swappiness", "memory.disableOOMKiller", "cpu.realtimePeriod", "network.classID"]
    );
}
