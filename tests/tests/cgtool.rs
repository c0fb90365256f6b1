//! `dayfly cgroup`: groups made, limited, moved, planned and removed in every view.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Outcome, Running};
use dayfly_tests::view::View;
use std::fs;
use std::path::PathBuf;

const V1: &[View] = &[View::V1, View::Hybrid];
const HYBRID: &[View] = &[View::Hybrid];

pub const CASES: &[Case] = &[
    case!(made_and_removed).needs(tool),
    case!(processes).needs(tool),
    case!(killed_and_frozen).needs(tool),
    case!(watched).needs(tool),
    case!(either_name).on(V1).needs(tool),
    case!(all_or_nothing).on(V1).needs(tool),
    case!(planned).on(V1).needs(tool),
    case!(planned_wrongly).on(V1).needs(tool),
    case!(rolled_back).on(V1).needs(tool),
    case!(snapshot_is_a_plan).on(V1).needs(tool),
    case!(four_groups_of_seed_002).on(V1).needs(tool),
    case!(pinned).on(V1).needs(tool),
    case!(exchanged_while_running).on(V1).needs(tool),
    case!(exchange_refused).on(V1).needs(tool),
    case!(v2_controllers_of_a_hybrid_host).on(HYBRID).needs(tool),
    case!(values_plans_and_exchange_on_v2).on(&[View::V2]).needs(controllers),
    case!(at_each_boot).needs(tool),
    case!(refused).needs(tool),
];

/// The program behind `dayfly cgroup`, which lies beside dayfly.
pub fn tool() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    let runtime = dayfly_tests::runner::runtime_path();
    let beside = runtime.parent().map(|directory| directory.join("dayfly-host"));
    match beside.filter(|path| path.exists()) {
        Some(_) => Ok(()),
        None => Err("dayfly-host is not beside dayfly".to_owned()),
    }
}

/// The v2 controllers that v1 has on other hosts.
fn controllers() -> Result<(), String> {
    tool()?;
    let all = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match ["cpuset", "cpu", "memory", "io", "pids"].iter().find(|name| !all.contains(**name)) {
        None => Ok(()),
        Some(name) => Err(format!("cgroup v2 has no {name} here")),
    }
}

/// A group of the case's own, removed with all below it in the end.
pub struct Own<'a> {
    bed: &'a Bed,
    /// Its name.
    pub name: String,
}

impl<'a> Own<'a> {
    pub fn new(bed: &'a Bed) -> Self {
        let name = cgroups::path_of(&bed.id());
        Self { bed, name: name.trim_start_matches('/').to_owned() }
    }

    /// The name of a group in it.
    pub fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Its file in the hierarchy of a controller, without the end of the line.
    pub fn read(&self, controller: &str, child: &str, file: &str) -> String {
        let path = self.directory(controller, child).join(file);
        let text = fs::read_to_string(&path);
        text.unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim_end().to_owned()
    }

    pub fn directory(&self, controller: &str, child: &str) -> PathBuf {
        cgroups::dir(self.bed.view, controller, &self.name).join(child)
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        let _ = self.bed.call_bare(&["cgroup", "rm", "-r", "--kill", &self.name]).run();
    }
}

pub fn cgroup(bed: &Bed, args: &[&str]) -> Outcome {
    bed.call_bare(&[&["cgroup"], args].concat()).run()
}

/// A process that does nothing.
fn sleeper(bed: &Bed) -> Running {
    bed.program("sleep", &["60"]).spawn()
}

fn pid_of(running: &Running) -> String {
    running.pid().as_raw_nonzero().to_string()
}

fn membership(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("process")
}

fn made_and_removed(bed: &Bed) {
    let own = Own::new(bed);
    let (one, two) = (own.child("one"), own.child("one/two"));
    cgroup(bed, &["create", &one, &two]).ok();
    for hierarchy in cgroups::hierarchies(bed.view) {
        assert!(hierarchy.join(&two).is_dir(), "{}", hierarchy.display());
    }
    let names = cgroup(bed, &["ls", "--names", &own.name]).ok().stdout;
    assert_eq!(names.lines().collect::<Vec<_>>(), [own.name.as_str(), one.as_str(), two.as_str()]);
    let table = cgroup(bed, &["ls", &own.name]).ok().stdout;
    assert!(table.contains("\n  one ") && table.contains("\n    two "), "{table}");
    let json = cgroup(bed, &["ls", "--format", "json", &own.name]).ok().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[2]["group"], two.as_str());
    cgroup(bed, &["rm", &one]).fails_without_log("has groups below it, such as");
    cgroup(bed, &["rm", "-r", &own.name]).ok();
    for hierarchy in cgroups::hierarchies(bed.view) {
        assert!(!hierarchy.join(&own.name).exists());
    }
    cgroup(bed, &["ls", &own.name]).fails_without_log("there is no group");
}

