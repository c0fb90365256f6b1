//! `dayfly cgroup apply` and the other commands on plans: they make all groups of a plan, or none.

use crate::cgtool::{Own, V1, cgroup, pid_of, tool};
use crate::cgtool_cpus::allowed;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Running;
use dayfly_tests::view::View;
use std::fs;

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(planned).on(V1).needs(tool),
    case!(planned_wrongly).on(V1).needs(tool),
    case!(parents).on(V1).needs(tool),
    case!(no_plans).needs(tool),
    case!(nothing_is_said_twice).on(V1).needs(tool),
    case!(applied_again_in_the_kernels_words).on(V1).needs(tool),
    case!(rolled_back).on(V1).needs(tool),
    case!(interrupted).needs(tool),
    case!(killed_and_applied_again).needs(tool),
    case!(snapshot_is_a_plan).on(V1).needs(tool),
    case!(four_groups_of_seed_002).on(V1).needs(tool),
    case!(values_plans_and_exchange_on_v2).on(&[View::V2]).needs(controllers),
    case!(at_each_boot).needs(tool),
    case!(kept_as_it_can_be_read).needs(tool),
];

/// Checks that cgroup v2 has the controllers; on other hosts they belong to v1.
fn controllers() -> Result<(), String> {
    tool()?;
    let all = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match ["cpuset", "cpu", "memory", "io", "pids"].iter().find(|name| !all.contains(**name)) {
        None => Ok(()),
        Some(name) => Err(format!("cgroup v2 has no {name} here")),
    }
}

/// Writes a plan and returns its path.
fn plan(bed: &Bed, name: &str, text: &str) -> String {
    let path = bed.dir.join(name);
    fs::write(&path, text).expect("write");
    path.to_str().expect("path").to_owned()
}

fn planned(bed: &Bed) {
    let own = Own::new(bed);
    let group = &own.name;
    let text = format!(
        "[template.small]\nmemory.max = \"64M\"\n[group.\"{group}/db\"]\ntemplate = \"small\"\n\
         pin = \"cpus:0\"\ncpu.weight = 59\npids.max = 30\ntask = \"daemon:bin\"\n\
         [group.web]\nparent = \"{group}\"\ncontrollers = [\"cpu\", \"memory\"]\ncpu.shares = 300\n"
    );
    let file = plan(bed, "plan.toml", &text);
    let shown = cgroup(bed, &["apply", "--dry-run", &file]).ok().stdout;
    assert!(shown.contains("  + memory.limit_in_bytes = 67108864\n"), "{shown}");
    assert!(!own.directory("memory", "").exists());
    cgroup(bed, &["diff", &file]).exits(1);
    assert_eq!(cgroup(bed, &["apply", &file]).ok().stdout, shown);
    assert_eq!(own.read("cpuset", "db", "cpuset.cpus"), "0");
    assert_eq!(own.read("cpu", "db", "cpu.shares"), "521", "the most that is a weight of 59");
    assert_eq!(own.read("cpu", "web", "cpu.shares"), "300");
    assert!(!own.directory("pids", "web").exists());
    assert_eq!(cgroup(bed, &["apply", &file]).ok().stdout, "", "applied twice");
    cgroup(bed, &["diff", &file]).exits(0);
    cgroup(bed, &["set", "-r", "pids.max=5", &own.child("db")]).ok();
    let shown = cgroup(bed, &["diff", &file]).exits(1).stdout;
    assert_eq!(shown, format!("{group}/db\n  - pids.max = 5\n  + pids.max = 30\n"));
    cgroup(bed, &["apply", &file]).ok();
    cgroup(bed, &["rm", "--plan", &file]).ok();
    assert!(!own.directory("memory", "db").exists());
}

/// A parent that is not in the plan must exist on the host. With `make_parent`, a missing parent is made.
fn parents(bed: &Bed) {
    let own = Own::new(bed);
    let child = own.child("made");
    let text = format!("[group.x]\nparent = \"{child}\"\npids.max = 7\n");
    let file = plan(bed, "plan.toml", &text);
    for verb in ["apply", "diff"] {
        cgroup(bed, &[verb, &file]).fails_without_log("plan.toml:2: the parent ");
    }
    assert!(!own.directory("pids", "").exists());
    let making = plan(bed, "making.toml", &format!("{text}make_parent = true\n"));
    cgroup(bed, &["apply", &making]).ok();
    assert_eq!(own.read("pids", "made/x", "pids.max"), "7");
    cgroup(bed, &["rm", &own.child("made/x")]).ok();
    cgroup(bed, &["apply", &file]).ok();
    assert_eq!(own.read("pids", "made/x", "pids.max"), "7");
    let near = plan(bed, "near.toml", &text.replace(&child, &own.child("maed")));
    cgroup(bed, &["apply", &near]).fails_without_log(&format!("did you mean {child}?"));
    assert!(!own.directory("pids", "maed").exists());
}

