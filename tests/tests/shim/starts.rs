//! Start: of frozen containers, of programs that can't be executed, with hooks, and of inits that are killed.

use super::{Task, is_missing};
use crate::traces::spooled;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use proto::messages::events::{TaskExit, TaskStart, topic};
use proto::messages::process::status;
use proto::messages::task::{Method, StartRequest, StartResponse};
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use serde_json::json;
use std::fs;
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(frozen_init).unlike_runc(),
    case!(late_start_of_a_frozen_init).unlike_runc(),
    case!(no_such_program).unlike_runc(),
    case!(killed_init).unlike_runc(),
    case!(with_hooks).unlike_runc(),
    case!(without_a_process_of_its_own).unlike_runc(),
    case!(traced_by_an_annotation).unlike_runc(),
];

fn created<'a>(bed: &'a Bed, args: &[&str]) -> Task<'a> {
    Task::created(bed.bundle().args(args).make(), None)
}

fn request(task: &Task<'_>) -> StartRequest {
    StartRequest { id: task.id(), ..StartRequest::default() }
}

fn start(task: &Task<'_>) -> Result<StartResponse, Status> {
    task.shim.call(Method::Start, &request(task))
}

/// Start fails if init is frozen, and the thaw does not start the program afterwards. A second Start after the thaw
/// succeeds.
fn frozen_init(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = created(bed, &["sleep", "1000"]);
    task.shim.dayfly(&["pause", &task.id()]).run().ok();
    let refused = start(&task).unwrap_err();
    assert_eq!(refused.code, code::UNKNOWN, "{refused}");
    let text = "OCI runtime start failed: cannot start a container in the paused state";
    assert_eq!(refused.message, text);
    task.shim.dayfly(&["resume", &task.id()]).run().ok();
    assert_eq!(task.state().status, status::CREATED);
    assert!(start(&task).expect("start after the thaw").pid > 0);
    assert_eq!(task.state().status, status::RUNNING);
    let topics = task.shim.events.topics_to(topic::TASK_START);
    assert_eq!(topics, [topic::TASK_CREATE, topic::TASK_START]);
    task.finish();
}

/// The caller no longer waits, and so cannot learn whether the program runs. Therefore the
/// container is killed.
fn late_start_of_a_frozen_init(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = created(bed, &["sleep", "1000"]);
    task.shim.dayfly(&["pause", &task.id()]).run().ok();
    let call = task.shim.send_within(Duration::from_millis(30), Method::Start, &request(&task));
    let late = task.shim.answer(call).unwrap_err();
    assert_eq!(late.code, code::DEADLINE_EXCEEDED, "{late}");
    // In a frozen v1 cgroup, SIGKILL takes effect after the thaw.
    if bed.view.has_v1() {
        task.shim.dayfly(&["resume", &task.id()]).run().ok();
    }
    assert_eq!((task.wait(""), task.state().status), (137, status::STOPPED));
    task.finish();
}

/// The failure is reported once init has exited, so that the container can be deleted at once. The
/// shim waits only a short time for the exit. Therefore, on a busy host, the test requires this
/// only for most of ten containers.
fn no_such_program(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let at_once = (0..10).filter(|_| {
        let task = created(bed, &["/bin/sh"]);
        // The program exists when the container is created, but no longer exists when it is
        // started.
        fs::remove_file(task.container.bundle.join("rootfs/bin/sh")).expect("remove the program");
        let failed = start(&task).unwrap_err();
        let is_at_once = task.state().status == status::STOPPED;
        assert_eq!(failed.code, code::UNKNOWN, "{failed}");
        assert!(failed.message.starts_with("OCI runtime start failed: "), "{failed}");
        assert!(failed.message.contains("no such file or directory"), "{failed}");
        let topics = task.shim.events.topics_to(topic::TASK_EXIT);
        assert_eq!(topics, [topic::TASK_CREATE, topic::TASK_EXIT]);
        task.delete("");
        task.shut_down();
        is_at_once
    });
    assert!(at_once.count() > 5);
}

fn killed_init(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = created(bed, &["sleep", "1000"]);
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    let refused = start(&task).unwrap_err();
    assert_eq!(refused.code, code::FAILED_PRECONDITION, "{refused}");
    task.finish();
}

/// Poststart hooks run after the program's start, as they do if a worker starts the program. If the program exits at
/// once, its start event still comes before its exit event.
fn with_hooks(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let witness = bed.dir.join("witness");
    let hook = json!([{
        "path": "/bin/sh", "args": ["sh", "-c", format!("echo ran >> {}", witness.display())],
    }]);
    let bundle = bed.bundle().args(&["true"]).set("/hooks/poststart", hook);
    let task = Task::created(bundle.make(), None);
    let pid = start(&task).expect("start").pid;
    assert_eq!(fs::read_to_string(&witness).expect("the hook's file"), "ran\n");
    assert_eq!(task.wait(""), 0);
    task.shim.events.topics_to(topic::TASK_CREATE);
    assert_eq!(task.shim.events.next_of::<TaskStart>().pid, pid);
    assert_eq!(task.shim.events.next_of::<TaskExit>().pid, pid);
    task.finish();
}

/// Start creates no process, so the shim reaps no child during the call.
fn without_a_process_of_its_own(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = created(bed, &["sleep", "1000"]);
    let faults = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", task.shim.pid())).expect("stat");
        // Fields 11 and 13: minor and major page faults of children that were waited for (proc_pid_stat(5)).
        let after = stat.rsplit_once(") ").expect("name").1;
        let fields: Vec<i64> = after.split(' ').filter_map(|field| field.parse().ok()).collect();
        (fields[7], fields[9])
    };
    let before = faults();
    start(&task).expect("start");
    assert_eq!(faults(), before);
    task.finish();
}

/// The trace of a call begins when the shim creates a worker for the call, not when the shim itself was executed.
fn traced_by_an_annotation(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let annotations = json!({ "run.dayfly.trace": "jsonl" });
    let bundle = bed.bundle().set("/annotations", annotations).args(&["sleep", "1000"]);
    let task = Task::started(bundle.make(), None);
    let id = task.id();
    task.finish();
    for command in ["create", "start", "delete"] {
        let line = spooled(&id, command);
        let row = line.rows.first().expect("a row");
        let first = row.spans.first().expect("a step");
        assert_eq!((first.name.as_str(), first.object.as_str()), ("clone", "worker"), "{row:#?}");
        assert_eq!(first.start, line.start());
    }
}
