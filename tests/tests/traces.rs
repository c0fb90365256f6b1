//! Traces: of every command, complete up to a failure, and in separate files.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::wait;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use trace::{Account, Awaited, Phase, Row, Timeline};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(from_the_process_start_to_the_last_step).unlike_runc(),
    case!(times_add_up).unlike_runc(),
    case!(while_the_program_runs).unlike_runc(),
    case!(a_fifo_gets_one_trace).unlike_runc(),
    case!(every_planned_step_is_there).unlike_runc(),
    case!(a_filter_is_cached_after_the_launch).unlike_runc(),
    case!(hooks_are_rows).unlike_runc(),
    case!(create_start_kill_and_delete).unlike_runc(),
    case!(exec_in_a_container).unlike_runc(),
    case!(a_failure_in_each_phase).unlike_runc(),
    case!(an_init_that_is_killed).unlike_runc(),
    case!(ten_thousand_steps).unlike_runc(),
    case!(sixteen_at_once_do_not_mix).unlike_runc(),
    case!(a_format_by_its_suffix).unlike_runc(),
    case!(asked_for_by_the_environment).unlike_runc(),
    case!(asked_for_by_annotation).unlike_runc(),
    case!(an_annotation_names_no_file).unlike_runc(),
    case!(annotations_fill_nothing).unlike_runc(),
    case!(a_file_that_cannot_be_written).unlike_runc(),
];

