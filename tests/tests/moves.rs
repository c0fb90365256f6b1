//! The ways in which processes enter v1 cgroups: the files to which they write their ids, and the
//! resulting cgroups.

use crate::cgtool::{Own, V1, tool};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, uses_every_fast_path};
use dayfly_tests::user::can_be;
use host::follow::{Event, call_name, memory};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(run_moves_by_thread).on(V1).when(uses_every_fast_path).unlike_runc(),
    case!(exec_moves_by_thread).on(V1).when(uses_every_fast_path).unlike_runc(),
    case!(tool_moves_by_thread).on(V1).needs(tool),
    case!(everybody_is_everywhere).on(V1),
    case!(tool_is_everywhere).on(V1).needs(tool),
    case!(cpuset_without_cpus).on(V1).needs(tool_and_cpuset),
    case!(real_time_caller).on(V1).needs(real_time_groups).unlike_runc(),
    case!(directory_that_was_given).on(V1).needs(user_and_tool).unlike_runc(),
];

/// A uid without a user, which no container of the suite uses.
const USER: u32 = 28_600;

fn user_and_tool() -> Result<(), String> {
    tool().and_then(|()| can_be())
}

/// Debian's Linux 6.12 lacks the cpuset files of v1.
fn tool_and_cpuset() -> Result<(), String> {
    tool()?;
    match Path::new("/sys/fs/cgroup/cpuset/cpuset.cpus").exists() {
        true => Ok(()),
        false => Err("no cpuset on cgroup v1: CONFIG_CPUSETS_V1".to_owned()),
    }
}

fn real_time_groups() -> Result<(), String> {
    match Path::new("/sys/fs/cgroup/cpu/cpu.rt_runtime_us").exists() {
        true => Ok(()),
        false => Err("a kernel without CONFIG_RT_GROUP_SCHED".to_owned()),
    }
}

/// Returns the v1 hierarchies.
fn legacy(bed: &Bed) -> Vec<PathBuf> {
    let all = cgroups::hierarchies(bed.view).into_iter();
    all.filter(|top| !top.join("cgroup.controllers").exists()).collect()
}

/// Returns the cgroup files through which processes move themselves, in the order of the writes, and the written
/// values.
fn moves(call: Call) -> Vec<(PathBuf, String)> {
    let mut moves = Vec::new();
    let outcome = call.follow(&mut |pid, event| {
        let Event::Entered { number, args, .. } = event else { return };
        if !["write", "pwrite64"].contains(&call_name(number)) {
            return;
        }
        let descriptor = format!("/proc/{}/fd/{}", pid.as_raw_pid(), args[0]);
        let Ok(path) = fs::read_link(descriptor) else { return };
        let is_entrance = path.starts_with("/sys/fs/cgroup")
            && (path.ends_with("tasks") || path.ends_with("cgroup.procs"));
        if is_entrance {
            let mut text = [0; 16];
            let length = memory::read(pid, args[1], &mut text).unwrap_or(0);
            let length = length.min(usize::try_from(args[2]).unwrap_or(0));
            moves.push((path, String::from_utf8_lossy(&text[..length]).into_owned()));
        }
    });
    let _ = outcome.ok();
    moves
}

/// Asserts that the process of the call moves itself into `group` once in each v1 hierarchy, through `file`.
fn assert_moves(bed: &Bed, call: Call, group: &str, file: &str) {
    let group = group.trim_start_matches('/');
    let mut expected: Vec<_> = legacy(bed)
        .into_iter()
        .filter_map(|top| fs::canonicalize(top).ok())
        .map(|top| top.join(group).join(file))
        .collect();
    expected.sort();
    expected.dedup();
    let mut seen = moves(call);
    seen.retain(|(path, _)| !path.starts_with("/sys/fs/cgroup/unified"));
    seen.sort();
    assert!(seen.iter().all(|(_, text)| text == "0"), "{seen:?}");
    let seen: Vec<PathBuf> = seen.into_iter().map(|(path, _)| path).collect();
    assert!(!expected.is_empty());
    assert_eq!(seen, expected);
}

fn run_moves_by_thread(bed: &Bed) {
    for (without, file) in [("", "tasks"), ("thread-move", "cgroup.procs")] {
        let c = bed.bundle().args(&["/bin/true"]).make();
        let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", without);
        assert_moves(bed, call, &cgroups::path_of(&c.id), file);
    }
}

fn exec_moves_by_thread(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for (without, file) in [("", "tasks"), ("thread-move", "cgroup.procs")] {
        let call = c.id_call("exec", &[], &["/bin/true"]).env("DAYFLY_WITHOUT", without);
        assert_moves(bed, call, &cgroups::path_of(&c.id), file);
    }
}

fn tool_moves_by_thread(bed: &Bed) {
    let own = Own::new(bed);
    bed.call_bare(&["cgroup", "create", &own.name]).run().ok();
    let call = bed.call_bare(&["cgroup", "exec", "-g", &own.name, "true"]);
    assert_moves(bed, call, &own.name, "tasks");
}

/// Returns the paths of a process in the v1 hierarchies, each with its controllers.
fn places(text: &str) -> Vec<(String, String)> {
    let fields = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    });
    fields.filter(|(controllers, _)| !controllers.is_empty()).collect()
}

