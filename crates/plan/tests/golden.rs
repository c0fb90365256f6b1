//! Golden plans: what the configurations of engines compile to, step by step. Needs no root.
//!
//! `UPDATE_GOLDEN=1 cargo test -p dayfly-plan` writes the files anew; the diff then belongs into the
//! review.

use dayfly_plan::{Console, Kernel, Plan, Request, Techniques, compile, labels};
use std::fmt::Write;
use std::path::PathBuf;

fn read(name: &str) -> Vec<u8> {
    let path = format!("{}/../spec/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn unified_host() -> cgroup::Host {
    let root = String::from(cgroup::MOUNT_ROOT);
    cgroup::Host { unified: Some(root.clone()), root, legacy: Vec::new() }
}

fn legacy_host() -> cgroup::Host {
    let hierarchy = |list: &str| cgroup::Hierarchy {
        controllers: cgroup::Controllers::from_list(list),
        mount: format!("/sys/fs/cgroup/{list}"),
    };
    let legacy = ["cpu,cpuacct", "memory", "devices", "pids"].map(hierarchy).into();
    cgroup::Host { root: cgroup::MOUNT_ROOT.into(), unified: None, legacy }
}

fn compile_for(name: &str, host: &cgroup::Host, wait_for_start: bool) -> Plan {
    let location = cgroup::Location::resolve(host, Some("/golden"), "golden").unwrap();
    compile_at(name, location, wait_for_start)
}

fn compile_at(name: &str, location: cgroup::Location, wait_for_start: bool) -> Plan {
    let text = read(name);
    let spec = spec::Spec::parse(&text).unwrap();
    spec::validate(&spec).unwrap();
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let request = Request {
        id: "golden",
        bundle: "/bundle",
        wait_for_start,
        attended: false,
        no_pivot: false,
        no_new_keyring: false,
        preserve_fds: 0,
        console: terminal.then_some(Console::Given),
        extra_env: Vec::new(),
        cgroup: Some(location),
        filter: None,
        template: true,
        kernel: Kernel {
            version: (6, 18),
            seccomp: seccomp::Support::default(),
            techniques: Techniques::all(),
        },
    };
    compile(&spec, &request).unwrap()
}

fn print(plan: &Plan) -> String {
    let (host, init) = labels(plan);
    let mut text = String::new();
    for (actor, steps) in [("host", host), ("init", init)] {
        for step in steps {
            let line = format!("{actor} {:<14} {} {}", step.phase, step.name, step.object);
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
    }
    text
}

fn check(golden: &str, plan: &Plan) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{golden}.txt"));
    let text = print(plan);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} differs; the plan is now:\n{text}", path.display());
}

#[test]
fn engines_on_v2() {
    for name in ["podman", "docker", "containerd"] {
        check(&format!("{name}-v2"), &compile_for(name, &unified_host(), true));
    }
}

#[test]
fn podman_on_v1() {
    check("podman-v1", &compile_for("podman", &legacy_host(), true));
}

/// A scope of systemd takes one step more, and no other way.
#[test]
fn podman_in_a_scope() {
    for host in [unified_host(), legacy_host()] {
        let unit =
            cgroup::systemd::Unit::parse(Some("machine.slice:libpod:golden"), "golden", None);
        let location = cgroup::Location::of_unit(&host, unit.unwrap());
        let plan = compile_at("podman", location, true);
        let text = print(&plan);
        let (before, after) = text.split_once("host cgroups        release scope\n").unwrap();
        assert!(before.lines().last().unwrap().starts_with("host bootstrap      clone"));
        let paths =
            [before, after].concat().replace("/machine.slice/libpod-golden.scope", "/golden");
        assert_eq!(paths, print(&compile_for("podman", &host, true)));
        let Some(dayfly_plan::CgroupPlan::Scope { properties, .. }) = plan.cgroup else {
            panic!("no scope: {:?}", plan.cgroup)
        };
        assert_eq!(properties, []);
    }
}

#[test]
fn a_user_namespace_binds_its_devices() {
    check("podman-userns-v2", &compile_for("podman-userns", &unified_host(), true));
}

#[test]
fn run_does_not_wait_for_start() {
    check("runc-spec-run-v2", &compile_for("runc-spec", &unified_host(), false));
}

/// The common case is one clone, whatever the engine, and the filter is loaded right before exec.
#[test]
fn what_every_plan_has() {
    use dayfly_plan::step::{HostStep, InitStep};
    for name in ["podman", "docker", "containerd", "podman-userns", "runc-spec"] {
        let plan = compile_for(name, &unified_host(), true);
        let clones =
            plan.host.iter().filter(|step| matches!(step, HostStep::Clone { relay: None, .. }));
        assert_eq!(clones.count(), 1, "{name}");
        assert!(matches!(plan.init.last(), Some(InitStep::Exec { .. })), "{name}");
        let place = |wanted: fn(&InitStep) -> bool| plan.init.iter().position(wanted);
        let start = place(|step| matches!(step, InitStep::AwaitStart)).unwrap();
        let user = place(|step| matches!(step, InitStep::ChangeUser { .. })).unwrap();
        let bounding = place(|step| matches!(step, InitStep::LimitCapabilities { .. })).unwrap();
        assert!(bounding < user && user < start, "{name}");
        if let Some(filter) = place(|step| matches!(step, InitStep::LoadSeccomp { .. })) {
            assert!(filter > start, "{name}: nothing but capset and exec under the filter");
        }
    }
}