fn planned_wrongly(bed: &Bed) {
    let own = Own::new(bed);
    let group = &own.name;
    let head = format!("[group.\"{group}\"]\npids.max = 9\n");
    for (rest, says) in [
        ("cpuset.cpus = \"0-4000\"\n", "plan.toml:3: cpuset.cpus: CPUs "),
        ("cpuset.cpus = \"zero\"\n", "plan.toml:3: cpuset.cpus: \"zero\" is not a list such as"),
        ("memory.limit_in_byte = 3\n", "plan.toml:3: no controller has a file"),
        ("memory.max = \"64Q\"\n", "plan.toml:3: memory.max: \"64Q\" is not a size"),
        ("task = \"nobody-of-that-name\"\n", "plan.toml:3: there is no user"),
        (
            "controllers = [\"pids\"]\nmemory.max = 1\n",
            "plan.toml:4: memory.max: the group is not in",
        ),
        ("parent = \"x\"\n[group.x]\nparent = \"x\"\n", "in a circle"),
        (
            "[group.w]\nparent = \"no-such-group-anywhere\"\n",
            "plan.toml:4: the parent \"no-such-group-anywhere\" is neither a group of the cgroup plan nor one of this host",
        ),
        (
            "[group.first]\npids.max = 8\n[group.w]\nparent = \"frist\"\n[group.v]\nparent = \"frist\"\n",
            "plan.toml:6: the parent \"frist\" is neither a group of the cgroup plan nor one of this host; did you mean first?",
        ),
        ("make_parent = 1\n", "plan.toml:3: make_parent is true or false"),
        ("memory.high = 5\n", "plan.toml:3: cgroup v1 has no memory.high"),
    ] {
        let file = plan(bed, "plan.toml", &format!("{head}{rest}"));
        cgroup(bed, &["apply", &file]).fails_without_log(says);
        assert!(!own.directory("pids", "").exists(), "{rest}: nothing is made");
    }
    // The limit is below the present usage.
    cgroup(bed, &["create", group]).ok();
    let hungry = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 60";
    let running = bed.call_bare(&["cgroup", "exec", "-g", group, "sh", "-c", hungry]).spawn();
    let used = || own.read("memory", "", "memory.usage_in_bytes").parse::<u64>().expect("number");
    dayfly_tests::wait::until_true("memory in use", || used() > 20_000_000);
    let file = plan(bed, "plan.toml", &format!("{head}memory.max = \"1M\"\n"));
    cgroup(bed, &["apply", &file])
        .fails_without_log("plan.toml:3: memory.max: the limit of 1048576 bytes is below");
    assert_eq!(own.read("pids", "", "pids.max"), "max");
    cgroup(bed, &["kill", group]).ok();
    let _ = running.wait();
}

/// Files that are not plans are rejected.
fn no_plans(bed: &Bed) {
    for (name, content, says) in [
        (
            "garbage.toml",
            &b"[group.a]\n\xff\xfe\x00\x01"[..],
            "garbage.toml:2: a byte that is no UTF-8",
        ),
        ("garbage.conf", b"group a {\n cpu { cpu.shares = \"\xff\"; } }", "garbage.conf:2: a byte"),
        (
            "circle.toml",
            b"include = [\"circle.toml\"]\n",
            "circle.toml:1: files include each other",
        ),
        ("gone.toml", b"\ninclude = [\"none.toml\"]\n", "gone.toml:2: open "),
        ("deep.toml", &[b"x = ", vec![b'['; 100_000].as_slice()].concat(), "deep.toml:1: "),
        ("long.toml", &vec![b'#'; (1 << 20) + 1], "is longer than 1048576 bytes"),
    ] {
        let path = bed.dir.join(name);
        fs::write(&path, content).expect("write");
        cgroup(bed, &["apply", path.to_str().expect("path")]).fails_without_log(says);
    }
    cgroup(bed, &["diff", "/dev/zero"]).fails_without_log("that is not a cgroup plan");
    cgroup(bed, &["diff", "/dev"]).fails_without_log("read /dev: is a directory");
    let chain = (0..100).map(|n| format!("[template.t{n}]\ntemplate = \"t{}\"\n", n + 1));
    let chain = format!("{}[group.a]\ntemplate = \"t0\"\n", chain.collect::<String>());
    let file = plan(bed, "chain.toml", &chain);
    cgroup(bed, &["diff", &file]).fails_without_log("more than 64 templates build on each other");
    assert_eq!(cgroup(bed, &["apply", &plan(bed, "empty.toml", "")]).ok().stdout, "");
}