/// Asserts that a process is in the group in every mounted v1 hierarchy.
fn assert_everywhere(bed: &Bed, text: &str, group: &str) {
    let there: Vec<_> = places(text).into_iter().filter(|(_, path)| path == group).collect();
    let mut tops: Vec<_> =
        legacy(bed).iter().filter_map(|top| fs::canonicalize(top).ok()).collect();
    tops.sort();
    tops.dedup();
    assert_eq!(there.len(), tops.len(), "{group}:\n{text}");
}

fn everybody_is_everywhere(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let pid_file = bed.dir.join("pid");
    c.exec_with(&["-d", "--pid-file", pid_file.to_str().expect("path")], &["sleep", "1000"]).ok();
    let added = fs::read_to_string(pid_file).expect("pid file");
    for pid in [c.pid().to_string(), added] {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
        assert_everywhere(bed, &text, &cgroups::path_of(&c.id));
    }
}

fn tool_is_everywhere(bed: &Bed) {
    let own = Own::new(bed);
    bed.call_bare(&["cgroup", "create", &own.name]).run().ok();
    let exec = ["cgroup", "exec", "-g", &own.name, "cat", "/proc/self/cgroup"];
    let text = bed.call_bare(&exec).run().ok().stdout;
    assert_everywhere(bed, &text, &format!("/{}", own.name));
    // The code that enters the root of a hierarchy differs from the code that enters the groups below the root.
    let text = bed.call_bare(&["cgroup", "exec", "-g", "pids:/", "cat", "/proc/self/cgroup"]).run();
    let places = places(&text.ok().stdout);
    assert!(places.iter().any(|(names, path)| names == "pids" && path == "/"), "{places:?}");
}

/// A cpuset made by mkdir has no CPUs and accepts no process. dayfly gives CPUs to the cpusets that
/// it makes, and reports missing CPUs of other cpusets.
fn cpuset_without_cpus(bed: &Bed) {
    let own = Own::new(bed);
    let directory = own.directory("cpuset", "");
    fs::create_dir_all(&directory).expect("make");
    assert_eq!(own.read("cpuset", "", "cpuset.cpus"), "");
    let group = format!("cpuset:{}", own.name);
    let outcome = bed.call_bare(&["cgroup", "exec", "-g", &group, "true"]).run();
    outcome.fails_without_log("the group has no CPUs or memory nodes yet");
    let path = format!("/{}/c", own.name);
    let bundle = bed.bundle().set("/linux/cgroupsPath", serde_json::json!(path));
    let c = bundle.sh("cat /proc/self/cgroup; exec sleep 1000").make().detached();
    let text = fs::read_to_string(format!("/proc/{}/cgroup", c.pid())).expect("cgroup");
    assert_everywhere(bed, &text, &path);
    c.delete_force().ok();
}

/// A cpu cgroup without real-time bandwidth admits no process with a real-time policy. The message names the remedy.
fn real_time_caller(bed: &Bed) {
    let c = bed.bundle().args(&["true"]).make();
    let mut call = Command::new("chrt");
    call.args(["--fifo", "1"]).arg(bed.runtime()).arg("--root").arg(bed.root());
    call.args(["run", "--bundle"]).arg(&c.bundle).arg(&c.id);
    let output = call.output().expect("execute chrt");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("linux.resources.cpu.realtimeRuntime"), "{stderr}");
    c.assert_gone("a refused start");
}

/// If a user owns a cgroup's `cgroup.procs` but not its `tasks`, `cgroup exec` moves the process through
/// `cgroup.procs`. In cgroups that the user creates below this cgroup, the user owns both files.
fn directory_that_was_given(bed: &Bed) {
    let own = Own::new(bed);
    bed.call_bare(&["cgroup", "create", &own.name]).run().ok();
    let give = |file: &str| {
        for top in cgroups::hierarchies(bed.view) {
            let path = top.join(&own.name).join(file);
            if path.exists() {
                chown(path, Some(USER), Some(USER)).expect("chown");
            }
        }
    };
    let programs = bed.dir.join("programs");
    fs::create_dir(&programs).expect("make");
    for name in ["dayfly", "dayfly-host"] {
        let from = bed.runtime().with_file_name(name);
        let from = if name == "dayfly" { bed.runtime() } else { &from };
        dayfly_tests::program::copy(from, &programs.join(name));
    }
    let program = programs.join("dayfly");
    let user = USER.to_string();
    let as_user = |args: &[&str]| {
        let become_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
        let start = [path(&program), "cgroup"];
        bed.program("/usr/bin/env", &[&become_user[..], &start, args].concat())
    };
    let group = if bed.view.has_v1() { format!("pids:{}", own.name) } else { own.name.clone() };
    let group = group.as_str();
    let cat = ["exec", "-g", group, "cat", "/proc/self/cgroup"];
    let outcome = as_user(&cat).run();
    outcome.fails_without_log("permission denied");
    give("");
    give("cgroup.procs");
    let line = format!(":pids:/{}\n", own.name);
    let outcome = as_user(&cat).run().ok();
    assert!(outcome.stdout.contains(&line), "{outcome}");
    give("tasks");
    let call = as_user(&["exec", "-g", group, "true"]);
    let moved = moves(call);
    assert!(matches!(&moved[..], [(file, _)] if file.ends_with("tasks")), "{moved:?}");
    let below = format!("{group}/below");
    as_user(&["create", &below]).run().ok();
    let outcome = as_user(&["exec", "-g", &below, "cat", "/proc/self/cgroup"]).run().ok();
    assert!(outcome.stdout.contains(&format!(":pids:/{}/below\n", own.name)), "{outcome}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("path")
}
