use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn set(key: &str, value: &str, version: Version) -> Result<Vec<(String, String)>, String> {
    let present = |file: &str| match file {
        "cpu.max" => Some("50000 100000\n".to_owned()),
        "memory.max" | "memory.limit_in_bytes" => Some("1048576\n".to_owned()),
        _ => None,
    };
    let all = assign(key, value, version, &present)?;
    Ok(all.into_iter().map(|assign| (assign.file, assign.value)).collect())
}

fn is(key: &str, value: &str, version: Version, expected: &[(&str, &str)]) {
    let got = set(key, value, version).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
    let expected: Vec<_> =
        expected.iter().map(|(f, v)| ((*f).to_owned(), (*v).to_owned())).collect();
    assert_eq!(got, expected, "{key}={value}");
}

#[test]
fn v1_names_on_v2() {
    let v2 = |key, value, file, written| is(key, value, Version::V2, &[(file, written)]);
    v2("memory.limit_in_bytes", "8G", "memory.max", "8589934592");
    v2("memory.limit_in_bytes", "-1", "memory.max", "max");
    v2("memory.soft_limit_in_bytes", "1M", "memory.low", "1048576");
    v2("memory.memsw.limit_in_bytes", "3M", "memory.swap.max", "2097152");
    v2("memory.memsw.limit_in_bytes", "-1", "memory.swap.max", "max");
    v2("cpu.shares", "1024", "cpu.weight", "100");
    v2("cpu.shares", "512", "cpu.weight", "59");
    v2("cpu.cfs_quota_us", "25000", "cpu.max", "25000");
    v2("cpu.cfs_quota_us", "-1", "cpu.max", "max");
    v2("cpu.cfs_period_us", "50000", "cpu.max", "50000 50000");
    v2("cpuset.cpus", "0-3", "cpuset.cpus", "0-3");
    v2("blkio.weight", "500", "io.weight", "4950");
    v2("blkio.throttle.read_bps_device", "8:0 1048576", "io.max", "8:0 rbps=1048576");
    v2("blkio.throttle.write_iops_device", "8:0 0", "io.max", "8:0 wiops=max");
    v2("freezer.state", "FROZEN", "cgroup.freeze", "1");
    v2("hugetlb.2MB.limit_in_bytes", "4M", "hugetlb.2MB.max", "4194304");
    v2("hugetlb.2MB.rsvd.limit_in_bytes", "4M", "hugetlb.2MB.rsvd.max", "4194304");
    v2("pids.max", "max", "pids.max", "max");
}

#[test]
fn v2_names_on_v1() {
    let v1 = |key, value, file, written| is(key, value, Version::V1, &[(file, written)]);
    v1("memory.max", "8G", "memory.limit_in_bytes", "8589934592");
    v1("memory.max", "max", "memory.limit_in_bytes", "-1");
    v1("memory.swap.max", "1M", "memory.memsw.limit_in_bytes", "2097152");
    v1("cpu.weight", "100", "cpu.shares", "1024");
    v1("io.weight", "default 10000", "blkio.weight", "1000");
    v1("cgroup.freeze", "1", "freezer.state", "FROZEN");
    v1("hugetlb.2MB.max", "max", "hugetlb.2MB.limit_in_bytes", "-1");
    v1("cpu.max.burst", "1000", "cpu.cfs_burst_us", "1000");
    let both = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "-1")];
    is("cpu.max", "max 100000", Version::V1, &both);
    let io = [
        ("blkio.throttle.read_bps_device", "8:0 0"),
        ("blkio.throttle.write_iops_device", "8:0 7"),
    ];
    is("io.max", "8:0 rbps=max wiops=7", Version::V1, &io);
}

#[test]
fn refused_by_name() {
    for (key, version, word) in [
        ("net_cls.classid", Version::V2, "nft"),
        ("net_prio.ifpriomap", Version::V2, "priority"),
        ("devices.allow", Version::V2, "eBPF"),
        ("memory.swappiness", Version::V2, "vm.swappiness"),
        ("memory.kmem.limit_in_bytes", Version::V2, "memory.max"),
        ("cpu.rt_runtime_us", Version::V2, "realtime"),
        ("cpuset.memory_migrate", Version::V2, "always moves"),
        ("memory.high", Version::V1, "throttles"),
        ("memory.oom.group", Version::V1, "OOM"),
        ("io.latency", Version::V1, "no such control"),
        ("cgroup.subtree_control", Version::V1, "v2 alone"),
    ] {
        let error = set(key, "1", version).unwrap_err();
        assert!(error.contains(word) && error.contains(key), "{key}: {error}");
    }
}

#[test]
fn bad_values() {
    for (key, value) in [
        ("memory.limit_in_bytes", "8X"),
        ("memory.limit_in_bytes", ""),
        ("memory.limit_in_bytes", "99999999999T"),
        ("memory.memsw.limit_in_bytes", "1"),
        ("cpu.shares", "many"),
        ("blkio.weight", "5"),
        ("freezer.state", "COLD"),
        ("blkio.throttle.read_bps_device", "sda 5"),
        ("cpuacct.usage", "0"),
    ] {
        assert!(set(key, value, Version::V2).is_err(), "{key}={value}");
    }
    assert!(assign("memory.memsw.limit_in_bytes", "5M", Version::V2, &nothing).is_err());
    assert!(set("io.max", "8:0 bogus=1", Version::V1).is_err());
    for version in [Version::V1, Version::V2] {
        let error = set("cpu.weight", "50000", version).unwrap_err();
        assert_eq!(error, "cpu.weight: from 1 to 10000, not 50000");
        assert!(set("cpu.weight", "0", version).is_err());
        let error = set("memory.max", "lots", version).unwrap_err();
        assert!(error.starts_with("memory.max: \"lots\" is not a size"), "{error}");
    }
}