/// Two values for the same file or line are rejected, because one of them would overwrite the other whenever the plan
/// is applied.
fn nothing_is_said_twice(bed: &Bed) {
    let own = Own::new(bed);
    let group = &own.name;
    for (name, text, says) in [
        (
            "a.toml",
            format!("[group.\"{group}\"]\nmemory.max = 8192\nmemory.limit_in_bytes = 4096\n"),
            "a.toml:3: memory.limit_in_bytes: line 2 has set that already, by memory.max",
        ),
        (
            "b.toml",
            format!("[group.\"{group}\"]\ncpu.max = \"2000 9000\"\ncpu.cfs_quota_us = 3000\n"),
            "b.toml:3: cpu.cfs_quota_us: line 2",
        ),
        (
            "c.conf",
            format!("group {group} {{\n cpu {{ cpu.shares = 100;\n cpu.shares = 200; }}\n}}\n"),
            "c.conf:3: cpu.shares: line 2",
        ),
        (
            "d.toml",
            format!("[group.\"{group}\"]\nio.max = [\"254:0 rbps=5\", \"254:0 rbps=6\"]\n"),
            "d.toml:2: io.max: line 2",
        ),
    ] {
        cgroup(bed, &["apply", &plan(bed, name, &text)]).fails_without_log(says);
        assert!(!own.directory("cpu", "").exists());
    }
    // An explicit cpuset overrides the pin. v1's limit of memory and swap together is computed from `memory.swap.max`
    // and the memory limit, whichever comes first in the plan.
    let text = format!(
        "[group.\"{group}\"]\npin = \"cpus:0\"\ncpuset.cpus = \"0-1\"\nmemory.swap.max = \"1M\"\n\
         memory.max = \"64M\"\ncpu.cfs_period_us = 50000\ncpu.cfs_quota_us = 20000\n\
         io.max = [\"254:0 rbps=5000\", \"254:0 wbps=6000\"]\n"
    );
    let file = plan(bed, "all.toml", &text);
    cgroup(bed, &["apply", &file]).ok();
    assert_eq!(own.read("cpuset", "", "cpuset.cpus"), "0-1");
    assert_eq!(own.read("memory", "", "memory.memsw.limit_in_bytes"), "68157440");
    assert_eq!(cgroup(bed, &["apply", &file]).ok().stdout, "");
}

/// The kernel prints many values in a form that differs from the written one. A difference of form must not count as a
/// difference between an applied plan and the host.
fn applied_again_in_the_kernels_words(bed: &Bed) {
    let own = Own::new(bed);
    let text = format!(
        "group {} {{\n devices {{ devices.deny = \"a *:* rwm\"; devices.allow = \"c 1:3 mr\";\n\
         devices.allow = \"c 1:5 rwm\"; }}\n\
         memory {{ memory.oom_control = 1; memory.swappiness = 010; memory.limit_in_bytes = 64m; }}\n\
         cpu {{ cpu.shares = 1; cpu.cfs_quota_us = -5; }}\n\
         cpuset {{ cpuset.cpus = 0,1; cpuset.mems = 0; }}\n}}\n",
        own.name
    );
    let file = plan(bed, "words.conf", &text);
    cgroup(bed, &["apply", &file]).ok();
    assert_eq!(own.read("devices", "", "devices.list"), "c 1:3 rm\nc 1:5 rwm");
    assert_eq!(cgroup(bed, &["diff", &file]).exits(0).stdout, "");
    // Rules for devices are restored as well.
    let text = format!(
        "group {} {{\n devices {{ devices.deny = a; devices.allow = \"c 1:7 rwm\"; }}\n\
         pids {{ pids.max = 99999999999999; }}\n}}\n",
        own.name
    );
    let file = plan(bed, "more.conf", &text);
    cgroup(bed, &["apply", &file]).fails_without_log("more.conf:3: write \"99999999999999\"");
    assert_eq!(own.read("devices", "", "devices.list"), "c 1:3 rm\nc 1:5 rwm");
}