fn read(path: &Path) -> Timeline {
    let text = fs::read_to_string(path).expect("trace");
    Timeline::from_lines(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the path of a trace in JSON lines.
fn file(bed: &Bed, name: &str) -> PathBuf {
    bed.dir.join(format!("{name}.jsonl"))
}

/// Runs `run` with a trace.
fn traced(bed: &Bed, c: &Container<'_>, code: i32) -> Timeline {
    let file = file(bed, &c.id);
    c.run_with(&["--trace", file.to_str().expect("path")]).exits(code);
    read(&file)
}

fn row<'a>(line: &'a Timeline, name: &str) -> &'a Row {
    let found = line.rows.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no row {name}: {line:#?}"))
}

fn names(row: &Row) -> Vec<String> {
    let name = |name: &str, object: &str| format!("{name} {object}").trim().to_owned();
    row.spans.iter().map(|span| name(&span.name, &span.object)).collect()
}

fn from_the_process_start_to_the_last_step(bed: &Bed) {
    let before = trace::now();
    let line = traced(bed, &bed.bundle().sh("exit 5").make(), 5);
    let after = trace::now();
    assert!(before <= line.start() && line.end() <= after, "{before} {after} {line:#?}");
    assert_eq!(line.command, "dayfly run");
    let host = row(&line, "parent");
    assert_eq!((host.spans[0].name.as_str(), host.spans[0].start), ("exec", host.start));
    let last = host.spans.last().expect("spans");
    assert_eq!((last.name.as_str(), last.phase), ("remove state", Phase::Shutdown));

    let (init, program) = (row(&line, "init"), row(&line, "program"));
    let exec = init.spans.last().expect("spans");
    assert_eq!((exec.name.as_str(), exec.end), ("exec", program.start));
    let index = line.rows.iter().position(|row| row.name == "program");
    let wait = host.spans.iter().find(|span| span.name == "container runs").expect("wait");
    assert_eq!(wait.wait, index.map(Awaited::Row));
    assert!(wait.end <= program.end && program.start <= wait.start, "{line:#?}");
    assert!(line.rows.iter().all(|row| row.lost == 0 && row.pid > 0), "{line:#?}");
}

fn times_add_up(bed: &Bed) {
    let line = traced(bed, &bed.bundle().args(&["/bin/true"]).make(), 0);
    for row in &line.rows {
        let account = Account::of(row);
        let work: u64 = Phase::ALL.iter().map(|phase| account.work(row, *phase)).sum();
        assert_eq!(work + account.waited(row) + account.between, row.took(), "{}", row.name);
        assert!(row.spans.iter().all(|span| row.start <= span.start && span.end <= row.end));
    }
}

/// The file contains the trace up to the program's start, even if the command is then killed.
fn while_the_program_runs(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make();
    let file = file(bed, &c.id);
    let running = c.bundle_call("run", &["--trace", file.to_str().expect("path")]).spawn();
    let started = |line: &Timeline| line.rows.iter().any(|row| row.name == "init");
    let line = wait::until("a draft", || {
        let text = fs::read_to_string(&file).ok()?;
        Timeline::from_lines(&text).ok().filter(started)
    });
    assert_eq!((line.command.as_str(), line.id.as_str()), ("dayfly run", c.id.as_str()));
    assert_eq!(names(row(&line, "init")).last().map(|name| name.starts_with("exec")), Some(true));
    running.signal(Signal::KILL);
    let _ = running.wait();
    assert_eq!(read(&file).id, c.id);
    c.delete_force().ok();
}

/// A FIFO keeps what is written to it, so the trace is written to it only once, at the end.
fn a_fifo_gets_one_trace(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let path = file(bed, &c.id);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("mkfifo");
    // Without a reader, a draft could not be written either.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let mut fifo = fs::File::from(open(&path, flags, Mode::empty()).expect("open FIFO"));
    c.run_with(&["--trace", path.to_str().expect("path")]).ok();
    let mut text = String::new();
    fifo.read_to_string(&mut text).expect("read FIFO");
    assert_eq!(text.matches("\"kind\":\"timeline\"").count(), 1, "{text}");
    let line = Timeline::from_lines(&text).expect("trace");
    let parent = names(row(&line, "parent"));
    assert_eq!(parent.last(), Some(&format!("remove state {}", c.id)));
}

fn every_planned_step_is_there(bed: &Bed) {
    // A separate process makes the network only if the host's load is low, and the blank namespace is not used while
    // another start makes it. Both are disabled, so that the steps do not depend on this.
    let without = "parallel-network,blank-namespace";
    let alike = |call: Call| call.env("DAYFLY_WITHOUT", without).run().ok();
    let c = bed.bundle().args(&["/bin/true"]).make();
    let plan = bed.call_bare(&["plan", "--format", "json", c.bundle.to_str().expect("path")]);
    let plan: Value = serde_json::from_str(&alike(plan).stdout).expect("JSON");
    let file = file(bed, "planned");
    alike(c.bundle_call("run", &["--trace", file.to_str().expect("path")]));
    let line = read(&file);
    let done = names(row(&line, "init"));
    for step in plan["init"].as_array().expect("steps") {
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        let planned = format!("{} {}", text("step"), text("object")).trim().to_owned();
        // The keyring's name contains the container's id, which a plan does not know. The plan is for `create`, which
        // has more steps: init announces that it is ready, and waits for `start` with few descriptors.
        let named = planned.replace(".plan", &format!(".{}", c.id));
        if !["await", "announce", "release"].iter().any(|word| planned.starts_with(word)) {
            assert!(done.contains(&named), "{planned:?} is not in {done:#?}");
        }
    }
}

/// A new seccomp filter is cached while the program runs, and the next start finds it.
fn a_filter_is_cached_after_the_launch(bed: &Bed) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    let domain = now.as_nanos() as u32;
    let rule = json!({ "names": ["personality"], "action": "SCMP_ACT_ERRNO", "args": [
        { "index": 0, "value": domain, "op": "SCMP_CMP_EQ" }] });
    let profile = json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule] });
    let c = bed.bundle().set("/linux/seccomp", profile).args(&["/bin/true"]).make();
    let file = file(bed, "cached");
    let steps = || {
        let call = c.bundle_call("run", &["--trace", file.to_str().expect("path")]);
        // The suite also runs without any fast path.
        call.env("DAYFLY_WITHOUT", "").run().ok();
        names(row(&read(&file), "parent"))
    };
    let (first, second) = (steps(), steps());
    let at = |step: &str| first.iter().position(|name| name.starts_with(step)).expect(step);
    let order = ["find seccomp", "clone", "cache seccomp", "container runs"].map(at);
    assert!(order.is_sorted(), "{first:?}");
    assert!(!second.iter().any(|name| name.starts_with("cache seccomp")), "{second:?}");
}

fn hooks_are_rows(bed: &Bed) {
    let hook = json!({ "path": "/bin/true" });
    let c = bed
        .bundle()
        .push("/hooks/createRuntime", hook.clone())
        .push("/hooks/createRuntime", hook.clone())
        .push("/hooks/poststop", hook)
        .args(&["/bin/true"])
        .make();
    let line = traced(bed, &c, 0);
    let hooks: Vec<usize> =
        (0..line.rows.len()).filter(|at| line.rows[*at].name == "hook").collect();
    assert_eq!(hooks.len(), 3, "{line:#?}");
    for at in hooks {
        let awaited = |span: &&trace::Span| span.wait == Some(Awaited::Row(at));
        let wait = row(&line, "parent").spans.iter().find(awaited).expect("awaited");
        assert_eq!((wait.start, wait.end), (line.rows[at].start, line.rows[at].end));
    }
}