fn processes(bed: &Bed) {
    let own = Own::new(bed);
    let one = own.child("one");
    cgroup(bed, &["create", &one]).ok();
    let inside = cgroup(bed, &["exec", "-g", &one, "cat", "/proc/self/cgroup"]).ok().stdout;
    let count = |text: &str| text.matches(&format!(":/{one}\n")).count();
    assert_eq!(count(&inside), cgroups::hierarchies(bed.view).len(), "{inside}");
    cgroup(bed, &["exec", "-g", &one, "sh", "-c", "exit 7"]).exits(7);
    cgroup(bed, &["exec", "-g", &one, "/no/such/program"])
        .fails_without_log("exec /no/such/program");
    let sleeper = sleeper(bed);
    let pid = pid_of(&sleeper);
    cgroup(bed, &["classify", "--sticky", "-g", &one, &pid]).ok();
    assert_eq!(count(&membership(&pid)), cgroups::hierarchies(bed.view).len());
    cgroup(bed, &["classify", "-g", &one, "4000000"])
        .fails_without_log("there is no process 4000000");
    cgroup(bed, &["rm", &one]).fails_without_log("--move puts them into the parent");
    cgroup(bed, &["rm", "--move", &one]).ok();
    // On cgroup v2 the parent hands controllers down and takes no processes itself.
    let parent = if bed.view.has_v1() { own.name.as_str() } else { "" };
    assert!(membership(&pid).contains(&format!(":/{parent}\n")));
    sleeper.signal(rustix::process::Signal::KILL);
    assert!(sleeper.wait().died_of_signal());
    cgroup(bed, &["rm", &own.name]).ok();
}

fn killed_and_frozen(bed: &Bed) {
    let own = Own::new(bed);
    let deep = own.child("a/b");
    cgroup(bed, &["create", &deep]).ok();
    let sleeper = sleeper(bed);
    cgroup(bed, &["classify", "-g", &deep, &pid_of(&sleeper)]).ok();
    cgroup(bed, &["freeze", &own.name]).ok();
    let state = |key| cgroup(bed, &["get", "-nv", "-r", key, &own.name]).ok().stdout;
    assert_eq!((state("freezer.state"), state("cgroup.freeze")), ("FROZEN\n".into(), "1\n".into()));
    cgroup(bed, &["thaw", &own.name]).ok();
    assert_eq!(state("freezer.state"), "THAWED\n");
    cgroup(bed, &["kill", "--signal", "15", &own.child("a")]).ok();
    assert!(sleeper.wait().died_of_signal());
}

fn watched(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.child("one")]).ok();
    let csv = bed.dir.join("use.csv");
    let csv_text = csv.to_str().expect("path");
    cgroup(bed, &["record", "-n", "3", "-i", "20ms", "-o", csv_text, &own.name]).ok();
    let csv = fs::read_to_string(&csv).expect("CSV");
    assert_eq!(csv.lines().count(), 1 + 3 * 2, "{csv}");
    let columns = csv.lines().next().expect("heading").split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let table =
        cgroup(bed, &["top", "-n", "2", "-i", "20ms", "-s", "memory", &own.name]).ok().stdout;
    assert_eq!(table.matches("held back").count(), 2, "{table}");
    assert!(table.contains(&own.child("one")), "{table}");
}

fn either_name(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.name]).ok();
    for (key, value, controller, file, held) in [
        ("memory.max", "64M", "memory", "memory.limit_in_bytes", "67108864"),
        ("memory.swap.max", "1M", "memory", "memory.memsw.limit_in_bytes", "68157440"),
        (
            "memory.memsw.limit_in_bytes",
            "-1",
            "memory",
            "memory.memsw.limit_in_bytes",
            "9223372036854771712",
        ),
        ("memory.low", "1M", "memory", "memory.soft_limit_in_bytes", "1048576"),
        ("cpu.weight", "100", "cpu", "cpu.shares", "1024"),
        ("cpu.shares", "512", "cpu", "cpu.shares", "512"),
        ("cpu.max", "25000 50000", "cpu", "cpu.cfs_quota_us", "25000"),
        ("cpu.max", "max", "cpu", "cpu.cfs_quota_us", "-1"),
        (
            "io.max",
            "254:0 rbps=1048576 wiops=7",
            "blkio",
            "blkio.throttle.read_bps_device",
            "254:0 1048576",
        ),
        ("io.max", "254:0 rbps=max", "blkio", "blkio.throttle.read_bps_device", ""),
        ("pids.max", "9", "pids", "pids.max", "9"),
        ("cpuset.cpus", "0", "cpuset", "cpuset.cpus", "0"),
        ("cgroup.freeze", "0", "freezer", "freezer.state", "THAWED"),
    ] {
        cgroup(bed, &["set", "-r", &format!("{key}={value}"), &own.name]).ok();
        assert_eq!(own.read(controller, "", file), held, "{key}={value}");
    }
    let keys =
        ["-r", "memory.max", "-r", "cpu.weight", "-r", "io.max", "-r", "cpuset.cpus.effective"];
    let values = cgroup(bed, &[&["get", "-nv"], &keys[..], &[&own.name]].concat()).ok().stdout;
    assert_eq!(values, "67108864\n59\n254:0 wiops=7\n0\n");
}

