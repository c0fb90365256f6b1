//! Calls that collide, and processes that end at bad moments: every call is answered, and nothing is left.

use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Line, Shim, connect, creation, program};
use proto::messages::events::{TaskExit, topic};
use proto::messages::options::Options;
use proto::messages::process::status;
use proto::messages::task::{
    CreateTaskResponse, DeleteRequest, DeleteResponse, Method, ShutdownRequest, StartRequest,
    StartResponse, WaitRequest,
};
use proto::messages::time::Empty;
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(programs_that_end_at_once).unlike_runc(),
    case!(deleted_with_its_execs).unlike_runc(),
    case!(deleted_twice).unlike_runc(),
    case!(created_twice_and_deleted).unlike_runc(),
    case!(waits_have_limits).unlike_runc(),
    case!(create_that_takes_too_long).unlike_runc(),
    case!(create_whose_worker_dies).unlike_runc(),
    case!(create_that_ends_before_it_claims).unlike_runc(),
    case!(start_that_takes_too_long).unlike_runc(),
    case!(comes_back_for_another).unlike_runc(),
    case!(ends_after_who_only_connects).unlike_runc(),
    case!(rest_ends_with_init).unlike_runc(),
    case!(as_many_connections_as_containers).unlike_runc(),
    case!(replaced_programs).unlike_runc(),
];

pub(super) fn sleeper(bed: &Bed) -> Container<'_> {
    bed.bundle().args(&["sleep", "1000"]).make()
}

/// The shim may learn of a program's exit before the worker that started the program has exited.
fn programs_that_end_at_once(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    let names: Vec<String> = (0..40).map(|number| format!("e{number}")).collect();
    for name in &names {
        task.exec(name, "exit 6", None);
    }
    let request = |name: &String| StartRequest { id: task.id(), exec_id: name.clone() };
    let starts: Vec<u32> =
        names.iter().map(|name| task.shim.send(Method::Start, &request(name))).collect();
    for (name, start) in names.iter().zip(starts) {
        let answer = StartResponse::decode(&task.shim.answer(start).expect("start"));
        assert!(answer.expect("answer").pid > 0);
        assert_eq!((task.wait(name), task.delete(name).exit_status), (6, 6));
    }
    // No exit event comes before the start event of its process.
    let mut seen = [0, 0];
    while seen[1] < names.len() {
        match task.shim.events.next().topic.as_str() {
            topic::TASK_EXEC_STARTED => seen[0] += 1,
            topic::TASK_EXIT => seen[1] += 1,
            _ => {}
        }
        assert!(seen[1] <= seen[0], "{seen:?}");
    }
    task.finish();
}

/// A process that was prepared by Exec but never started is deleted with its container, and calls that wait for it are
/// answered.
fn deleted_with_its_execs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    task.exec("never", "true", None);
    let request = WaitRequest { id: task.id(), exec_id: "never".into() };
    let wait = task.shim.send(Method::Wait, &request);
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    task.delete("");
    let refused = task.shim.answer(wait).unwrap_err();
    assert_eq!(refused.code, code::NOT_FOUND, "{refused}");
    task.shut_down();
}

fn deleted_twice(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    let request = DeleteRequest { id: task.id(), ..DeleteRequest::default() };
    let calls = [0, 1, 2].map(|_| task.shim.send(Method::Delete, &request));
    let answers = calls.map(|call| task.shim.answer(call));
    let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1, "{refused:?}");
    for answer in done.into_iter().flatten() {
        assert_eq!(DeleteResponse::decode(&answer).expect("answer").exit_status, 137);
    }
    for status in refused.into_iter().filter_map(Result::err) {
        assert_eq!(status.code, code::NOT_FOUND, "{status}");
    }
    task.shut_down();
}

fn created_twice_and_deleted(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = sleeper(bed);
    let shim = Shim::start(&container);
    let request = creation(&container, None);
    let calls = [0, 1].map(|_| shim.send(Method::Create, &request));
    let [first, second] = calls.map(|call| shim.answer(call));
    first.expect("create");
    assert_eq!(second.unwrap_err().code, code::ALREADY_EXISTS);
    // The container was never started: deleting it ends its init.
    let task = Task { container, shim };
    assert_eq!(task.delete("").exit_status, 137);
    let topics = task.shim.events.topics_to(topic::TASK_DELETE);
    assert_eq!(topics, [topic::TASK_CREATE, topic::TASK_EXIT, topic::TASK_DELETE]);
    task.shut_down();
}

fn waits_have_limits(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    let request = WaitRequest { id: task.id(), ..WaitRequest::default() };
    let wait = task.shim.send_within(Duration::from_millis(30), Method::Wait, &request);
    let late = task.shim.answer(wait).unwrap_err();
    assert_eq!(late.code, code::DEADLINE_EXCEEDED, "{late}");
    task.finish();
}