#[test]
fn shown_by_either_name() {
    let v2 = |file: &str| {
        let text = match file {
            "memory.max" => "max\n",
            "cpu.max" => "50000 100000\n",
            "cpu.weight" => "100\n",
            "cpu.stat" => "usage_usec 7\nuser_usec 4\n",
            "cgroup.freeze" => "0\n",
            "io.max" => "8:0 rbps=5 wbps=max riops=max wiops=9\n",
            _ => return None,
        };
        Some(text.to_owned())
    };
    let shown = |key| show(key, Version::V2, &v2).unwrap().unwrap();
    assert_eq!(shown("memory.limit_in_bytes"), "-1");
    assert_eq!(shown("cpu.cfs_quota_us"), "50000");
    assert_eq!(shown("cpu.cfs_period_us"), "100000");
    assert_eq!(shown("cpu.shares"), "1024");
    assert_eq!(shown("cpuacct.usage"), "7000");
    assert_eq!(shown("freezer.state"), "THAWED");
    assert_eq!(shown("blkio.throttle.write_iops_device"), "8:0 9");
    assert_eq!(shown("blkio.throttle.write_bps_device"), "");
    assert_eq!(show("memory.peak", Version::V2, &v2), Ok(None));

    let v1 = |file: &str| {
        let text = match file {
            "memory.limit_in_bytes" => "9223372036854771712\n",
            "cpu.cfs_quota_us" => "-1\n",
            "cpu.cfs_period_us" => "100000\n",
            "cpu.shares" => "512\n",
            "freezer.state" => "FROZEN\n",
            "blkio.throttle.read_bps_device" => "8:0 5\n",
            _ => return None,
        };
        Some(text.to_owned())
    };
    let shown = |key| show(key, Version::V1, &v1).unwrap().unwrap();
    assert_eq!(shown("memory.max"), "max");
    assert_eq!(shown("cpu.max"), "max 100000");
    assert_eq!(shown("cpu.weight"), "59");
    assert_eq!(shown("cgroup.freeze"), "1");
    assert_eq!(shown("io.max"), "8:0 rbps=5");
}

#[test]
fn the_same_value_in_other_words() {
    assert!(is_same("cpuset.cpus", "0,1,2", "0-2\n"));
    assert!(!is_same("memory.max", "64000001", "63999 9\n"));
    assert!(is_same("memory.limit_in_bytes", "64000001", "64000000\n"));
    assert!(is_same("memory.limit_in_bytes", "-1", "9223372036854771712\n"));
    assert!(is_same("cpu.max", "max", "max 100000\n"));
    assert!(is_same("io.max", "8:0 rbps=5", "8:0 rbps=5 wbps=max riops=max wiops=max\n"));
    assert!(!is_same("io.max", "8:0 rbps=6", "8:0 rbps=5 wbps=max\n"));
    assert!(is_same("io.max", "8:0 rbps=max", ""));
    assert!(is_same("io.weight", "100", "default 100\n"));
    assert!(is_same("io.weight", "8:0 50", "default 100\n8:0 50\n"));
    assert!(!is_same("io.weight", "8:0 50", "default 100\n"));
    for (file, wanted, present) in [
        ("cpu.shares", "1", "2\n"),
        ("cpu.shares", "999999", "262144\n"),
        ("cpu.cfs_quota_us", "-5", "-1\n"),
        ("cpu.max", "max  100000", "max 100000\n"),
        ("cpu.uclamp.min", "10", "10.00\n"),
        ("memory.oom_control", "1", "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n"),
        ("memory.swappiness", "010", "8\n"),
        ("net_cls.classid", "0x00100001", "1048577\n"),
        ("net_prio.ifpriomap", "eth0 5", "lo 0\neth0 5\n"),
        ("rdma.max", "mlx5_0 hca_handle=2", "mlx5_0 hca_handle=2 hca_object=max\n"),
        ("hugetlb.2MB.max", "3M", "2097152\n"),
        ("hugetlb.2MB.limit_in_bytes", "-1", "9223372036852678656\n"),
        ("hugetlb.1GB.limit_in_bytes", "-1", "9223372035781033984\n"),
    ] {
        assert!(is_same(file, wanted, present), "{file}: {wanted} {present}");
    }
    for (file, wanted, present) in [
        ("cpu.shares", "many", "2\n"),
        ("cpu.shares", "3", "2\n"),
        ("cpu.cfs_quota_us", "5", "-1\n"),
        ("cpu.max", "50000 100000", "50000\n"),
        ("memory.oom_control", "1", "oom_kill_disable 0\nunder_oom 1\n"),
        ("pids.max", "7", "max\n"),
        ("net_prio.ifpriomap", "eth0 5", "lo 5\neth0 0\n"),
        ("hugetlb.2MB.max", "4M", "2097152\n"),
        ("memory.max", "max", "2097152\n"),
    ] {
        assert!(!is_same(file, wanted, present), "{file}: {wanted} {present}");
    }
}

#[test]
fn misspelt_keys() {
    assert_eq!(spec::word::nearest("memory.limit_in_byte", names()), Some("memory.limit_in_bytes"));
    assert_eq!(spec::word::nearest("cpuset.cpu", names()), Some("cpuset.cpus"));
    assert!(is_known("hugetlb.1GB.max") && is_known("cpu.shares") && !is_known("cpu.share"));
}
