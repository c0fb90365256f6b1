//! Tests the positions of steps for rarely used properties, and checks that plans without these
//! properties have no such steps.

mod common;

use common::checked;
use dayfly_plan::step::{InitStep, Memory, ParentStep};
use dayfly_plan::{ExecRequest, FastPaths, Kernel, Plan, Request};
use spec::{Process, Spec};
use sys::clone::CloneFlags;

/// Returns a plan for a container with these properties of `process` and `linux`.
fn plan(process: &str, linux: &str) -> Plan {
    let text = format!(
        r#"{{"ociVersion": "1.3.0", "root": {{"path": "rootfs"}},
            "process": {{"cwd": "/", "args": ["true"] {process}}},
            "mounts": [{{"destination": "/tmp", "type": "tmpfs", "options": ["size=1m"]}},
                {{"destination": "/proc", "type": "proc"}}],
            "linux": {{"maskedPaths": ["/proc/acpi"], "namespaces": [{{"type": "mount"}},
                {{"type": "pid"}}, {{"type": "network"}} {linux}}}}}"#
    );
    let spec = Spec::parse(&text).unwrap();
    plan_on((6, 18), &spec)
}

fn plan_on(version: (u32, u32), spec: &Spec<'_>) -> Plan {
    spec::validate(spec).unwrap();
    let kernel =
        Kernel { version, seccomp: seccomp::Support::default(), fast_paths: FastPaths::all() };
    let request =
        Request { wait_for_start: true, blank: true, ..Request::new("test", "/bundle", kernel) };
    checked(dayfly_plan::compile(spec, &request).unwrap())
}

/// Returns a plan for this kernel and a container whose mounts include a sysfs and, as the last one, `last`.
fn mounts_on(version: (u32, u32), last: &str) -> Plan {
    let text = format!(
        r#"{{"ociVersion": "1.3.0", "root": {{"path": "rootfs"}},
            "process": {{"cwd": "/", "args": ["true"]}},
            "mounts": [{{"destination": "/proc", "type": "proc"}},
                {{"destination": "/sys", "type": "sysfs"}},
                {{"destination": "/dev", "type": "tmpfs"}}, {last}],
            "linux": {{"maskedPaths": ["/proc/acpi"], "namespaces": [{{"type": "mount"}},
                {{"type": "pid"}}, {{"type": "network"}}]}}}}"#
    );
    plan_on(version, &Spec::parse(&text).unwrap())
}

fn exec(process: &str, namespaces: CloneFlags) -> Plan {
    let text = format!(r#"{{"cwd": "/", "args": ["true"] {process}}}"#);
    let request = ExecRequest::new("test", 1, namespaces);
    checked(dayfly_plan::compile_exec(&Process::parse(&text).unwrap(), request).unwrap())
}

/// Returns the names of the steps, the parent's before init's.
fn names(plan: &Plan) -> Vec<String> {
    let (host, init) = dayfly_plan::labels(plan);
    let name = |label: trace::Label<'_>| format!("{} {}", label.name, label.object).trim().into();
    host.into_iter().chain(init).map(name).collect()
}

/// Asserts that the plan has these steps, in this order.
#[track_caller]
fn in_order(plan: &Plan, wanted: &[&str]) {
    let names = names(plan);
    let mut rest = names.iter();
    for name in wanted {
        assert!(rest.any(|found| found == name), "{name:?} is not in place: {names:#?}");
    }
}

#[test]
fn the_scheduler_comes_before_the_user() {
    let plan = plan(
        r#", "scheduler": {"policy": "SCHED_FIFO", "priority": 9},
            "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 6}"#,
        r#"], "personality": {"domain": "LINUX32"},
            "memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0-1", "flags": ["MPOL_F_STATIC_NODES"]}"#,
    );
    in_order(
        &plan,
        &[
            "set scheduler SCHED_FIFO",
            "set io priority IOPRIO_CLASS_BE 6",
            "set personality LINUX32",
            "set memory policy MPOL_BIND 0-1",
            "change user 0:0",
            "await start",
        ],
    );
    assert!(plan.init.iter().any(|step| {
        matches!(step, InitStep::SetMemoryPolicy { mode, .. } if *mode == 2 | 1 << 15)
    }));
}

#[test]
fn affinity_is_around_the_way_into_the_cgroup() {
    let affinity = r#", "execCPUAffinity": {"initial": "0", "final": "1,3"}"#;
    let own = names(&plan(affinity, "]"));
    assert!(!own.iter().any(|name| name.contains("cpus")), "{own:#?}");
    let exec = exec(affinity, CloneFlags::empty());
    in_order(&exec, &["run on cpus 0", "clone", "join cgroups", "run on cpus 1,3", "exec true"]);
}

