//! Tests cgroup v2 on the running kernel.

mod common;

use std::ffi::CString;
use std::process::Command;

use common::{Inmate, Scratch, View, create, directories, exists, read, resources, run};
use dayfly_cgroup::devices::{self, program};
use dayfly_cgroup::{Cgroup, Error, FreezerState, Hierarchies};
use rustix::fd::AsFd;
use sys::{Errno, bpf};

const KILL: i32 = 9;
const TERM: i32 = 15;

fn in_view(name: &str, test: impl FnOnce(&Scratch)) {
    run(View::Unified, name, || test(&Scratch::new()));
}

#[test]
fn host_is_unified() {
    in_view("host_is_unified", |scratch| {
        assert!(scratch.hierarchies.is_unified());
        assert_eq!(scratch.hierarchies.unified.as_deref(), Some("/sys/fs/cgroup"));
        assert!(matches!(Hierarchies::detect_at("/proc"), Err(Error::NotMounted { .. })));
    });
}

#[test]
fn made_and_removed_with_parents() {
    in_view("made_and_removed_with_parents", |scratch| {
        let location = scratch.location("a/b");
        let directory = location.unified.as_ref().unwrap().directory();
        let above = directory.strip_suffix("/a/b").unwrap();
        let cgroup = create(&location, "{}").unwrap();
        assert!(exists(directory) && cgroup.dir_fd().is_some());
        assert!(cgroup.entrances(true).unwrap().is_empty());
        // All controllers of the root are available in the container's cgroup.
        let all = read("/sys/fs/cgroup", "cgroup.controllers");
        assert_eq!(read(directory, "cgroup.controllers"), all);
        drop(cgroup);
        assert!(!exists(above), "{above} is left");

        let mut cgroup = create(&location, "{}").unwrap();
        cgroup.keep();
        drop(cgroup);
        assert!(exists(directory));
        Cgroup::delete(&location).unwrap();
        assert!(!exists(directory) && exists(above));
        Cgroup::delete(&location).unwrap();
        assert!(matches!(Cgroup::open(&location), Err(Error::Gone { .. })));
    });
}