fn rolled_back(bed: &Bed) {
    let own = Own::new(bed);
    let group = &own.name;
    cgroup(bed, &["create", &own.child("a"), &own.child("a/b")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &own.child("a/b")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &own.child("a")]).ok();
    // Only the kernel detects that a/b would have no CPUs left.
    let text = format!(
        "[group.\"{group}/new\"]\npids.max = 9\n[group.\"{group}/a\"]\npids.max = 8\ntask = \"daemon:bin\"\n\
         cpuset.cpus = \"1\"\n"
    );
    let file = plan(bed, "plan.toml", &text);
    cgroup(bed, &["apply", &file]).fails_without_log("plan.toml:6: ");
    assert!(!own.directory("pids", "new").exists());
    assert_eq!(own.read("pids", "a", "pids.max"), "max");
    use std::os::unix::fs::MetadataExt;
    let tasks = own.directory("pids", "a").join("tasks");
    assert_eq!(fs::metadata(tasks).expect("tasks").uid(), 0);
}

/// Starts applying a long plan, and returns when some of its groups exist.
fn half_way(bed: &Bed, own: &Own<'_>) -> (String, Running) {
    // With many hierarchies, each group takes longer, so fewer groups suffice.
    let count = if bed.view.has_v1() { 60 } else { 400 };
    let groups = (0..count).map(|n| format!("[group.\"{}/g{n}\"]\npids.max = 7\n", own.name));
    let file = plan(bed, "many.toml", &groups.collect::<String>());
    let running = bed.call_bare(&["cgroup", "apply", "--quiet", &file]).spawn();
    let controller = if bed.view.has_v1() { "pids" } else { "" };
    let first = own.directory(controller, "g4");
    dayfly_tests::wait::until_true("the first groups", || first.exists());
    (file, running)
}

fn interrupted(bed: &Bed) {
    let own = Own::new(bed);
    if !bed.view.has_v1() && controllers().is_err() {
        return;
    }
    let (_, running) = half_way(bed, &own);
    running.signal(rustix::process::Signal::INT);
    running.wait().fails_without_log("interrupted: nothing is changed");
    for hierarchy in cgroups::hierarchies(bed.view) {
        assert!(!hierarchy.join(&own.name).exists(), "{}", hierarchy.display());
    }
}

fn killed_and_applied_again(bed: &Bed) {
    let own = Own::new(bed);
    if !bed.view.has_v1() && controllers().is_err() {
        return;
    }
    let (file, running) = half_way(bed, &own);
    running.signal(rustix::process::Signal::KILL);
    assert!(running.wait().died_of_signal());
    cgroup(bed, &["apply", "--quiet", &file]).ok();
    cgroup(bed, &["diff", &file]).exits(0);
}

fn snapshot_is_a_plan(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &format!("cpu,memory,blkio:{}", own.child("a")), &own.child("b")]).ok();
    cgroup(bed, &["create", "-t", "daemon:bin", &own.child("b")]).ok();
    let a = ["set", "-r", "memory.max=64M", "-r", "io.max=254:0 rbps=7000000", &own.child("a")];
    cgroup(bed, &a).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", "-r", "cpu.max=7000 70000", &own.child("b")]).ok();
    let file = bed.dir.join("snapshot.toml");
    let file = file.to_str().expect("path");
    cgroup(bed, &["snapshot", "-o", file, &own.name]).ok();
    assert_eq!(cgroup(bed, &["diff", file]).exits(0).stdout, "");
    cgroup(bed, &["rm", "-r", &own.name]).ok();
    cgroup(bed, &["apply", "--quiet", file]).ok();
    assert!(!own.directory("pids", "a").exists());
    assert_eq!(own.read("blkio", "a", "blkio.throttle.read_bps_device"), "254:0 7000000");
    assert_eq!(own.read("cpu", "b", "cpu.cfs_period_us"), "70000");
    let again = cgroup(bed, &["snapshot", &own.name]).ok().stdout;
    assert_eq!(again, fs::read_to_string(file).expect("plan"));
}

