//! The limit of concurrent starts, `dayfly host limit`. Each case has an IPC namespace of its own, and thus a limit of
//! its own.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Running;
use dayfly_tests::wait;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use rustix::thread::set_thread_uid;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::thread;
use std::time::Duration;
use sys::clone::CloneFlags;
use topology::limit::{LONGEST_WAIT, Limit, Permit};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(a_start_waits_for_its_permit).unlike_runc(),
    case!(a_permit_lasts_from_bundle_to_program).unlike_runc(),
    case!(a_killed_start_gives_its_permit_back).unlike_runc(),
    case!(a_start_that_waits_can_be_killed).unlike_runc(),
    case!(no_longer_than_it_may).unlike_runc(),
    case!(lifted_while_somebody_waits).unlike_runc(),
    case!(in_order_of_arrival).unlike_runc(),
    case!(a_trace_tells_the_place_in_the_queue).unlike_runc(),
    case!(nothing_else_waits).unlike_runc(),
    case!(another_users_limit_is_none).unlike_runc(),
    case!(the_tool_sets_and_tells_it).needs(super::host::tool).unlike_runc(),
    case!(the_tool_measures_a_width).needs(super::host::tool).unlike_runc().alone(),
    case!(the_tool_refuses).needs(super::host::tool).unlike_runc(),
];