#[test]
fn limits_and_missing_controllers() {
    in_view("limits_and_missing_controllers", |scratch| {
        let location = scratch.location("x");
        let directory = directories(&location)[0];
        let have = read("/sys/fs/cgroup", "cgroup.controllers");
        if have.contains("hugetlb") {
            let json = r#"{"hugepageLimits": [{"pageSize": "2MB", "limit": 4194304}]}"#;
            let cgroup = create(&location, json).unwrap();
            assert_eq!(read(directory, "hugetlb.2MB.max"), "4194304");
            cgroup.set(&resources(r#"{"unified": {"hugetlb.2MB.max": "max"}}"#)).unwrap();
            assert_eq!(read(directory, "hugetlb.2MB.max"), "max");
            assert_eq!(cgroup.stats().unwrap().hugetlb["2MB"].usage, 0);
        }
        if !have.contains("memory") {
            let error = create(&location, r#"{"memory": {"limit": 4194304}}"#).unwrap_err();
            assert!(matches!(error, Error::NoController { .. }), "{error}");
            assert!(!exists(directory), "a failed start leaves nothing");
        }
    });
}

#[test]
fn used_cgroups_are_refused() {
    in_view("used_cgroups_are_refused", |scratch| {
        let location = scratch.location("x");
        let owner = create(&location, "{}").unwrap();
        create(&location, "{}").expect("empty is fine").keep();

        owner.freeze().unwrap();
        let error = create(&location, "{}").unwrap_err();
        assert!(error.to_string().starts_with("container's cgroup unexpectedly frozen"), "{error}");
        owner.thaw().unwrap();

        let mut inmate = Inmate::idle(&owner);
        let error = create(&location, "{}").unwrap_err();
        assert!(error.to_string().contains("is not empty: 1 process(es) found"), "{error}");
        assert!(!inmate.is_gone(), "the refusal hurts nobody");
        drop(owner);
        assert_eq!(inmate.signal(), Some(KILL), "a start that failed is cleared away");
        assert!(!exists(directories(&location)[0]));
    });
}

#[test]
fn freezing_and_signals() {
    in_view("freezing_and_signals", |scratch| {
        let cgroup = create(&scratch.location("x"), "{}").unwrap();
        let mut inmate = Inmate::idle(&cgroup);
        assert_eq!(cgroup.freezer_state(), Ok(FreezerState::Thawed));
        assert_eq!(cgroup.pids().unwrap(), [inmate.pid()]);
        assert_eq!(cgroup.stats().unwrap().pids.current, 1);

        cgroup.freeze().unwrap();
        assert_eq!(cgroup.freezer_state(), Ok(FreezerState::Frozen));
        cgroup.kill_all(TERM).unwrap();
        assert_eq!(cgroup.freezer_state(), Ok(FreezerState::Frozen), "paused stays paused");
        assert_eq!(inmate.signal(), Some(TERM), "v2 lets the frozen die");
        cgroup.thaw().unwrap();

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
        let mut inmates = vec![];
        for sub in ["one", "one/two", "three"] {
            let mut sub = create(&location.sub(None, sub).unwrap(), "{}").unwrap();
            sub.keep();
            inmates.push(Inmate::idle(&sub));
        }
        assert_eq!(cgroup.pids().unwrap(), []);
        assert_eq!(cgroup.all_pids().unwrap().len(), 3);
        cgroup.freeze().unwrap();
        Cgroup::delete(&location).unwrap();
        assert!(!exists(directories(&location)[0]));
        for mut inmate in inmates {
            assert_eq!(inmate.signal(), Some(KILL));
        }
        assert_eq!(cgroup.freezer_state(), Ok(FreezerState::Undefined));
        assert!(cgroup.kill_all(KILL).unwrap_err().is_gone());
        assert!(cgroup.all_pids().unwrap_err().is_gone());
    });
}

/// Returns which of two devices a process in the cgroup can open.
fn access(cgroup: &Cgroup) -> String {
    let script =
        "head -c1 /dev/zero >/dev/null && echo zero; head -c1 /dev/urandom && echo urandom";
    Inmate::new(cgroup, &script.replace("&& echo urandom", ">/dev/null && echo urandom")).output()
}

const DENY_ALL: &str = r#"{"allow": false, "access": "rwm"}"#;
const NULL: &str = r#"{"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"}"#;
const ZERO: &str = r#"{"allow": true, "type": "c", "major": 1, "minor": 5, "access": "r"}"#;
const URANDOM: &str = r#"{"allow": true, "type": "c", "major": 1, "minor": 9, "access": "r"}"#;

#[test]
fn device_rules_hold_and_are_replaced() {
    in_view("device_rules_hold_and_are_replaced", |scratch| {
        let rules = |rules: &[&str]| format!(r#"{{"devices": [{}]}}"#, rules.join(","));
        let location = scratch.location("x");
        let cgroup = create(&location, &rules(&[DENY_ALL, NULL, ZERO])).unwrap();
        assert_eq!(access(&cgroup), "zero");
        cgroup.set(&resources(&rules(&[DENY_ALL, NULL, URANDOM]))).unwrap();
        assert_eq!(access(&cgroup), "urandom", "replaced, not added");
        cgroup.set(&resources("{}")).unwrap();
        assert_eq!(access(&cgroup), "urandom", "no rules, no change");
        // This list contains an exception to a wildcard rule, which v1 does not support.
        let all = r#"{"allow": true, "type": "c", "access": "rwm"}"#;
        let not_zero = ZERO.replace("true", "false");
        cgroup.set(&resources(&rules(&[DENY_ALL, all, &not_zero]))).unwrap();
        assert_eq!(access(&cgroup), "urandom");
        cgroup.set(&resources(&rules(&[r#"{"allow": true, "access": "rwm"}"#]))).unwrap();
        assert_eq!(access(&cgroup), "zero\nurandom");
    });
}

#[test]
fn a_loaded_program_can_be_shared() {
    in_view("a_loaded_program_can_be_shared", |scratch| {
        let rules: Vec<_> = devices::default_rules(|_| false).collect();
        let rules = devices::Rule::list(&rules).unwrap();
        let program = program::load_program(&program::assemble(&rules[..3])).unwrap();
        for name in ["x", "y"] {
            let program = Some(program.as_fd());
            let cgroup =
                Cgroup::create(&scratch.location(name), &resources("{}"), program).unwrap();
            assert_eq!(access(&cgroup), "");
        }
    });
}

#[test]
fn starts_at_once_share_a_new_parent() {
    in_view("starts_at_once_share_a_new_parent", |scratch| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..50 {
                        let location = scratch.location(&format!("p/q/{thread}-{round}"));
                        drop(create(&location, "{}").unwrap());
                    }
                });
            }
        });
    });
}

#[test]
fn a_pinned_program_outlives_its_descriptor() {
    in_view("a_pinned_program_outlives_its_descriptor", |scratch| {
        let directory = std::env::temp_dir().join(format!("dayfly-test-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let mount = Command::new("mount").args(["-t", "bpf", "bpf"]).arg(&directory).status();
        assert!(mount.unwrap().success());
        let path = CString::new(format!("{}/program", directory.display())).unwrap();
        let program = program::load_program(&program::assemble(&[])).unwrap();
        bpf::pin(&path, program.as_fd()).unwrap();
        assert_eq!(bpf::pin(&path, program.as_fd()), Err(Errno::EXIST));
        drop(program);
        let program = bpf::get_pinned(&path).unwrap();
        let location = scratch.location("x");
        let cgroup = Cgroup::create(&location, &resources("{}"), Some(program.as_fd())).unwrap();
        assert_eq!(access(&cgroup), "");
        assert_eq!(bpf::query_device_programs(cgroup.dir_fd().unwrap()).unwrap().len(), 1);
        drop(program);
        Command::new("umount").arg(&directory).status().unwrap();
        std::fs::remove_dir(&directory).unwrap();
    });
}

#[test]
fn a_parent_with_processes_hands_nothing_down() {
    in_view("a_parent_with_processes_hands_nothing_down", |scratch| {
        if !read("/sys/fs/cgroup", "cgroup.controllers").contains("hugetlb") {
            return;
        }
        let parent = create(&scratch.location("x"), "{}").unwrap();
        let _inmate = Inmate::idle(&parent);
        let location = scratch.location("x/y");
        drop(create(&location, "{}").expect("without limits that does not matter"));
        let json = r#"{"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]}"#;
        let error = create(&location, json).unwrap_err();
        assert!(matches!(error, Error::NoController { .. }), "{error}");

        // If the parent is threaded, a new child has the type `domain invalid`: only limits of threaded controllers can
        // be set in the child.
        let threaded = create(&scratch.location("t"), "{}").unwrap();
        let directory = scratch.location("t").unified.unwrap().directory().to_string();
        let _inmate = Inmate::idle(&threaded);
        let child = create(&scratch.location("t/v"), "{}").unwrap();
        std::fs::write(format!("{directory}/v/cgroup.type"), "threaded").unwrap();
        let error = create(&scratch.location("t/w"), json).unwrap_err();
        assert!(matches!(error, Error::Threaded { .. }), "{error}");
        drop(create(&scratch.location("t/w"), "{}").unwrap());
        drop(child);
    });
}
