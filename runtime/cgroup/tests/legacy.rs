//! Tests cgroup v1, alone and together with v2, on the running kernel.

mod common;

use std::io::Read;
use std::time::Duration;

use common::{Inmate, Scratch, View, create, directories, exists, read, resources, run};
use dayfly_cgroup::{Cgroup, Controller, Error, FreezerState, Location, OomEvent};

const KILL: i32 = 9;
const TERM: i32 = 15;

fn in_view(name: &str, test: impl FnOnce(&Scratch)) {
    run(View::Legacy, name, || test(&Scratch::new()));
}

fn directory(location: &Location, controller: Controller) -> &str {
    location.of(controller).unwrap().directory()
}

#[test]
fn hybrid_has_both_halves() {
    run(View::Hybrid, "hybrid_has_both_halves", || {
        let scratch = Scratch::new();
        let location = scratch.location("a/b");
        let mut cgroup = create(&location, r#"{"pids": {"limit": 20}}"#).unwrap();
        assert!(directories(&location).iter().all(|directory| exists(directory)));
        assert!(cgroup.dir_fd().is_some());
        assert_eq!(cgroup.entrances(true).unwrap().len(), location.legacy.len());
        cgroup.keep();
        let mut inmate = Inmate::idle(&cgroup);
        assert_eq!(cgroup.pids().unwrap(), [inmate.pid()]);
        // The process is frozen by the v1 freezer and killed through v2. It must exit nevertheless.
        cgroup.freeze().unwrap();
        Cgroup::delete(&location).unwrap();
        assert_eq!(inmate.signal(), Some(KILL));
        assert!(directories(&location).iter().all(|directory| !exists(directory)));
    });
}

#[test]
fn made_and_removed_with_parents() {
    in_view("made_and_removed_with_parents", |scratch| {
        assert!(scratch.hierarchies.unified.is_none());
        let location = scratch.location("a/b");
        let cgroup = create(&location, "{}").unwrap();
        assert!(cgroup.dir_fd().is_none());
        let cpuset = directory(&location, Controller::Cpuset);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            assert_eq!(read(cpuset, file), read("/sys/fs/cgroup/cpuset", file));
        }
        drop(cgroup);
        for directory in directories(&location) {
            assert!(!exists(directory.strip_suffix("/a/b").unwrap()), "{directory}");
        }
    });
}