/// The cgconfig.conf of the article on consolidation, with this host's users, CPUs and nodes, and group names of the
/// case's own.
fn four_groups_of_seed_002(bed: &Bed) {
    let own = Own::new(bed);
    let text = include_str!("../../lab/host/tests/fixtures/seed-002/cgconfig.conf");
    let text = text.replace("group test", &format!("group {}/test", own.name));
    let text = text.replace("0-31", "0-1").replace("0-3;", "0;").replace("dba", "bin");
    let text = ["oracle2", "oracle3", "oracle4", "oracle"]
        .iter()
        .zip(["sys", "games", "man", "daemon"])
        .fold(text, |text, (from, to)| text.replace(from, to));
    let file = plan(bed, "cgconfig.conf", &text);
    let shown = cgroup(bed, &["apply", &file]).ok().stdout;
    assert!(
        shown.contains("cgconfig.conf:2: cpuset is mounted on /sys/fs/cgroup/cpuset"),
        "{shown}"
    );
    for group in ["test1", "test2", "test3", "test4"] {
        assert_eq!(own.read("cpuset", group, "cpuset.cpus"), "0-1");
        assert_eq!(own.read("cpuset", group, "cpuset.mems"), "0");
        assert!(!own.directory("memory", group).exists());
    }
    use std::os::unix::fs::MetadataExt;
    let tasks = fs::metadata(own.directory("cpuset", "test1").join("tasks")).expect("tasks");
    assert_eq!((tasks.uid(), tasks.gid()), (1, 2), "daemon:bin");
    cgroup(bed, &["diff", &file]).exits(0);
}

fn at_each_boot(bed: &Bed) {
    let file = plan(bed, "db.toml", "[group.db]\n");
    let root = bed.dir.join("image");
    let root = root.to_str().expect("path");
    let at = |path: &str| fs::read_to_string(format!("{root}/{path}"));
    cgroup(bed, &["persist", "--root", root, "--init", "systemd", &file]).ok();
    let unit = at("etc/systemd/system/dayfly-cgroup-db.service").expect("unit");
    assert!(unit.contains(" cgroup apply --quiet /etc/dayfly/cgroup/db.toml\n"), "{unit}");
    assert!(unit.contains("WantedBy=basic.target"));
    assert_eq!(
        at("etc/systemd/system/basic.target.wants/dayfly-cgroup-db.service").ok(),
        Some(unit)
    );
    assert_eq!(at("etc/dayfly/cgroup/db.toml").expect("plan"), "[group.db]\n");
    cgroup(bed, &["unpersist", "--root", root, "db"]).ok();
    assert!(at("etc/systemd/system/dayfly-cgroup-db.service").is_err());
    assert!(at("etc/dayfly/cgroup/db.toml").is_err());
    cgroup(bed, &["unpersist", "--root", root, "db"]).fails_without_log("nothing called \"db\"");
    cgroup(bed, &["persist", "--root", root, "--init", "sysv", "--name", "x", &file]).ok();
    assert!(
        at("etc/rc2.d/S01dayfly-cgroup-x")
            .expect("link")
            .starts_with("#!/bin/sh\n### BEGIN INIT INFO")
    );
    cgroup(bed, &["unpersist", "--root", root, "x"]).ok();
    let wrong = plan(bed, "wrong.toml", "[grup.x]\n");
    cgroup(bed, &["persist", "--root", root, &wrong]).fails_without_log("wrong.toml:1: ");
    cgroup(bed, &["persist", "--root", root, "--name", "a b", &file])
        .fails_without_log("name of a service");
}