fn create_start_kill_and_delete(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1000").make();
    let pattern = bed.dir.join("%i-%c.jsonl");
    let trace = ["--trace", pattern.to_str().expect("path")];
    c.create_with(&trace).ok();
    c.id_call("start", &trace, &[]).run().ok();
    c.id_call("kill", &trace, &["KILL"]).run().ok();
    c.wait_status("stopped");
    c.id_call("delete", &trace, &[]).run().ok();

    let of = |command: &str| read(&bed.dir.join(format!("{}-{command}.jsonl", c.id)));
    let create = of("create");
    // Init continues after `create` has ended, so its last step varies.
    let last = &row(&create, "init").spans.last().expect("spans").name;
    let goes_on = ["announce ready", "await commit", "release descriptors", "await start"];
    assert!(goes_on.contains(&last.as_str()), "{last}");
    assert!(create.rows.iter().all(|row| row.name != "program"));
    let start = of("start");
    let wait = row(&start, "parent").spans.iter().find(|span| span.name == "await exec");
    assert!(wait.is_some_and(|wait| wait.wait.is_some() && wait.errno == 0), "{start:#?}");
    assert!(row(&start, "program").start >= wait.expect("wait").end);
    let kill = of("kill");
    let span = |name: &str| row(&kill, "parent").spans.iter().any(|span| span.name == name);
    assert!(span("read record") && span("signal"), "{kill:#?}");
    let delete = names(row(&of("delete"), "parent"));
    for step in ["read record", "remove cgroup", "remove state"] {
        assert!(delete.iter().any(|name| name.starts_with(step)), "{step}: {delete:?}");
    }

    // With --force, delete waits for the program's end, and the trace shows it.
    let c = bed.bundle().sh("sleep 1000").make().detached();
    c.id_call("delete", &["--force", trace[0], trace[1]], &[]).run().ok();
    let forced = read(&bed.dir.join(format!("{}-delete.jsonl", c.id)));
    let wait = row(&forced, "parent").spans.iter().find(|span| span.name == "await exit");
    assert!(wait.is_some_and(|wait| wait.wait.is_some()), "{forced:#?}");
}

fn exec_in_a_container(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1000").make().detached();
    let file = file(bed, "exec");
    c.exec_with(&["--trace", file.to_str().expect("path")], &["/bin/sh", "-c", "exit 3"]).exits(3);
    let line = read(&file);
    assert_eq!(line.command, "dayfly exec");
    let init = names(row(&line, "init"));
    assert!(init.iter().any(|name| name.starts_with("join namespaces")), "{init:?}");
    assert!(row(&line, "program").took() > 0);
    c.delete_force().ok();
}

/// Returns the row of the process that failed first, in a trace that ends with the failure.
fn failure(line: &Timeline) -> (&Row, &trace::Span) {
    let failed = |row: &&Row| row.spans.iter().any(|span| span.errno != 0);
    let failed: Vec<&Row> = line.rows.iter().filter(failed).collect();
    // If init fails, the parent's row, which comes first, has a failure as well.
    let row = *failed.last().unwrap_or_else(|| panic!("nothing failed: {line:#?}"));
    let at = row.spans.iter().position(|span| span.errno != 0).expect("failed");
    assert_eq!(at + 1, row.spans.len(), "something after the failure: {row:#?}");
    (row, &row.spans[at])
}