/// Runs `test` in an IPC namespace of its own.
fn alone(test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let test = scope.spawn(|| {
            sys::ns::unshare(CloneFlags::NEWIPC).expect("unshare IPC namespace");
            test();
        });
        test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Sets a limit of one start, and takes the only permit.
fn taken() -> (Limit, Permit) {
    let limit = Limit::set(1, LONGEST_WAIT).expect("limit");
    let permit = limit.try_admit().expect("permit");
    (limit, permit)
}

fn until_waiting(limit: &Limit, starts: usize) {
    let waiting = || limit.state().is_some_and(|state| state.waiting == starts);
    wait::until_true(&format!("{starts} to wait for a permit"), waiting);
}

fn free(limit: &Limit) -> usize {
    limit.state().expect("limit").free
}

/// Returns a container whose start is blocked by a hook, and the pipe that the hook reads: the hook exits when it has
/// read a line, or when the pipe is closed.
fn held_up(bed: &Bed) -> (Container<'_>, File) {
    let path = bed.dir.join("go");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("mkfifo");
    // The FIFO is opened for reading and writing, so that neither this open(2) nor the hook's blocks.
    let pipe = File::options().read(true).write(true).open(&path).expect("open pipe");
    let hook = format!("read line < {}", path.display());
    let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", hook] });
    (bed.bundle().sh("sleep 100").push("/hooks/createRuntime", hook).make(), pipe)
}

fn let_go(mut pipe: &File) {
    pipe.write_all(b"\n").expect("write to pipe");
}

/// Starts `run`.
fn run(c: &Container<'_>) -> Running {
    c.bundle_call("run", &[]).spawn()
}

fn a_start_waits_for_its_permit(bed: &Bed) {
    let (run_one, create_one) = (bed.bundle().args(&["true"]).make(), bed.bundle().make());
    alone(|| {
        let (limit, permit) = taken();
        let running = run(&run_one);
        until_waiting(&limit, 1);
        assert!(!run_one.exists(), "made before it was admitted");
        drop(permit);
        running.wait().ok();
        assert_eq!(free(&limit), 1);

        let permit = limit.try_admit().expect("permit");
        let creating = create_one.bundle_call("create", &[]).spawn();
        until_waiting(&limit, 1);
        drop(permit);
        creating.wait().ok();
        assert_eq!((create_one.status().as_str(), free(&limit)), ("created", 1));
    });
    create_one.delete_force().ok();
}

fn a_permit_lasts_from_bundle_to_program(bed: &Bed) {
    let (c, pipe) = held_up(bed);
    alone(|| {
        let limit = Limit::set(1, LONGEST_WAIT).expect("limit");
        let running = run(&c);
        wait::until_true("the start to have the permit", || free(&limit) == 0);
        let_go(&pipe);
        // The permit is released as soon as the program runs, even though `run` stays in the foreground.
        wait::until_true("the permit to be free", || free(&limit) == 1);
        assert_eq!(c.status(), "running");
        c.kill("KILL").ok();
        assert_eq!(running.wait().code(), 137);
        assert_eq!(free(&limit), 1);
    });
}

fn a_killed_start_gives_its_permit_back(bed: &Bed) {
    let (c, _pipe) = held_up(bed);
    alone(|| {
        let limit = Limit::set(1, LONGEST_WAIT).expect("limit");
        let running = run(&c);
        wait::until_true("the start to have the permit", || free(&limit) == 0);
        running.signal(Signal::KILL);
        assert!(running.wait().died_of_signal());
        assert_eq!(free(&limit), 1);
    });
    // A hook that opens the FIFO later, when nobody has it open for writing, would wait forever.
    fs::remove_file(bed.dir.join("go")).expect("remove FIFO");
    c.delete_force().ok();
}

fn a_start_that_waits_can_be_killed(bed: &Bed) {
    let c = bed.bundle().make();
    alone(|| {
        let (limit, permit) = taken();
        for signal in [Signal::TERM, Signal::KILL] {
            let running = run(&c);
            until_waiting(&limit, 1);
            running.signal(signal);
            assert!(running.wait().died_of_signal());
            until_waiting(&limit, 0);
        }
        drop(permit);
        assert_eq!(free(&limit), 1);
    });
    assert!(!c.exists());
}

fn no_longer_than_it_may(bed: &Bed) {
    let c = bed.bundle().args(&["true"]).make();
    alone(|| {
        let limit = Limit::set(1, Duration::from_secs(1)).expect("limit");
        let permit = limit.try_admit().expect("permit");
        let outcome = run(&c).wait().ok();
        assert!(outcome.log().contains("no permit to start in 1 s"), "{outcome}");
        drop(permit);
        assert_eq!(free(&limit), 1);
    });
}

fn lifted_while_somebody_waits(bed: &Bed) {
    let (one, two) = (bed.bundle().args(&["true"]).make(), bed.bundle().args(&["true"]).make());
    alone(|| {
        let (limit, _permit) = taken();
        let running = run(&one);
        until_waiting(&limit, 1);
        assert_eq!(Limit::lift(), Ok(true));
        running.wait().ok();

        let (limit, permit) = taken();
        let running = run(&two);
        until_waiting(&limit, 1);
        // A new limit replaces the old one, and the waiting start gets a permit of the new limit.
        let other = Limit::set(2, LONGEST_WAIT).expect("limit");
        running.wait().ok();
        drop(permit);
        assert_eq!(free(&other), 2);
    });
}

fn in_order_of_arrival(bed: &Bed) {
    let order = bed.dir.join("order");
    fs::create_dir(&order).expect("make directory");
    let containers: Vec<Container<'_>> = (0..5)
        .map(|number| {
            let write = format!("echo {number} >> {}/all", order.display());
            let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", write] });
            let bundle = bed.bundle().args(&["true"]).push("/hooks/createRuntime", hook);
            bundle.make()
        })
        .collect();
    alone(|| {
        let (limit, permit) = taken();
        let mut running = Vec::new();
        for (before, container) in containers.iter().enumerate() {
            running.push(run(container));
            until_waiting(&limit, before + 1);
        }
        drop(permit);
        running.into_iter().for_each(|running| drop(running.wait().ok()));
        assert_eq!(free(&limit), 1);
    });
    assert_eq!(fs::read_to_string(order.join("all")).expect("order"), "0\n1\n2\n3\n4\n");
}

fn a_trace_tells_the_place_in_the_queue(bed: &Bed) {
    let (one, two) = (bed.bundle().args(&["true"]).make(), bed.bundle().args(&["true"]).make());
    let file = bed.dir.join("trace.jsonl");
    alone(|| {
        let (limit, permit) = taken();
        let first = run(&one);
        until_waiting(&limit, 1);
        let flags = ["--trace", file.to_str().expect("path")];
        let second = two.bundle_call("run", &flags).spawn();
        until_waiting(&limit, 2);
        drop(permit);
        first.wait().ok();
        second.wait().ok();
    });
    let text = fs::read_to_string(file).expect("trace");
    let spans = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let span = spans.into_iter().find(|span| span["name"] == "await permit").expect("a span");
    assert_eq!(span["object"], "1 before it, 1 at once", "{span}");
}

fn nothing_else_waits(bed: &Bed) {
    let c = bed.bundle().sh("sleep 100").make();
    alone(|| {
        c.create().ok();
        let (limit, _permit) = taken();
        c.start().ok();
        c.exec(&["true"]).ok();
        c.delete_force().ok();
        assert_eq!(free(&limit), 0);
    });
}

fn another_users_limit_is_none(bed: &Bed) {
    let c = bed.bundle().args(&["true"]).make();
    alone(|| {
        let nobody = rustix::process::Uid::from_raw(65534);
        let (limit, permit) = thread::spawn(move || {
            set_thread_uid(nobody).expect("setuid");
            taken()
        })
        .join()
        .expect("a limit of nobody's");
        run(&c).wait().ok();
        drop(permit);
        assert_eq!(limit.state().map(|state| state.free), Some(1));
        // A limit that root sets replaces the other user's limit.
        let own = Limit::set(1, LONGEST_WAIT).expect("limit");
        assert_eq!(Limit::find(), Some(own));
    });
}

fn status(bed: &Bed) -> Value {
    let outcome = bed.call_bare(&["host", "limit", "status", "--format", "json"]).run().ok();
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn the_tool_sets_and_tells_it(bed: &Bed) {
    let tool = |words: &str| {
        let words: Vec<&str> = ["host", "limit"].into_iter().chain(words.split(' ')).collect();
        bed.call_bare(&words).run().ok().stdout
    };
    alone(|| {
        assert_eq!(tool("status"), "starts are not limited\n");
        assert_eq!(status(bed)["limit"], Value::Null);
        assert!(tool("set 4 --longest 30").starts_with("at most 4 starts in flight at once"));
        let permit = Limit::find().and_then(|limit| limit.try_admit()).expect("permit");
        let limit = json!({ "width": 4, "in_flight": 1, "waiting": 0, "longest_s": 30 });
        assert_eq!(status(bed)["limit"], limit);
        let line = "at most 4 starts in flight at once: 1 now, 0 waiting, each for up to 30 s\n";
        assert_eq!(tool("status"), line);
        drop(permit);
        assert!(tool("set 1").starts_with("at most 1 start in flight at once"));
        assert_eq!(status(bed)["limit"]["width"], 1);
        assert_eq!(tool("off"), "starts are no longer limited\n");
        assert_eq!(tool("off"), "starts were not limited\n");
    });
}

fn the_tool_measures_a_width(bed: &Bed) {
    alone(|| {
        let _ = bed.call_bare(&["host", "limit", "set", "auto"]).run().ok();
        let width = status(bed)["limit"]["width"].as_u64().expect("a width");
        let cpus = thread::available_parallelism().map_or(1, usize::from) as u64;
        assert!((1..=cpus).contains(&width), "{width} starts with {cpus} CPUs");
    });
}

fn the_tool_refuses(bed: &Bed) {
    for words in [
        &["set", "0"][..],
        &["set", "many"],
        &["set", "40000"],
        &["set", "1", "--longest", "0"],
        &["set"],
        &[],
    ] {
        let outcome = bed.call_bare(&[&["host", "limit"], words].concat()).run();
        assert_eq!(outcome.code(), 1, "{outcome}");
    }
}