fn all_or_nothing(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.child("a"), &own.child("b")]).ok();
    let set = |settings: &[&str]| {
        let mut args = vec!["set"];
        settings.iter().for_each(|setting| args.extend(["-r", setting]));
        let (a, b) = (own.child("a"), own.child("b"));
        args.extend([a.as_str(), b.as_str()]);
        cgroup(bed, &args)
    };
    // Memory above what memory and swap together may be is refused by the kernel, after pids.max.
    set(&["memory.limit_in_bytes=64M", "memory.memsw.limit_in_bytes=64M"]).ok();
    set(&["pids.max=7", "memory.limit_in_bytes=128M"]).fails_without_log("memory.limit_in_bytes");
    for group in ["a", "b"] {
        assert_eq!(own.read("pids", group, "pids.max"), "max");
        assert_eq!(own.read("memory", group, "memory.limit_in_bytes"), "67108864");
    }
    // In one go the order does not matter.
    set(&["memory.limit_in_bytes=128M", "memory.memsw.limit_in_bytes=256M"]).ok();
    assert_eq!(own.read("memory", "b", "memory.limit_in_bytes"), "134217728");
    // A child can't have what its parent does not: the parent's turn comes first, whatever the order.
    cgroup(bed, &["set", "--copy-from", &own.child("a"), &own.child("b")]).ok();
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

fn planned_wrongly(bed: &Bed) {
    let own = Own::new(bed);
    let group = &own.name;
    let head = format!("[group.\"{group}\"]\npids.max = 9\n");
    for (rest, says) in [
        ("cpuset.cpus = \"0-4000\"\n", "plan.toml:3: cpuset.cpus: CPUs "),
        ("memory.limit_in_byte = 3\n", "plan.toml:3: no controller has a file"),
        ("memory.max = \"64Q\"\n", "plan.toml:3: \"64Q\" is no size"),
        ("task = \"nobody-of-that-name\"\n", "plan.toml:1: there is no user"),
        (
            "controllers = [\"pids\"]\nmemory.max = 1\n",
            "plan.toml:4: memory.max: the group is not in",
        ),
        ("parent = \"x\"\n[group.x]\nparent = \"x\"\n", "in a circle"),
        ("memory.high = 5\n", "plan.toml:3: cgroup v1 has no memory.high"),
    ] {
        let file = plan(bed, "plan.toml", &format!("{head}{rest}"));
        cgroup(bed, &["apply", &file]).fails_without_log(says);
        assert!(!own.directory("pids", "").exists(), "{rest}: nothing is made");
    }
    // Below what is used.
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

fn rolled_back(bed: &Bed) {
    let own = Own::new(bed);
    let group = &own.name;
    cgroup(bed, &["create", &own.child("a"), &own.child("a/b")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &own.child("a/b")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &own.child("a")]).ok();
    // The kernel alone knows that a/b would be left without.
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

/// The file of seed 002, with this host's users, CPUs and nodes, and groups of the case's own.
fn four_groups_of_seed_002(bed: &Bed) {
    let own = Own::new(bed);
    let text = include_str!("../../crates/host/tests/fixtures/seed-002/cgconfig.conf");
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

fn pinned(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.child("a"), &own.child("b")]).ok();
    let lines = cgroup(bed, &["pin", &own.child("a"), "cores:1"]).ok().stdout;
    assert_eq!(
        lines,
        format!("cgset -r cpuset.cpus='0' {0}/a\ncgset -r cpuset.mems='0' {0}/a\n", own.name)
    );
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), "0");
    let (a, b) = (format!("{}=1", own.child("a")), format!("{}=1", own.child("b")));
    cgroup(bed, &["pin", "--auto", &a, &b]).ok();
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), "0");
    assert_eq!(own.read("cpuset", "b", "cpuset.cpus"), "1");
    // Within the parent's.
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &own.child("b")]).ok();
    cgroup(bed, &["create", &own.child("b/c")]).ok();
    cgroup(bed, &["pin", &own.child("b/c"), "node:0"]).ok();
    assert_eq!(own.read("cpuset", "b/c", "cpuset.cpus"), "1");
    cgroup(bed, &["pin", &own.child("a"), "node:9"]).fails_without_log("there is no memory node 9");
    cgroup(bed, &["pin", &own.child("a"), "nod:0"]).fails_without_log("no such word");
}

