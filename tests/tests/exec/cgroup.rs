//! The cgroup and the CPUs of a process that exec adds.

use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(joins_the_cgroup),
    case!(sub_cgroup_v2).on(&[View::V2]),
    case!(sub_cgroup_v1).on(&[View::V1, View::Hybrid]),
    case!(sub_cgroup_missing),
    case!(sub_cgroup_of_all_controllers).on(&[View::V1, View::Hybrid]),
    case!(cpus_of_the_caller_do_not_stay).needs(two_cpus),
    case!(follows_init_to_another_cgroup).on(&[View::V2]),
    case!(follows_init_below_its_cgroup).on(&[View::V2]).when(huge_pages),
];

/// Returns the CPUs on which this thread may run, in the kernel's list format.
fn own_cpus() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("Cpus_allowed_list").trim().to_owned()
}

fn two_cpus() -> Result<(), String> {
    match own_cpus().as_str() {
        "0" => Err("one CPU".to_owned()),
        _ => Ok(()),
    }
}

/// Returns whether cgroups can delegate the hugetlb controller.
pub fn huge_pages() -> bool {
    let have = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    have.split_whitespace().any(|name| name == "hugetlb")
}

/// Returns the path of a process's cgroup on v2.
fn unified_path(pid: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
    text.lines().find_map(|line| line.strip_prefix("0::")).expect("v2 line").to_owned()
}

/// Runs an exec, after `change` has modified its call, and asserts that the new process is in the cgroup `path`.
pub fn exec_joins(c: &Container<'_>, path: &str, change: impl FnOnce(Call) -> Call) {
    let file = c.bed.dir.join(format!("{}.pid", c.id));
    let flags = ["-d", "--pid-file", file.to_str().expect("path")];
    let _ = change(c.id_call("exec", &flags, &["sleep", "1000"])).run().ok();
    assert_eq!(unified_path(&fs::read_to_string(file).expect("pid file")), path);
}

fn joins_the_cgroup(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let file = bed.dir.join("pid");
    c.exec_with(&["-d", "--pid-file", file.to_str().expect("path")], &["sleep", "1000"]).ok();
    let pid = fs::read_to_string(file).expect("pid file");
    let sorted = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&pid), sorted(&c.pid().to_string()));
}

fn sub_cgroup_v2(bed: &Bed) {
    let c = bed.bundle().make().detached();
    fs::create_dir(c.cgroup_file("", "inner")).expect("make sub-cgroup");
    let outcome = c.exec_with(&["--cgroup", "inner"], &["cat", "/proc/self/cgroup"]).ok();
    assert!(outcome.stdout.contains("0::/inner\n"), "{outcome}");
    c.exec_with(&["--cgroup", "/inner"], &["true"]).ok();
    assert!(fs::remove_dir(c.cgroup_file("", "inner")).is_ok());
}

fn sub_cgroup_v1(bed: &Bed) {
    let c = bed.bundle().make().detached();
    fs::create_dir(c.cgroup_file("memory", "inner")).expect("make sub-cgroup");
    let outcome = c.exec_with(&["--cgroup", "memory:inner"], &["cat", "/proc/self/cgroup"]).ok();
    assert!(outcome.stdout.lines().any(|line| line.ends_with(":memory:/inner")), "{outcome}");
    assert!(
        outcome.stdout.lines().any(|line| line.ends_with(":pids:/")),
        "the others stay: {outcome}"
    );
    c.exec_with(&["--cgroup", "inner", "--cgroup", "memory:inner"], &["true"])
        .fails_as(255, "(missing <controller>: prefix)");
    c.exec_with(&["--cgroup", ":inner"], &["true"]).fails_as(255, "(empty <controller> prefix)");
    c.exec_with(&["--cgroup", "memory:a", "--cgroup", "memory:b"], &["true"])
        .fails_as(255, "invalid --cgroup argument(s): controller memory specified multiple times");
}