/// Returns a FIFO, and a hook that waits until something is written to the FIFO.
pub(super) fn gate(bed: &Bed) -> (PathBuf, Value) {
    let gate = bed.dir.join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, 0o600.into()).expect("mkfifo");
    let script = format!("read line <{}; exit 0", gate.display());
    (gate, json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }]))
}

/// Returns a container whose creation is blocked by a hook, and the FIFO that releases it.
pub(super) fn kept(bed: &Bed) -> (Container<'_>, PathBuf) {
    let (gate, hook) = gate(bed);
    let bundle = bed.bundle().args(&["sleep", "1000"]);
    (bundle.set("/hooks/createRuntime", hook).make(), gate)
}

/// The shim removes everything that was made before the timeout, and only then answers, so that the name can be used
/// again. Waiting calls are answered.
fn create_that_takes_too_long(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (container, gate) = kept(bed);
    let shim = Shim::start(&container);
    let request = creation(&container, None);
    let create = shim.send_within(Duration::from_millis(100), Method::Create, &request);
    let wait = WaitRequest { id: container.id.clone(), ..WaitRequest::default() };
    let wait = shim.send(Method::Wait, &wait);
    let late = shim.answer(create).unwrap_err();
    assert_eq!(late.code, code::DEADLINE_EXCEEDED, "{late}");
    assert_eq!(shim.answer(wait).unwrap_err().code, code::NOT_FOUND);
    assert_created_anew(container, shim, &gate);
}

fn create_whose_worker_dies(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (container, gate) = kept(bed);
    let shim = Shim::start(&container);
    let request = creation(&container, None);
    let create = shim.send(Method::Create, &request);
    let worker = dayfly_tests::wait::until("the worker", || children(shim.pid()).pop());
    kill_process(worker, Signal::KILL).expect("kill");
    let cut = shim.answer(create).unwrap_err();
    assert_eq!(cut.code, code::ABORTED, "{cut}");
    assert_created_anew(container, shim, &gate);
}

/// If a worker is killed before it claims the id, a container that a command has created under this id stays unchanged.
fn create_that_ends_before_it_claims(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = sleeper(bed);
    let shim = Shim::start(&container);
    let bundle = container.bundle.display().to_string();
    shim.dayfly(&["run", "--detach", "--bundle", &bundle, &container.id]).run().ok();
    let request = creation(&container, None);
    for limit in [1, 1000, 100_000, 1_000_000, 10_000_000].map(Duration::from_nanos) {
        let create = shim.send_within(limit, Method::Create, &request);
        let refused = shim.answer(create).unwrap_err();
        let is_known = [code::DEADLINE_EXCEEDED, code::ALREADY_EXISTS].contains(&refused.code);
        assert!(is_known, "{limit:?}: {refused}");
        let state = shim.dayfly(&["state", &container.id]).run().ok().stdout;
        assert!(state.contains("\"status\": \"running\""), "{limit:?}: {state}");
    }
    shim.dayfly(&["delete", "--force", &container.id]).run().ok();
    let request = ShutdownRequest { id: container.id.clone(), now: false };
    shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
    shim.wait_for_its_end();
}

/// Opens the FIFO of [`gate`] for reading and writing, so that open(2) does not wait for a reader: the hook may never
/// have been executed. A hook that waits for a writer goes on.
pub(super) fn opened(gate: &Path) -> fs::File {
    fs::File::options().read(true).write(true).open(gate).expect("open the gate")
}

/// Writes lines to the FIFO of [`gate`] until the call is answered: the hook of an earlier call may read a line, too.
pub(super) fn answer_past(gate: &Path, shim: &Shim<'_>, call: u32) -> Result<Vec<u8>, Status> {
    loop {
        std::io::Write::write_all(&mut opened(gate), b"go\n").expect("write");
        if let Some(answer) = shim.answer_within(call, Duration::from_millis(50)) {
            break answer;
        }
    }
}

#[track_caller]
fn assert_created_anew(container: Container<'_>, shim: Shim<'_>, gate: &Path) {
    let request = creation(&container, None);
    let create = shim.send(Method::Create, &request);
    answer_past(gate, &shim, create).expect("create");
    let task = Task { container, shim };
    task.start("");
    task.finish();
}

/// After the timeout it is unknown whether the program was started, so the shim kills the container.
fn start_that_takes_too_long(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (gate, hook) = gate(bed);
    let bundle = bed.bundle().args(&["sleep", "1000"]);
    let task = Task::created(bundle.set("/hooks/poststart", hook).make(), None);
    let request = StartRequest { id: task.id(), ..StartRequest::default() };
    let start = task.shim.send_within(Duration::from_millis(100), Method::Start, &request);
    let late = task.shim.answer(start).unwrap_err();
    assert_eq!(late.code, code::DEADLINE_EXCEEDED, "{late}");
    assert_eq!((task.wait(""), task.state().status), (137, status::STOPPED));
    drop(opened(&gate));
    task.finish();
}