#[test]
fn limits_reach_the_kernel() {
    in_view("limits_reach_the_kernel", |scratch| {
        let location = scratch.location("x");
        let json = r#"{
            "memory": {"limit": 67108864, "swap": 134217728, "reservation": 33554432,
                       "swappiness": 7, "kernelTCP": 1048576, "disableOOMKiller": true},
            "cpu": {"shares": 512, "quota": 50000, "period": 100000, "burst": 1000,
                    "cpus": "0", "mems": "0"},
            "pids": {"limit": 30}}"#;
        let cgroup = create(&location, json).unwrap();
        let value = |controller, file| read(directory(&location, controller), file);
        let memory = |file| value(Controller::Memory, file);
        assert_eq!(memory("memory.limit_in_bytes"), "67108864");
        assert_eq!(memory("memory.memsw.limit_in_bytes"), "134217728");
        assert_eq!(memory("memory.soft_limit_in_bytes"), "33554432");
        assert_eq!(memory("memory.swappiness"), "7");
        assert_eq!(memory("memory.kmem.tcp.limit_in_bytes"), "1048576");
        assert!(memory("memory.oom_control").starts_with("oom_kill_disable 1"));
        let cpu = |file| value(Controller::Cpu, file);
        assert_eq!(cpu("cpu.shares"), "512");
        assert_eq!(cpu("cpu.cfs_quota_us"), "50000");
        assert_eq!(cpu("cpu.cfs_period_us"), "100000");
        assert_eq!(cpu("cpu.cfs_burst_us"), "1000");
        assert_eq!(value(Controller::Cpuset, "cpuset.cpus"), "0");
        assert_eq!(value(Controller::Pids, "pids.max"), "30");

        // Limits are raised and lowered. The new memory limit is first above and later below the
        // old limit of memory and swap together.
        for (limit, swap) in [(268435456, 268435456), (8388608, 16777216), (-1, -1), (8388608, -1)]
        {
            let json = format!(r#"{{"memory": {{"limit": {limit}, "swap": {swap}}}}}"#);
            cgroup.set(&resources(&json)).unwrap();
            if limit > 0 {
                assert_eq!(memory("memory.limit_in_bytes"), limit.to_string());
            }
            if swap > 0 {
                assert_eq!(memory("memory.memsw.limit_in_bytes"), swap.to_string());
            }
        }
        cgroup.set(&resources(r#"{"pids": {"limit": -1}, "cpu": {"quota": -1}}"#)).unwrap();
        assert_eq!(value(Controller::Pids, "pids.max"), "max");
        assert_eq!(cpu("cpu.cfs_quota_us"), "-1");
        assert_eq!(cpu("cpu.shares"), "512", "not mentioned, not changed");

        let error = cgroup.set(&resources(r#"{"cpu": {"shares": 1}}"#)).unwrap_err();
        assert!(error.to_string().ends_with("the minimum allowed cpu-shares is 2"), "{error}");
        let error = cgroup.set(&resources(r#"{"unified": {"pids.max": "1"}}"#)).unwrap_err();
        assert_eq!(error, Error::UnifiedOnV1);
    });
}

#[test]
fn pids_limit_holds() {
    in_view("pids_limit_holds", |scratch| {
        let cgroup = create(&scratch.location("x"), r#"{"pids": {"limit": 1}}"#).unwrap();
        assert_eq!(Inmate::new(&cgroup, "(echo child); echo self").output(), "");
        cgroup.set(&resources(r#"{"pids": {"limit": 2}}"#)).unwrap();
        assert_eq!(Inmate::new(&cgroup, "(echo child); echo self").output(), "child\nself");
    });
}

#[test]
fn a_missing_controller_is_an_error_and_leaves_nothing() {
    in_view("a_missing_controller_is_an_error_and_leaves_nothing", |scratch| {
        if scratch.location("x").of(Controller::NetCls).is_some() {
            return;
        }
        let location = scratch.location("x");
        let error = create(&location, r#"{"network": {"classID": 1048577}}"#).unwrap_err();
        assert!(error.to_string().contains(r#""net_cls" is not mounted"#), "{error}");
        assert!(directories(&location).iter().all(|directory| !exists(directory)));
    });
}

#[test]
fn device_rules_hold_and_are_replaced() {
    in_view("device_rules_hold_and_are_replaced", |scratch| {
        let location = scratch.location("x");
        let json = r#"{"devices": [{"allow": false, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 5, "access": "r"},
            {"allow": true, "type": "b", "access": "m"}]}"#;
        let cgroup = create(&location, json).unwrap();
        let list = || read(directory(&location, Controller::Devices), "devices.list");
        assert_eq!(list(), "c 1:3 rwm\nc 1:5 r\nb *:* m");
        let script = "head -c1 /dev/zero >/dev/null && echo zero; \
                      head -c1 /dev/urandom >/dev/null && echo urandom";
        assert_eq!(Inmate::new(&cgroup, script).output(), "zero");
        cgroup.set(&resources(&json.replace("\"minor\": 5", "\"minor\": 9"))).unwrap();
        assert_eq!(list(), "c 1:3 rwm\nc 1:9 r\nb *:* m");
        assert_eq!(Inmate::new(&cgroup, script).output(), "urandom");
        cgroup.set(&resources(r#"{"devices": [{"allow": true, "access": "rwm"}]}"#)).unwrap();
        assert_eq!(Inmate::new(&cgroup, script).output(), "zero\nurandom");
    });
}

#[test]
fn used_cgroups_are_refused() {
    in_view("used_cgroups_are_refused", |scratch| {
        let location = scratch.location("x");
        let owner = create(&location, "{}").unwrap();
        create(&location, "{}").expect("empty is fine").keep();
        owner.freeze().unwrap();
        assert!(matches!(create(&location, "{}"), Err(Error::Frozen { .. })));
        owner.thaw().unwrap();
        let mut inmate = Inmate::idle(&owner);
        let error = create(&location, "{}").unwrap_err();
        assert!(matches!(error, Error::NotEmpty { processes: 1, .. }), "{error}");
        assert!(!inmate.is_gone());
    });
}

#[test]
fn freezing_and_signals() {
    in_view("freezing_and_signals", |scratch| {
        let location = scratch.location("x");
        let cgroup = create(&location, "{}").unwrap();
        let mut inmate = Inmate::idle(&cgroup);
        cgroup.freeze().unwrap();
        assert_eq!(cgroup.freezer_state(), Ok(FreezerState::Frozen));
        cgroup.kill_all(TERM).unwrap();
        assert!(!inmate.is_gone());
        cgroup.thaw().unwrap();
        assert_eq!(inmate.signal(), Some(TERM));
        assert_eq!(cgroup.freezer_state(), Ok(FreezerState::Thawed));

        let mut inmate = Inmate::idle(&cgroup);
        cgroup.freeze().unwrap();
        cgroup.kill_all(KILL).unwrap();
        assert_eq!(inmate.signal(), Some(KILL));
    });
}

#[test]
fn everything_below_is_removed() {
    in_view("everything_below_is_removed", |scratch| {
        let location = scratch.location("x");
        let mut cgroup = create(&location, "{}").unwrap();
        cgroup.keep();
        let mut sub = create(&location.sub(None, "one/two").unwrap(), "{}").unwrap();
        sub.keep();
        let mut inmates = [Inmate::idle(&cgroup), Inmate::idle(&sub)];
        assert_eq!(cgroup.all_pids().unwrap().len(), 2);
        cgroup.freeze().unwrap();
        Cgroup::delete(&location).unwrap();
        assert!(directories(&location).iter().all(|directory| !exists(directory)));
        assert!(inmates.iter_mut().all(|inmate| inmate.signal() == Some(KILL)));
        Cgroup::delete(&location).unwrap();
        assert!(cgroup.all_pids().unwrap_err().is_gone());
    });
}

#[test]
fn out_of_memory_is_told() {
    in_view("out_of_memory_is_told", |scratch| {
        let location = scratch.location("x");
        let json = r#"{"memory": {"limit": 8388608, "swap": 8388608}}"#;
        let mut cgroup = create(&location, json).unwrap();
        cgroup.keep();
        let mut watch = cgroup.watch_oom().unwrap();
        assert_eq!(watch.wait(Duration::ZERO), Ok(OomEvent::None));
        let mut glutton = Inmate::new(&cgroup, "exec tail /dev/zero");
        assert_eq!(watch.wait(Duration::from_secs(20)), Ok(OomEvent::Oom));
        assert_eq!(glutton.signal(), Some(KILL));
        Cgroup::delete(&location).unwrap();
        while watch.wait(Duration::from_secs(20)) == Ok(OomEvent::Oom) {}
        assert_eq!(watch.read(), Ok(OomEvent::None), "the end was told");
        assert_eq!(watch.kills(), Ok(None));
    });
}

#[test]
fn usage_is_measured() {
    in_view("usage_is_measured", |scratch| {
        let json = r#"{"memory": {"limit": 67108864}, "pids": {"limit": 9}, "cpu": {"cpus": "0"}}"#;
        let cgroup = create(&scratch.location("x"), json).unwrap();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo; exec sleep 100";
        let mut inmate = Inmate::new(&cgroup, script);
        inmate.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let stats = cgroup.stats().unwrap();
        assert!(stats.cpu.usage.total > 0);
        assert!(!stats.cpu.usage.percpu.is_empty());
        assert_eq!(stats.cpuset.cpus, [0]);
        assert!(stats.memory.usage.usage > 0);
        assert_eq!(stats.memory.usage.limit, 67108864);
        assert!(stats.memory.raw.contains_key("cache"));
        assert_eq!((stats.pids.limit, stats.pids.current > 0), (9, true));
    });
}