fn allowed(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("process");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("CPUs").trim().to_owned()
}

fn exchanged_while_running(bed: &Bed) {
    let own = Own::new(bed);
    let (a, b) = (own.child("a"), own.child("b"));
    cgroup(bed, &["create", &a, &b]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &a]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &b]).ok();
    let busy = "while :; do :; done";
    let run =
        |group: &str| bed.call_bare(&["cgroup", "exec", "-g", group, "sh", "-c", busy]).spawn();
    let (one, two) = (run(&a), run(&b));
    let (p, q) = (pid_of(&one), pid_of(&two));
    dayfly_tests::wait::until_true("both in place", || allowed(&p) == "0" && allowed(&q) == "1");
    let steps = cgroup(bed, &["swap", "--dry-run", &a, &b]).ok().stdout;
    let values: Vec<_> =
        steps.lines().filter_map(|line| line.rsplit_once(" = ")).map(|l| l.1).collect();
    assert_eq!(values, ["0-1", "0-1", "1", "0"]);
    for round in 0..20 {
        cgroup(bed, &["swap", &a, &b]).ok();
        let expected = if round % 2 == 0 { ("1", "0") } else { ("0", "1") };
        assert_eq!((allowed(&p).as_str(), allowed(&q).as_str()), expected);
    }
    let told = cgroup(bed, &["swap", "--move-memory", &a, &b]).ok().stdout;
    assert!(told.starts_with("# cgroup v1: with cpuset.memory_migrate set"), "{told}");
    assert_eq!(own.read("cpuset", "a", "cpuset.memory_migrate"), "1");
    let told = cgroup(bed, &["move-memory", &a, "0"]).ok().stdout;
    assert!(told.contains("node 0: "), "{told}");
    cgroup(bed, &["kill", &a, &b]).ok();
    let _ = (one.wait(), two.wait());
}

fn exchange_refused(bed: &Bed) {
    let own = Own::new(bed);
    let (a, b) = (own.child("a"), own.child("b"));
    cgroup(bed, &["create", &own.child("a/inner"), &own.child("b/c")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &own.child("a/inner")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &a]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &own.child("b/c")]).ok();
    cgroup(bed, &["swap", &a, &own.child("b/c")])
        .fails_without_log("a/inner has cpuset.cpus 0, which");
    cgroup(bed, &["swap", &a, &own.child("a/inner")]).fails_without_log("or inside of it");
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &b]).ok();
    cgroup(bed, &["swap", &own.child("b/c"), &own.child("a/inner")])
        .fails_without_log("its parent has");
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), "0");
    assert_eq!(own.read("cpuset", "b/c", "cpuset.cpus"), "1");
}

fn v2_controllers_of_a_hybrid_host(bed: &Bed) {
    let own = Own::new(bed);
    let controllers = fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").expect("v2");
    if !controllers.contains("hugetlb") {
        return;
    }
    cgroup(bed, &["create", &own.child("a")]).ok();
    cgroup(bed, &["set", "-r", "hugetlb.2MB.limit_in_bytes=4M", &own.child("a")]).ok();
    let value = cgroup(bed, &["get", "-nv", "-r", "hugetlb.2MB.max", &own.child("a")]).ok().stdout;
    assert_eq!(value, "4194304\n");
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
    // A limit below what is used would have the kernel kill for it.
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

fn at_each_boot(bed: &Bed) {
    let file = plan(bed, "db.toml", "[group.db]\n");
    let root = bed.dir.join("image");
    let root = root.to_str().expect("path");
    let at = |path: &str| fs::read_to_string(format!("{root}/{path}"));
    cgroup(bed, &["persist", "--root", root, "--init", "systemd", &file]).ok();
    let unit = at("etc/systemd/system/dayfly-cgroup-db.service").expect("unit");
    assert!(unit.contains(" cgroup apply --quiet /etc/dayfly/cgroup/db.toml\n"), "{unit}");
    assert!(unit.contains("WantedBy=multi-user.target"));
    assert_eq!(
        at("etc/systemd/system/multi-user.target.wants/dayfly-cgroup-db.service").ok(),
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

fn refused(bed: &Bed) {
    cgroup(bed, &["create", "../x"]).exits(2);
    cgroup(bed, &["create", "bogus:x"])
        .fails_without_log("no mounted hierarchy has the controller \"bogus\"");
    cgroup(bed, &["rm", "/"]).fails_without_log("the root");
    cgroup(bed, &["get", "-r", "nonsense.key", "/"]).fails_without_log("no controller has a file");
    cgroup(bed, &["apply", "/no/such/plan.toml"]).fails_without_log("read /no/such/plan.toml");
    cgroup(bed, &["set", "-r", "novalue", "x"]).exits(2);
}