fn a_failure_in_each_phase(bed: &Bed) {
    type Change = for<'a> fn(Bundle<'a>) -> Bundle<'a>;
    let cases: [(&str, &str, Phase, &str, Change); 9] = [
        ("cwd", "parent", Phase::Configuration, "parse config", |bundle| {
            bundle.set("/process/cwd", json!("relative"))
        }),
        ("seccomp", "parent", Phase::Security, "find seccomp filter", |bundle| {
            bundle.set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_NONE" }))
        }),
        ("rootfs", "parent", Phase::Mounts, "clone tree", |bundle| {
            bundle.set("/root/path", json!("/no/such/rootfs"))
        }),
        ("namespace", "parent", Phase::Platform, "open namespace", |bundle| {
            bundle.join_namespace("ipc", "/no/such/namespace")
        }),
        ("cgroup", "parent", Phase::Cgroups, "enter cgroup", |bundle| {
            bundle.set("/linux/resources/unified", json!({ "no.such": "1" }))
        }),
        ("mount", "init", Phase::Mounts, "mount", |bundle| {
            bundle.mount("nosuchfs", "none", "/mnt", &[])
        }),
        ("sysctl", "init", Phase::Platform, "write sysctl", |bundle| {
            bundle.set("/linux/sysctl", json!({ "net.core.no_such": "1" }))
        }),
        // The limit is above the kernel's own limit of descriptors (fs.nr_open), which no process may exceed.
        ("rlimit", "init", Phase::Security, "limit resources", |bundle| {
            let limit = 1_u64 << 62;
            let nofile = json!({ "type": "RLIMIT_NOFILE", "soft": limit, "hard": limit });
            bundle.set("/process/rlimits", json!([nofile]))
        }),
        ("program", "init", Phase::Bootstrap, "find program", |bundle| {
            bundle.args(&["/no/such/program"])
        }),
    ];
    for (what, actor, phase, step, change) in cases {
        let c = change(bed.bundle()).make();
        let file = file(bed, &c.id);
        let outcome = c.run_with(&["--trace", file.to_str().expect("path")]);
        assert_ne!(outcome.code(), 0, "{what}: {outcome}");
        let line = read(&file);
        let (row, span) = failure(&line);
        let seen = (row.name.as_str(), span.phase, span.name.as_str());
        assert_eq!(seen, (actor, phase, step), "{what}: {outcome}");
        assert_eq!(line.rows[0].spans[0].name, "exec", "{what}: complete up to there");
        assert!(line.rows.iter().all(|row| row.name != "program"), "{what}");
    }
}

/// If init is killed during a start, the trace shows at which step.
fn an_init_that_is_killed(bed: &Bed) {
    let script = "read state; pid=${state#*\\\"pid\\\":}; kill -9 ${pid%%[,\\}]*}";
    let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
    let c = bed.bundle().push("/hooks/createRuntime", hook).args(&["/bin/true"]).make();
    let file = file(bed, "killed");
    c.run_with(&["--trace", file.to_str().expect("path")]).fails("killed by SIGKILL");
    let line = read(&file);
    let last = row(&line, "init").spans.last().expect("spans");
    assert_eq!(last.name, "await hooks");
    assert!(last.end >= last.start && last.end <= line.end());
}

fn ten_thousand_steps(bed: &Bed) {
    let masks: Vec<String> = (0..10_000).map(|number| format!("/proc/no-such-{number}")).collect();
    let c = bed.bundle().set("/linux/maskedPaths", json!(masks)).args(&["/bin/true"]).make();
    let line = traced(bed, &c, 0);
    let init = row(&line, "init");
    assert!(init.spans.iter().filter(|span| span.name == "mask").count() == 10_000);
    assert_eq!((init.lost, init.spans.last().expect("spans").name.as_str()), (0, "exec"));
}

fn sixteen_at_once_do_not_mix(bed: &Bed) {
    let pattern = bed.dir.join("%i.jsonl");
    let all: Vec<Container<'_>> =
        (0..16).map(|_| bed.bundle().args(&["/bin/true"]).make()).collect();
    std::thread::scope(|scope| {
        for c in &all {
            let pattern = pattern.to_str().expect("path");
            scope.spawn(move || c.run_with(&["--trace", pattern]).ok());
        }
    });
    let mut pids = Vec::new();
    for c in &all {
        let line = read(&file(bed, &c.id));
        assert_eq!(line.id, c.id);
        let keyrings: Vec<String> =
            names(row(&line, "init")).into_iter().filter(|name| name.contains("keyring")).collect();
        assert_eq!(keyrings, [format!("join keyring _ses.{}", c.id)]);
        assert_eq!(line.rows.iter().filter(|row| row.name == "init").count(), 1);
        pids.push(row(&line, "init").pid);
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 16);
}