#[test]
fn what_may_be_little_memory_is_not_shared() {
    let shares = |limit: &str| {
        let unified = format!(r#"], "resources": {{"unified": {{"memory.max": "{limit}"}}}}"#);
        let plan = plan("", &unified);
        plan.parent
            .iter()
            .any(|step| matches!(step, ParentStep::Clone { memory: Memory::Shared, .. }))
    };
    for limit in ["max", "1073741824", " 1073741824"] {
        assert!(shares(limit), "{limit:?}");
    }
    for limit in ["1048576", "1M", "0x100000", ""] {
        assert!(!shares(limit), "{limit:?}");
    }
}

#[test]
fn a_time_namespace_takes_memory_of_its_own() {
    let plan = plan("", r#", {"type": "time"}], "timeOffsets": {"boottime": {"secs": 7}}"#);
    in_order(&plan, &["clone pid net time"]);
    assert!(!plan.parent.iter().any(|step| matches!(step, ParentStep::MakeNetwork)));
    assert!(plan.parent.iter().any(|step| {
        matches!(step, ParentStep::Clone { memory: Memory::Copied, time: Some(_), .. })
    }));
    let joined = self::plan("", r#", {"type": "time", "path": "/t"}]"#);
    in_order(&joined, &["open namespace time /t", "clone pid net time"]);
    let exec = exec("", CloneFlags::NEWTIME | CloneFlags::NEWUTS);
    in_order(&exec, &["clone time", "join namespaces uts"]);
}

#[test]
fn labels_are_asked_for_first_and_set_last() {
    let process = r#", "apparmorProfile": "tight", "selinuxLabel": "a:b:c:s0""#;
    let plan = plan(process, r#"], "mountLabel": "u:r:t:s0:c1,c2""#);
    in_order(
        &plan,
        &[
            "require module AppArmor",
            "require module SELinux",
            "label keyring a:b:c:s0",
            "join keyring _ses.test",
            "label keyring",
            "mount tmpfs on /tmp (size=1m,context=u:r:t:s0:c1,c2)",
            "mount proc on /proc",
            "change user 0:0",
            "apply apparmor profile tight",
            "label process a:b:c:s0",
            "find program true",
        ],
    );
    let masked = plan.init.iter().any(|step| {
        matches!(step, InitStep::MaskPath { context: Some(label), .. } if label.to_bytes() == b"u:r:t:s0:c1,c2")
    });
    assert!(masked);
    in_order(
        &exec(process, CloneFlags::empty()),
        &["require module AppArmor", "label keyring a:b:c:s0", "apply apparmor profile tight"],
    );
}

#[test]
fn unconfined_asks_for_nothing() {
    let names = names(&plan(r#", "apparmorProfile": "unconfined""#, "]"));
    assert!(!names.iter().any(|name| name.contains("module") || name.contains("apparmor")));
}

#[test]
fn a_sysfs_waits_last_where_nobody_sees_it() {
    let last = r#"{"destination": "/tmp", "type": "tmpfs"}"#;
    let mounts = ["mount proc on /proc", "mount tmpfs on /dev", "mount tmpfs on /tmp"];
    let plan = mounts_on((6, 8), last);
    in_order(&plan, &[&mounts[..], &["join network", "mount sysfs on /sys"]].concat());
    let plan = mounts_on((6, 7), last);
    let wanted = [
        "mount proc on /proc",
        "join network",
        "mount sysfs on /sys",
        "mount tmpfs on /dev",
        "mount tmpfs on /tmp",
        "make devices /dev null zero full tty random urandom",
        "mask /proc/acpi",
    ];
    in_order(&plan, &wanted);
    assert_eq!(names(&plan).iter().filter(|name| *name == "join network").count(), 1);
}

/// Before Linux 6.15 a single node of a detached file system cannot be copied, so the host's nodes
/// are bind-mounted.
#[test]
fn nodes_of_a_user_namespace_are_its_own_where_they_can_be() {
    let steps = |version, namespace: &str| {
        let text = format!(
            r#"{{"ociVersion": "1.3.0", "root": {{"path": "rootfs"}},
                "process": {{"cwd": "/", "args": ["true"]}},
                "linux": {{"maskedPaths": ["/proc/acpi"],
                    "namespaces": [{{"type": "mount"}}, {{"type": "pid"}} {namespace}]}}}}"#
        );
        let names = names(&plan_on(version, &Spec::parse(&text).unwrap()));
        ["make nodes", "clone device", "make devices"]
            .map(|step| names.iter().filter(|name| name.starts_with(step)).count())
    };
    let new = r#", {"type": "user"}"#;
    let joined = r#", {"type": "user", "path": "/proc/1/ns/user"}"#;
    for namespace in [new, joined] {
        for version in [(5, 12), (6, 1), (6, 14)] {
            assert_eq!(steps(version, namespace), [0, 7, 0], "{version:?} {namespace}");
        }
        for version in [(6, 15), (7, 0)] {
            assert_eq!(steps(version, namespace), [1, 0, 0], "{version:?} {namespace}");
        }
    }
    // Without a user namespace, init creates the nodes on any kernel.
    for version in [(5, 12), (6, 15)] {
        assert_eq!(steps(version, ""), [0, 1, 1], "{version:?}");
    }
}