fn values_plans_and_exchange_on_v2(bed: &Bed) {
    let own = Own::new(bed);
    let (a, b) = (own.child("a"), own.child("b"));
    cgroup(bed, &["create", &a, &b]).ok();
    for (key, value, file, held) in [
        ("memory.limit_in_bytes", "64M", "memory.max", "67108864"),
        ("memory.memsw.limit_in_bytes", "65M", "memory.swap.max", "1048576"),
        ("memory.soft_limit_in_bytes", "1M", "memory.low", "1048576"),
        ("cpu.shares", "512", "cpu.weight", "59"),
        ("cpu.cfs_quota_us", "25000", "cpu.max", "25000 100000"),
        ("cpu.cfs_period_us", "50000", "cpu.max", "25000 50000"),
        ("pids.max", "30", "pids.max", "30"),
        ("cpuset.cpus", "0", "cpuset.cpus", "0"),
    ] {
        cgroup(bed, &["set", "-r", &format!("{key}={value}"), &a]).ok();
        assert_eq!(own.read("", "a", file), held, "{key}={value}");
    }
    cgroup(bed, &["set", "-r", "net_cls.classid=1", &a]).fails_without_log("nft");
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &b]).ok();
    let busy = ["cgroup", "exec", "-g", &a, "sh", "-c", "while :; do :; done"];
    let running = bed.call_bare(&busy).spawn();
    let pid = pid_of(&running);
    dayfly_tests::wait::until_true("in place", || allowed(&pid) == "0");
    cgroup(bed, &["swap", &a, &b]).ok();
    assert_eq!(allowed(&pid), "1");
    assert_eq!(own.read("", "b", "cpuset.cpus"), "0");
    cgroup(bed, &["kill", &a]).ok();
    let _ = running.wait();

    let file = bed.dir.join("snapshot.toml");
    let file = file.to_str().expect("path");
    cgroup(bed, &["snapshot", "-o", file, &own.name]).ok();
    cgroup(bed, &["diff", file]).exits(0);
    cgroup(bed, &["rm", "-r", &own.name]).ok();
    cgroup(bed, &["apply", file]).ok();
    assert_eq!(own.read("", "a", "memory.max"), "67108864");
    assert_eq!(own.read("", "a", "cpu.max"), "25000 50000");
    cgroup(bed, &["pin", &b, "node:0,cores:1"]).ok();
    assert_eq!(own.read("", "b", "cpuset.mems"), "0");
    // The program uses more memory than the limit of the next plan: with that limit the kernel would kill it.
    let hungry = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 60";
    let running = bed.call_bare(&["cgroup", "exec", "-g", &b, "sh", "-c", hungry]).spawn();
    let used = || own.read("", "b", "memory.current").parse::<u64>().expect("number");
    dayfly_tests::wait::until_true("memory in use", || used() > 20_000_000);
    let small = plan(bed, "small.toml", &format!("[group.\"{b}\"]\nmemory.max = \"1M\"\n"));
    cgroup(bed, &["apply", &small]).fails_without_log("small.toml:2: memory.max: the limit of");
    assert_eq!(own.read("", "b", "memory.max"), "max");
    cgroup(bed, &["kill", &b]).ok();
    let _ = running.wait();
}

/// The copy for the next boot has the same content as the plan, and the unit and the script are valid.
fn kept_as_it_can_be_read(bed: &Bed) {
    let root = bed.dir.join("image");
    let root = root.to_str().expect("path");
    let file = plan(bed, "plain", "group a {\n cpu { }\n}\n");
    let persist =
        |init: &str, file: &str| cgroup(bed, &["persist", "--root", root, "--init", init, file]);
    persist("systemd", &file).ok();
    // The plan's name has no extension, so its format is recognised by its content.
    let kept = format!("{root}/etc/dayfly/cgroup/plain.conf");
    assert_eq!(fs::read_to_string(&kept).expect("plan"), fs::read_to_string(&file).expect("plan"));
    let unit = format!("{root}/etc/systemd/system/dayfly-cgroup-plain.service");
    let text = fs::read_to_string(&unit).expect("unit");
    assert!(text.contains("\nBefore=basic.target shutdown.target\n"), "{text}");
    if std::path::Path::new("/usr/bin/systemd-analyze").exists() {
        let told = bed.program("systemd-analyze", &["verify", "--man=no", &unit]).run().ok();
        assert_eq!(told.output(), "", "{text}");
    }
    // When the plan is persisted for another init system, the first unit is removed.
    persist("sysv", &file).ok();
    assert!(fs::metadata(&unit).is_err());
    let script = format!("{root}/etc/init.d/dayfly-cgroup-plain");
    bed.program("sh", &["-n", &script]).run().ok();
    if std::path::Path::new("/usr/bin/shellcheck").exists() {
        bed.program("shellcheck", &[&script]).run().ok();
    }
    assert!(bed.program("sh", &[&script, "rest"]).run().exits(2).stderr.contains("usage: "));
    cgroup(bed, &["unpersist", "--root", root, "plain"]).ok();
    assert!(!std::path::Path::new(root).join("etc/dayfly").exists());
    // An included file beside the plan would not be found at boot.
    let common = plan(bed, "common.toml", "[template.x]\n");
    let file = plan(bed, "beside.toml", "[group.a]\n");
    fs::write(&file, "\ninclude = \"common.toml\"\n[group.a]\n").expect("write");
    persist("systemd", &file).fails_without_log("beside.toml:2: common.toml is not copied");
    fs::write(&file, format!("include = \"{common}\"\n[group.a]\n")).expect("write");
    persist("systemd", &file).ok();
}