/// A shim that was asked to shut down but still has events to deliver serves a client that connects meanwhile.
fn comes_back_for_another(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let mut task = Task::started(sleeper(bed), None);
    let frozen = std::sync::Arc::clone(&task.shim.events.frozen);
    let guard = frozen.lock().expect("lock");
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    task.delete("");
    let request = ShutdownRequest { id: task.id(), now: false };
    task.shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
    let line = Line::to(&task.shim.address);
    assert_eq!(line.pid(), task.shim.pid());
    drop(guard);
    task.shim.events.topics_to(topic::TASK_DELETE);
    task.container = sleeper(bed);
    let request = creation(&task.container, None);
    line.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    drop(line);
    task.start("");
    task.finish();
}

/// Two clients connect just before the shutdown. One of them is accepted when the shim no longer expects clients.
fn ends_after_who_only_connects(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    task.delete("");
    task.shim.events.topics_to(topic::TASK_DELETE);
    let number = task.shim.pid();
    let pid = Pid::from_raw(number as i32).expect("pid");
    kill_process(pid, Signal::STOP).expect("stop");
    let askers = [(); 2].map(|()| connect(&task.shim.address));
    let request = ShutdownRequest { id: task.id(), now: false };
    let shutdown = task.shim.send(Method::Shutdown, &request);
    kill_process(pid, Signal::CONT).expect("continue");
    task.shim.answer(shutdown).expect("shutdown");
    drop(askers);
    task.await_end(number);
}

/// Returns the children of a single-threaded process.
pub(super) fn children(pid: u32) -> Vec<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Without a PID namespace of the container's own, the other processes do not end with init by themselves.
fn rest_ends_with_init(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let script = "sleep 1000 & exit 3";
    let container = bed.bundle().without_namespace("pid").sh(script).make();
    let task = Task::started(container, None);
    assert_eq!(task.wait(""), 3);
    let controller = if bed.view.has_v1() { "pids" } else { "" };
    let left = || task.container.cgroup_read(controller, "cgroup.procs");
    dayfly_tests::wait::until_true("the rest to end", || left().trim().is_empty());
    let container = sleeper_beside(bed);
    let second = Task::started(container, None);
    second.exec("e", "sleep 1000", None);
    second.start("e");
    second.kill(9);
    let topics = second.shim.events.topics_to(topic::TASK_EXEC_STARTED);
    assert_eq!(topics.len(), 4, "{topics:?}");
    let ends = [0, 1].map(|_| second.shim.events.next_of::<TaskExit>().id);
    assert_eq!(ends, ["e".to_owned(), second.id()]);
    second.finish();
    task.finish();
}

fn sleeper_beside(bed: &Bed) -> Container<'_> {
    bed.bundle().without_namespace("pid").args(&["sleep", "1000"]).make()
}

/// containerd makes a connection for each container of a pod.
fn as_many_connections_as_containers(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    let lines: Vec<Line> = (0..50).map(|_| Line::to(&task.shim.address)).collect();
    let request = WaitRequest { id: task.id(), ..WaitRequest::default() };
    for line in &lines {
        assert_eq!(line.pid(), task.shim.pid());
        line.send(Method::Wait, &request);
    }
    let pid = task.shim.pid() as i32;
    assert!(dayfly_tests::leak::descriptors(pid).len() > 50);
    drop(lines);
    let open = || dayfly_tests::leak::descriptors(pid).len();
    dayfly_tests::wait::until_true("connections to be closed", || open() < 20);
    task.finish();
}

/// A pod continues when the programs are replaced on disk, and the new programs work with the pod.
fn replaced_programs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let new = program(bed).expect("shim");
    let old = bed.dir.join("containerd-shim-dayfly-v2");
    dayfly_tests::program::copy(&new, &old);
    let container = sleeper(bed);
    let shim = Shim::start_by(old.clone(), &container, Options::default(), &[]);
    let request = creation(&container, None);
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let mut task = Task { container, shim };
    task.start("");
    fs::remove_file(&old).expect("unlink");
    fs::write(&old, "#!/bin/false\n").expect("write");
    task.exec("e", "exit 5", None);
    task.start("e");
    assert_eq!(task.wait("e"), 5);
    let id = task.id();
    assert_eq!(task.shim.dayfly(&["exec", &id, "echo", "new"]).run().ok().stdout, "new\n");
    let list = task.shim.dayfly(&["list"]).run().ok();
    assert!(list.stdout.contains(&id), "{list}");
    // Runs `delete` of the new program, as containerd does when a shim dies.
    let pid = Pid::from_raw(task.shim.pid() as i32).expect("pid");
    kill_process(pid, Signal::KILL).expect("kill");
    task.shim.program = new;
    let output = task.shim.delete(&task.container);
    assert!(output.status.success(), "{output:?}");
    task.container.assert_gone("the new program's delete");
}