fn a_format_by_its_suffix(bed: &Bed) {
    let write = |suffix: &str| {
        let c = bed.bundle().args(&["/bin/true"]).make();
        let file = bed.dir.join(format!("trace{suffix}"));
        c.run_with(&["--trace", file.to_str().expect("path")]).ok();
        fs::read_to_string(file).expect("trace")
    };
    let chrome: Value = serde_json::from_str(&write(".json")).expect("JSON");
    assert!(chrome["traceEvents"].as_array().is_some_and(|events| events.len() > 50));
    assert!(write(".svg").starts_with("<svg"));
    assert!(write(".csv").lines().count() > 50);
    let folded = write(".folded");
    assert!(folded.lines().all(|line| line.rsplit_once(' ').is_some_and(|(stack, count)| {
        stack.starts_with("dayfly run;") && count.parse::<u64>().is_ok()
    })));
    for table in [write(".txt"), write("")] {
        for word in ["parent", "init", "security", "mounts", "platform", "cgroups", "bootstrap"] {
            assert!(table.contains(word), "{word}: {table}");
        }
    }
}

fn asked_for_by_the_environment(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1000").make();
    let pattern = bed.dir.join("env-%c.jsonl");
    let call = |verb: &str, rest: &[&str]| {
        let call = match verb {
            "create" => c.bundle_call(verb, &[]),
            _ => c.id_call(verb, &[], rest),
        };
        call.env("DAYFLY_TRACE", pattern.to_str().expect("path")).run().ok();
    };
    call("create", &[]);
    call("state", &[]);
    call("start", &[]);
    call("kill", &["KILL"]);
    c.wait_status("stopped");
    call("delete", &[]);
    for command in ["create", "start", "kill", "delete"] {
        let line = read(&bed.dir.join(format!("env-{command}.jsonl")));
        assert_eq!(line.command, format!("dayfly {command}"));
    }
    assert!(!bed.dir.join("env-state.jsonl").exists(), "state is nothing to trace");
}

const SPOOL: &str = "/run/dayfly-trace";

/// Returns the trace that an annotation has requested, and removes its file.
#[track_caller]
pub(crate) fn spooled(id: &str, command: &str) -> Timeline {
    let file = PathBuf::from(format!("{SPOOL}/{id}-{command}.jsonl"));
    let line = read(&file);
    fs::remove_file(&file).expect("remove trace");
    assert_eq!((&*line.command, &*line.id), (&*format!("dayfly {command}"), id));
    line
}

fn asked_for_by_annotation(bed: &Bed) {
    let annotations = json!({ "run.dayfly.trace": "jsonl" });
    let c = bed.bundle().set("/annotations", annotations).sh("sleep 1000").make();
    c.create().ok();
    c.start().ok();
    c.delete_force().ok();
    for command in ["create", "start", "delete"] {
        let line = spooled(&c.id, command);
        let host = row(&line, "parent");
        assert!(host.took() < 10_000_000_000 && host.start == line.start(), "{line:#?}");
    }
}

/// Containers traced by annotation must not fill /run: the oldest traces are removed.
fn annotations_fill_nothing(bed: &Bed) {
    const MOST: usize = 256;
    fs::create_dir_all(SPOOL).expect("make");
    let long_ago = SystemTime::now() - Duration::from_secs(86_400);
    let old = |number: usize| PathBuf::from(format!("{SPOOL}/{}-{number}.jsonl", bed.id()));
    let olds: Vec<PathBuf> = (0..MOST + 40).map(old).collect();
    for file in &olds {
        fs::File::create(file).and_then(|file| file.set_modified(long_ago)).expect("create");
    }
    let annotations = json!({ "run.dayfly.trace": "jsonl" });
    let c = bed.bundle().set("/annotations", annotations).args(&["/bin/true"]).make();
    c.run().ok();
    let new = PathBuf::from(format!("{SPOOL}/{}-run.jsonl", c.id));
    let left = olds.iter().filter(|file| file.exists()).count();
    let is_there = new.exists();
    for file in olds.iter().chain([&new]) {
        let _ = fs::remove_file(file);
    }
    assert!(is_there && left < MOST, "{left} old ones are left");
}

fn an_annotation_names_no_file(bed: &Bed) {
    let wanted = bed.dir.join("wanted.jsonl");
    let annotations = json!({ "run.dayfly.trace": wanted.to_str().expect("path") });
    let c = bed.bundle().set("/annotations", annotations).args(&["/bin/true"]).make();
    let outcome = c.run().ok();
    assert!(outcome.stderr.contains("no format"), "{outcome}");
    assert!(!wanted.exists());
}

fn a_file_that_cannot_be_written(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.run_with(&["--trace", "/no/such/directory/trace"]).fails("create trace");
    assert!(!c.exists());
}