fn sub_cgroup_missing(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let (missing, outside) =
        if bed.view.has_v1() { ("memory:nope", "memory:../../..") } else { ("nope", "../../..") };
    c.exec_with(&["--cgroup", missing], &["true"]).exits(255);
    // A `..` can't lead above the container's cgroup.
    let outcome = c.exec_with(&["--cgroup", outside], &["cat", "/proc/self/cgroup"]);
    assert!(outcome.code() == 255 || !outcome.stdout.contains("/.."), "{outcome}");
}

fn sub_cgroup_of_all_controllers(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec_with(&["--cgroup", "bogus:inner"], &["true"]).exits(255);
    c.exec_with(&["--cgroup", "bogus:/"], &["true"]).fails_as(255, "unknown controller");
    // A path without controllers applies to all hierarchies, so it must exist in each.
    fs::create_dir(c.cgroup_file("memory", "inner")).expect("make sub-cgroup");
    c.exec_with(&["--cgroup", "inner"], &["true"]).fails_as(255, "no such file or directory");
}

fn cpus_of_the_caller_do_not_stay(bed: &Bed) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let (all, wanted) = (sched_getaffinity(None).expect("affinity"), own_cpus());
    let mut first = CpuSet::new();
    first.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("a CPU"));
    let script = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let told = |text: &str| text.trim().rsplit('\t').next().unwrap_or_default().to_owned();
    sched_setaffinity(None, &first).expect("sched_setaffinity");
    assert_ne!(own_cpus(), wanted);
    let ran = bed.bundle().args(&script).make().run().ok();
    let c = bed.bundle().make().detached();
    let joined = c.exec(&script).ok();
    sched_setaffinity(None, &all).expect("sched_setaffinity");
    assert_eq!((told(&ran.stdout), told(&joined.stdout)), (wanted.clone(), wanted));
}

/// If its cgroup tree is writable and it has no cgroup namespace, a container can move its init to another cgroup.
fn follows_init_to_another_cgroup(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let own = c.cgroup_file("", "");
    let other = own.with_file_name(format!("{}-other", c.id));
    fs::create_dir(&other).expect("make a cgroup");
    fs::write(other.join("cgroup.procs"), c.pid().to_string()).expect("move init");
    fs::remove_dir(&own).expect("remove the cgroup");
    let path = unified_path(&c.pid().to_string());
    exec_joins(&c, &path, |call| call);
    c.exec_with(&["--cgroup", "sub"], &["true"]).fails_as(255, "no such file or directory");
    c.delete_force().ok();
    wait::until_true("an empty cgroup", || fs::remove_dir(&other).is_ok());
}

/// Starts a container that moves its init to a child cgroup and delegates a controller to that cgroup, so that only
/// leaf cgroups can contain processes. Returns the container and the child's path.
pub fn with_init_below(bundle: Bundle<'_>) -> (Container<'_>, String) {
    let limit = json!([{ "pageSize": "2MB", "limit": 0 }]);
    let c = bundle.set("/linux/resources/hugepageLimits", limit).make().detached();
    let inner = c.cgroup_file("", "inner");
    fs::create_dir(&inner).expect("make a cgroup");
    fs::write(inner.join("cgroup.procs"), c.pid().to_string()).expect("move init");
    fs::write(c.cgroup_file("", "cgroup.subtree_control"), "+hugetlb").expect("hand down");
    let path = unified_path(&c.pid().to_string());
    assert!(path.ends_with("/inner"), "{path}");
    (c, path)
}

/// Init has moved to a cgroup below the container's cgroup, and `exec` joins init's cgroup. If the container has a PID
/// namespace, an intermediate process enters the cgroup before the command's process does.
fn follows_init_below_its_cgroup(bed: &Bed) {
    for bundle in [bed.bundle(), bed.bundle().without_namespace("pid"), mapped(bed)] {
        let (c, path) = with_init_below(bundle);
        for way in ["", "clone-into-cgroup"] {
            exec_joins(&c, &path, |call| call.env("DAYFLY_WITHOUT", way));
        }
    }
}
