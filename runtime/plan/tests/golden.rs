//! Golden plans: the steps to which configurations of engines compile. The tests do not need root.
//!
//! `UPDATE_GOLDEN=1 cargo test -p dayfly-plan` rewrites the files; review the diff.

mod common;

use cgroup::systemd::{Instance, Unit};
use common::checked;
use dayfly_plan::{Caller, Console, FastPaths, GivenRoot, Kernel, Plan, Request, compile, labels};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

fn read(name: &str) -> Vec<u8> {
    let path = format!("{}/../spec/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn unified_host() -> cgroup::Hierarchies {
    let root = String::from(cgroup::MOUNT_ROOT);
    cgroup::Hierarchies { unified: Some(root.clone()), root, legacy: Vec::new() }
}

fn legacy_host() -> cgroup::Hierarchies {
    let hierarchy = |list: &str| cgroup::Hierarchy {
        controllers: cgroup::Controllers::from_list(list),
        mount: format!("/sys/fs/cgroup/{list}"),
    };
    let legacy = ["cpu,cpuacct", "memory", "devices", "pids"].map(hierarchy).into();
    cgroup::Hierarchies { root: cgroup::MOUNT_ROOT.into(), unified: None, legacy }
}

fn compile_for(name: &str, host: &cgroup::Hierarchies, wait_for_start: bool) -> Plan {
    let location = cgroup::Location::resolve(host, Some("/golden"), "golden").unwrap();
    compile_at(&read(name), location, wait_for_start)
}

fn compile_text(text: &[u8], host: &cgroup::Hierarchies, wait_for_start: bool) -> Plan {
    let location = cgroup::Location::resolve(host, Some("/golden"), "golden").unwrap();
    compile_at(text, location, wait_for_start)
}

fn compile_at(text: &[u8], location: cgroup::Location, wait_for_start: bool) -> Plan {
    compile_by(Caller::default(), text, location, wait_for_start, None)
}

fn compile_by(
    caller: Caller,
    text: &[u8],
    location: cgroup::Location,
    wait_for_start: bool,
    rootfs: Option<GivenRoot<'_>>,
) -> Plan {
    let spec = spec::Spec::parse(text).unwrap();
    spec::validate(&spec).unwrap();
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let kernel = Kernel {
        version: (6, 18),
        seccomp: seccomp::Support::default(),
        fast_paths: FastPaths::all(),
    };
    let request = Request {
        rootfs,
        wait_for_start,
        console: terminal.then_some(Console::Given),
        cgroup: Some(location),
        rootless: caller.is_rootless(),
        caller,
        blank: true,
        ..Request::new("golden", "/bundle", kernel)
    };
    checked(compile(&spec, &request).unwrap())
}

/// A root filesystem from layers changes only the parent's steps for its tree.
#[test]
fn layers_with_ids_of_their_own() {
    let location = cgroup::Location::resolve(&unified_host(), Some("/golden"), "golden").unwrap();
    let whole = |mode| {
        let recipe = rootfs::Recipe {
            mode,
            layers: rootfs::Layers::of_store("/layers/a\n/layers/b\n").unwrap(),
            upper: rootfs::Upper::Directory,
            directory: c"/store/containers/golden".into(),
            root: Some((100_000, 100_000)),
            volatile: true,
            label: None,
            user_xattr: false,
            foreign: None,
            files: Vec::new(),
        };
        let root = GivenRoot::layered(&recipe, "/");
        print(&compile_by(
            Caller::default(),
            &read("podman-userns"),
            location.clone(),
            true,
            Some(root),
        ))
    };
    let directory = print(&compile_for("podman-userns", &unified_host(), true));
    let root = "/var/lib/containers/storage/overlay/layer/merged";
    let steps = |mode, steps: &[&str]| {
        let lines: String =
            steps.iter().map(|step| format!("parent mounts         {step}\n")).collect();
        let tree = format!("parent mounts         clone tree {root}\n");
        let expected = directory.replace(&tree, &lines);
        let expected = expected.replace(&format!("attach root {root}"), "attach root /");
        assert_eq!(whole(mode), expected);
    };
    let maps = "make user namespace 0 100000 65536";
    let map = "map layers idmap";
    let by_descriptor = [maps, map, "open layers", "make upper", "assemble rootfs"];
    steps(rootfs::Mode::Fd, &by_descriptor);
    steps(rootfs::Mode::Path, &by_descriptor);
    let attached = [maps, map, "make upper", "assemble rootfs", "detach layers"];
    steps(rootfs::Mode::Parent, &attached);
    steps(rootfs::Mode::PerLayer, &attached);
    steps(rootfs::Mode::Copy, &["copy layers"]);
}

fn print(plan: &Plan) -> String {
    let (parent, init) = labels(plan);
    let mut text = String::new();
    for (actor, steps) in [("parent", parent), ("init", init)] {
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
    assert!(
        text == expected,
        "{} differs (UPDATE_GOLDEN=1 writes it anew; read the difference first):\n{}",
        path.display(),
        difference(&expected, &text)
    );
}

/// Returns the lines that were removed and added, with `-` and `+`.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // The length of the longest common subsequence of the lines from `a` and from `b` on.
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            common[a][b] = match old[a] == new[b] {
                true => common[a + 1][b + 1] + 1,
                false => common[a + 1][b].max(common[a][b + 1]),
            };
        }
    }
    let (mut a, mut b) = (0, 0);
    let mut text = String::new();
    while a < old.len() || b < new.len() {
        if a < old.len() && b < new.len() && old[a] == new[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == new.len() || (a < old.len() && common[a + 1][b] >= common[a][b + 1]) {
            writeln!(text, "-{}", old[a]).unwrap();
            a += 1;
        } else {
            writeln!(text, "+{}", new[b]).unwrap();
            b += 1;
        }
    }
    text
}

/// A message of init names its step by a number of 16 bits.
#[test]
fn a_plan_with_too_many_steps_is_refused() {
    let config = |count: usize| {
        let masked: Vec<String> = (0..count).map(|n| format!("/masked/{n}")).collect();
        json!({ "ociVersion": "1.2.0", "root": { "path": "rootfs" },
            "process": { "cwd": "/", "args": ["true"], "user": { "uid": 0, "gid": 0 } },
            "linux": { "namespaces": [{ "type": "mount" }, { "type": "pid" }], "maskedPaths": masked } })
        .to_string()
    };
    let compiled = |count| {
        let text = config(count);
        let spec = spec::Spec::parse(text.as_bytes()).unwrap();
        let kernel = Kernel {
            version: (6, 18),
            seccomp: seccomp::Support::default(),
            fast_paths: FastPaths::all(),
        };
        compile(&spec, &Request::new("golden", "/bundle", kernel)).map(|plan| plan.init.len())
    };
    let error = compiled(66_000).unwrap_err().to_string();
    assert!(error.contains("steps in the container or more; 65534 are possible"), "{error}");
}

#[test]
fn a_difference_has_only_the_lines_that_differ() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\nc\nd\n"), "-b\n+x\n+d\n");
    assert_eq!(difference("", "a\n"), "+a\n");
    assert_eq!(difference("a\n", "a\n"), "");
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

/// A systemd scope adds one step, and on cgroup v2 another, and leaves all others unchanged.
#[test]
fn podman_in_a_scope() {
    for host in [unified_host(), legacy_host()] {
        let unit = Unit::parse(Some("machine.slice:libpod:golden"), "golden", Instance::System);
        let location = cgroup::Location::of_unit(&host, unit.unwrap());
        let plan = compile_at(&read("podman"), location, true);
        let text = print(&plan);
        let (before, after) = text.split_once("parent cgroups        release scope\n").unwrap();
        assert!(before.lines().last().unwrap().starts_with("parent bootstrap      clone"));
        let awaited = after.replace("parent cgroups        await scope accepted\n", "");
        assert_eq!(awaited != after, host.is_unified());
        let paths =
            [before, &awaited].concat().replace("/machine.slice/libpod-golden.scope", "/golden");
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

/// For a caller without root, init (not the parent) clones the mounts, and the id mapping is written before parent and
/// init become undumpable.
#[test]
fn a_user_without_privileges() {
    let caller = Caller { uid: 1000, gid: 100, ..Caller::default() };
    let text = spec::rootless_template(true, 1000, 100).to_json().unwrap();
    let location = cgroup::Location::resolve(&unified_host(), Some("/golden"), "golden").unwrap();
    check("rootless-v2", &compile_by(caller, text.as_bytes(), location, true, None));
}

#[test]
fn run_does_not_wait_for_start() {
    check("runc-spec-run-v2", &compile_for("runc-spec", &unified_host(), false));
}

#[test]
fn equal_mappings_share_a_user_namespace() {
    let map = |host| json!([{ "containerID": 0, "hostID": host, "size": 10 }]);
    let mount = |host: u32, options: &[&str]| {
        json!({
            "destination": "/a", "source": "/b", "options": options,
            "uidMappings": map(host), "gidMappings": map(host),
        })
    };
    let plan = patched(|config| {
        let mounts = config["mounts"].as_array_mut().unwrap();
        mounts.extend([
            mount(5, &["bind", "ro"]),
            mount(6, &["rbind", "ridmap"]),
            mount(5, &["bind"]),
        ]);
    });
    let steps = print(&plan);
    assert_eq!(steps.matches("make user namespace 0 5 10\n").count(), 1, "{steps}");
    assert_eq!(steps.matches("make user namespace 0 6 10\n").count(), 1, "{steps}");
    for tree in ["/b (ro,idmap)\n", "/b (ridmap)\n", "/b (idmap)\n"] {
        assert_eq!(steps.matches(tree).count(), 1, "{steps}");
    }
}

/// Init is created in its network namespace, and network devices are moved to that namespace before init continues.
#[test]
fn net_devices_are_there_before_init_goes_on() {
    let plan = patched(|config| {
        config["linux"]["netDevices"] = json!({ "eth1": {}, "eth0": { "name": "web0" } });
    });
    let steps = print(&plan);
    let place = |step: &str| steps.find(step).unwrap_or_else(|| panic!("no {step}:\n{steps}"));
    assert!(place(" clone ") < place("move network devices eth0, eth1\n"));
    assert!(place("move network devices") < place(" admit\n"));
    assert!(place("await admission") < place("write sysctl"));
    assert!(!steps.contains("make network\n") && !steps.contains("join network\n"), "{steps}");
}

/// Returns a plan for Podman's configuration with a change.
fn patched(change: impl FnOnce(&mut serde_json::Value)) -> Plan {
    let mut config = serde_json::from_slice(&read("podman")).unwrap();
    change(&mut config);
    compile_text(config.to_string().as_bytes(), &unified_host(), true)
}

/// For every engine's usual configuration, the plan has one clone, and the filter is loaded right
/// before exec.
#[test]
fn what_every_plan_has() {
    use dayfly_plan::step::{InitStep, ParentStep};
    for name in ["podman", "docker", "containerd", "podman-userns", "runc-spec"] {
        let plan = compile_for(name, &unified_host(), true);
        let clones = plan
            .parent
            .iter()
            .filter(|step| matches!(step, ParentStep::Clone { intermediate: None, .. }));
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
