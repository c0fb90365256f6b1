//! containerd-shim-dayfly-v2: tasks over ttrpc, without containerd.

#[path = "shim/bus.rs"]
pub mod bus;
#[path = "shim/calls.rs"]
pub mod calls;
#[path = "shim/cancelled.rs"]
pub mod cancelled;
#[path = "shim/checkpoint.rs"]
pub mod checkpoint;
#[path = "shim/crash.rs"]
pub mod crash;
#[path = "shim/inherited.rs"]
pub mod inherited;
#[path = "shim/limits.rs"]
pub mod limits;
pub mod named;
#[path = "shim/options.rs"]
pub mod options;
#[path = "shim/races.rs"]
pub mod races;
#[path = "shim/restore.rs"]
pub mod restore;
#[path = "shim/roots.rs"]
pub mod roots;
#[path = "shim/settings.rs"]
pub mod settings;
#[path = "shim/starts.rs"]
pub mod starts;
#[path = "shim/task.rs"]
mod task;
#[path = "shim/templates.rs"]
pub mod templates;
#[path = "shim/terminal.rs"]
pub mod terminal;
#[path = "shim/upgrade.rs"]
pub mod upgrade;

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Pipes, Shim, creation, program};
use proto::messages::any::Any;
use proto::messages::events::{TaskCreate, TaskDelete, TaskExecAdded, TaskExit, TaskStart, topic};
use proto::messages::mount::Mount;
use proto::messages::process::status;
use proto::messages::specs;
use proto::messages::task::{
    CloseIORequest, CreateTaskResponse, DeleteRequest, DeleteResponse, ExecProcessRequest,
    KillRequest, Method, PauseRequest, PidsRequest, PidsResponse, ResumeRequest, StartRequest,
    StartResponse, StateRequest, StateResponse, StatsRequest, StatsResponse, UpdateTaskRequest,
    WaitRequest, WaitResponse,
};
use proto::messages::time::Empty;
use proto::ttrpc::status::code;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use task::Task;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(whole_life).unlike_runc(),
    case!(events_come_in_order).unlike_runc(),
    case!(exit_status_and_output).unlike_runc(),
    case!(exec_has_streams_of_its_own).unlike_runc(),
    case!(exec_ends_before_init).unlike_runc(),
    case!(input_ends_by_close_io).unlike_runc(),
    case!(missing_program).unlike_runc(),
    case!(wait_is_answered_at_the_end).unlike_runc(),
    case!(refusals).unlike_runc(),
    case!(pause_resume_update).unlike_runc(),
    case!(pids_and_stats).unlike_runc(),
    case!(commands_work_beside_it).unlike_runc(),
    case!(killed_shim).unlike_runc(),
    case!(many_execs).unlike_runc(),
    case!(slow_hook_keeps_nobody).unlike_runc(),
];

/// Returns whether the shim is missing, and prints a note if so.
fn is_missing(bed: &Bed) -> bool {
    let is_missing = program(bed).is_none();
    if is_missing {
        println!("skipped: no containerd-shim-dayfly-v2 beside the runtime: make build");
    }
    is_missing
}

/// Returns a mount of a directory as the root filesystem.
fn root_at(source: &Path) -> Mount {
    Mount {
        kind: "bind".into(),
        source: source.display().to_string(),
        options: vec!["rbind".into(), "rw".into()],
        ..Mount::default()
    }
}

fn whole_life(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::created(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let state = task.state();
    assert_eq!((state.status, state.exit_status), (status::CREATED, 0));
    assert_eq!(state.bundle, task.container.bundle.to_string_lossy());
    assert_eq!(task.start(""), state.pid);
    assert_eq!(task.state().status, status::RUNNING);
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    let state = task.state();
    assert_eq!((state.status, state.exit_status), (status::STOPPED, 137));
    assert!(state.exited_at.is_some());
    let deleted = task.delete("");
    assert_eq!((deleted.pid, deleted.exit_status), (state.pid, 137));
    task.shut_down();
}

fn events_come_in_order(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let created: TaskCreate = task.shim.events.next_of();
    assert_eq!((&created.container_id, created.pid), (&task.id(), task.state().pid));
    let started: TaskStart = task.shim.events.next_of();
    assert_eq!(started.pid, created.pid);
    task.exec("one", "exit 4", None);
    let added: TaskExecAdded = task.shim.events.next_of();
    assert_eq!(added.exec_id, "one");
    let pid = task.start("one");
    assert_eq!(task.shim.events.next().topic, topic::TASK_EXEC_STARTED);
    let exited: TaskExit = task.shim.events.next_of();
    assert_eq!((exited.id.as_str(), exited.pid, exited.exit_status), ("one", pid, 4));
    task.kill(9);
    let exited: TaskExit = task.shim.events.next_of();
    assert_eq!((exited.id, exited.exit_status), (task.id(), 137));
    task.delete("");
    let deleted: TaskDelete = task.shim.events.next_of();
    assert_eq!(deleted.exit_status, 137);
    task.shut_down();
}

fn exit_status_and_output(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().sh("echo out; echo err >&2; exit 7").make();
    let pipes = Pipes::new(&container, "init");
    let (out, err) = (pipes.reader("stdout"), pipes.reader("stderr"));
    let task = Task::started(container, Some(&pipes));
    assert_eq!(task.wait(""), 7);
    assert_eq!(out.join().expect("stdout"), b"out\n");
    assert_eq!(err.join().expect("stderr"), b"err\n");
    task.finish();
}

fn exec_has_streams_of_its_own(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pipes = Pipes::new(&task.container, "exec");
    let out = pipes.reader("stdout");
    task.exec("e", "head -c 1048576 /dev/zero; exit 3", Some(&pipes));
    task.start("e");
    assert_eq!(task.wait("e"), 3);
    assert_eq!(out.join().expect("stdout").len(), 1 << 20);
    assert_eq!(task.delete("e").exit_status, 3);
    let again = StartRequest { id: task.id(), exec_id: "e".into() };
    let refused = task.shim.call::<StartResponse>(Method::Start, &again).unwrap_err();
    assert_eq!(refused.code, code::NOT_FOUND);
    task.finish();
}

fn exec_ends_before_init(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    for name in ["a", "b"] {
        task.exec(name, "sleep 1000", None);
        task.start(name);
    }
    task.kill(9);
    let topics = task.shim.events.topics_to(topic::TASK_EXIT);
    assert_eq!(topics.len(), 7, "{topics:?}");
    let other: TaskExit = task.shim.events.next_of();
    assert!(["a", "b"].contains(&other.id.as_str()), "{other:?}");
    let last: TaskExit = task.shim.events.next_of();
    assert_eq!(last.id, task.id());
    task.delete("");
    assert_eq!(task.shim.events.next().topic, topic::TASK_DELETE);
    task.shut_down();
}

fn input_ends_by_close_io(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().args(&["cat"]).make();
    let pipes = Pipes::new(&container, "init");
    let out = pipes.reader("stdout");
    let shim = Shim::start(&container);
    let mut request = creation(&container, Some(&pipes));
    request.stdin = pipes.path("stdin");
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let task = Task { container, shim };
    task.start("");
    let mut input = pipes.writer("stdin");
    input.write_all(b"hello\n").expect("write");
    drop(input);
    let close = CloseIORequest { id: task.id(), stdin: true, ..CloseIORequest::default() };
    task.shim.call::<Empty>(Method::CloseIO, &close).expect("close");
    assert_eq!(task.wait(""), 0);
    assert_eq!(out.join().expect("stdout"), b"hello\n");
    task.finish();
}

fn missing_program(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().args(&["/no/such"]).make();
    let shim = Shim::start(&container);
    let made = shim.call::<CreateTaskResponse>(Method::Create, &creation(&container, None));
    let failed = match made {
        Err(failed) => failed,
        Ok(_) => {
            let request = StartRequest { id: container.id.clone(), exec_id: String::new() };
            shim.call::<StartResponse>(Method::Start, &request).unwrap_err()
        }
    };
    assert!(failed.message.contains("/no/such"), "{failed}");
    assert!(failed.message.starts_with("OCI runtime "), "{failed}");
    let task = Task { container, shim };
    task.exec_refused();
}

impl Task<'_> {
    /// Deletes a container that was not started, and shuts down the shim.
    fn exec_refused(self) {
        let request = DeleteRequest { id: self.id(), ..DeleteRequest::default() };
        match self.shim.call::<DeleteResponse>(Method::Delete, &request) {
            Ok(_) => {}
            Err(gone) => assert_eq!(gone.code, code::NOT_FOUND, "{gone}"),
        }
        self.shut_down();
    }
}

fn wait_is_answered_at_the_end(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let request = WaitRequest { id: task.id(), ..WaitRequest::default() };
    let waits = [task.shim.send(Method::Wait, &request), task.shim.send(Method::Wait, &request)];
    assert!(task.shim.answer_within(waits[0], Duration::from_millis(50)).is_none());
    assert_eq!(task.state().status, status::RUNNING);
    task.kill(15);
    task.kill(9);
    for wait in waits {
        let answer = WaitResponse::decode(&task.shim.answer(wait).expect("wait"));
        assert_eq!(answer.expect("answer").exit_status, 137);
    }
    task.finish();
}

fn refusals(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let shim = &task.shim;
    let unknown = StateRequest { id: "nobody".into(), ..StateRequest::default() };
    let refused = shim.call::<StateResponse>(Method::State, &unknown).unwrap_err();
    assert_eq!(refused.code, code::NOT_FOUND);
    let again = creation(&task.container, None);
    let refused = shim.call::<CreateTaskResponse>(Method::Create, &again).unwrap_err();
    assert_eq!(refused.code, code::ALREADY_EXISTS, "{refused}");
    let running = DeleteRequest { id: task.id(), ..DeleteRequest::default() };
    let refused = shim.call::<DeleteResponse>(Method::Delete, &running).unwrap_err();
    assert_eq!(refused.code, code::FAILED_PRECONDITION, "{refused}");
    let started = StartRequest { id: task.id(), ..StartRequest::default() };
    let refused = shim.call::<StartResponse>(Method::Start, &started).unwrap_err();
    assert_eq!(refused.code, code::FAILED_PRECONDITION, "{refused}");
    let checkpoint = StateRequest { id: task.id(), ..StateRequest::default() };
    let refused = shim.call::<Empty>(Method::Checkpoint, &checkpoint).unwrap_err();
    assert_eq!(refused.code, code::INVALID_ARGUMENT, "{refused}");
    let mut restored = creation(&task.container, None);
    (restored.id, restored.checkpoint) = (bed.id(), "/images".into());
    restored.parent_checkpoint = "/parent".into();
    let refused = shim.call::<CreateTaskResponse>(Method::Create, &restored).unwrap_err();
    assert_eq!(refused.code, code::UNIMPLEMENTED, "{refused}");
    task.exec("e", "true", None);
    let exec =
        ExecProcessRequest { id: task.id(), exec_id: "e".into(), ..ExecProcessRequest::default() };
    let refused = shim.call::<Empty>(Method::Exec, &exec).unwrap_err();
    assert_eq!(refused.code, code::ALREADY_EXISTS, "{refused}");
    task.kill(9);
    task.wait("");
    let late = KillRequest { id: task.id(), signal: 15, ..KillRequest::default() };
    let refused = task.shim.call::<Empty>(Method::Kill, &late).unwrap_err();
    assert_eq!(refused.code, code::NOT_FOUND, "{refused}");
    task.finish();
}

fn pause_resume_update(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    if !bed.view.has_v1() {
        println!("skipped: v2 has no controllers here");
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pause = PauseRequest { id: task.id() };
    task.shim.call::<Empty>(Method::Pause, &pause).expect("pause");
    assert_eq!(task.state().status, status::PAUSED);
    let resources = json!({ "memory": { "limit": 64 << 20 } }).to_string().into_bytes();
    let update = UpdateTaskRequest {
        id: task.id(),
        resources: Some(Any { type_url: specs::LINUX_RESOURCES.into(), value: resources }),
        ..UpdateTaskRequest::default()
    };
    task.shim.call::<Empty>(Method::Update, &update).expect("update");
    assert_eq!(task.container.cgroup_read("memory", "memory.limit_in_bytes"), "67108864");
    let resume = ResumeRequest { id: task.id() };
    task.shim.call::<Empty>(Method::Resume, &resume).expect("resume");
    assert_eq!(task.state().status, status::RUNNING);
    let topics = task.shim.events.topics_to(topic::TASK_RESUMED);
    assert_eq!(topics[2..], [topic::TASK_PAUSED, topic::TASK_RESUMED]);
    // SIGKILL also ends a frozen container.
    task.shim.call::<Empty>(Method::Pause, &pause).expect("pause");
    task.finish();
}

fn pids_and_stats(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    task.exec("e", "exec sleep 1000", None);
    let pid = task.start("e");
    let request = PidsRequest { id: task.id() };
    let pids: PidsResponse = task.shim.call(Method::Pids, &request).expect("pids");
    let mut numbers: Vec<u32> = pids.processes.iter().map(|process| process.pid).collect();
    numbers.sort_unstable();
    let mut wanted = [task.state().pid, pid];
    wanted.sort_unstable();
    assert_eq!(numbers, wanted);
    let named = pids.processes.iter().find(|process| process.pid == pid).expect("exec");
    assert!(named.info.is_some());
    let request = StatsRequest { id: task.id() };
    let stats: StatsResponse = task.shim.call(Method::Stats, &request).expect("stats");
    let version = if bed.view.has_v1() { "v1" } else { "v2" };
    let url = stats.stats.expect("metrics").type_url;
    assert!(url.contains(&format!("cgroups.{version}.Metrics")), "{url}");
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    if !bed.view.has_v1() {
        // containerd skips a task without a cgroup if the error has this code.
        fs::remove_dir(task.container.cgroup_file("pids", "")).expect("rmdir");
        let gone = task.shim.call::<StatsResponse>(Method::Stats, &request).unwrap_err();
        assert_eq!((gone.code, &*gone.message), (code::NOT_FOUND, "cgroup does not exist"));
    }
    task.finish();
}

fn commands_work_beside_it(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let id = task.id();
    let state = task.shim.dayfly(&["state", &id]).run().ok();
    assert!(state.stdout.contains("\"running\""), "{state}");
    let said = task.shim.dayfly(&["exec", &id, "echo", "beside"]).run().ok();
    assert_eq!(said.stdout, "beside\n");
    task.shim.dayfly(&["kill", &id, "KILL"]).run().ok();
    assert_eq!(task.wait(""), 137);
    task.finish();
}

fn killed_shim(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pid = task.shim.pid();
    let process = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("kill");
    for round in 0..2 {
        let output = task.shim.delete(&task.container);
        assert!(output.status.success(), "{round}: {output:?}");
        let answer = DeleteResponse::decode(&output.stdout).expect("delete response");
        assert_eq!(answer.exit_status, 137, "{round}");
    }
    task.container.assert_gone("a killed shim");
    let socket = task.shim.address.trim_start_matches("unix://");
    assert!(!std::path::Path::new(socket).exists(), "{socket} is left");
}

fn many_execs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let names: Vec<String> = (0..100).map(|number| format!("e{number}")).collect();
    for name in &names {
        task.exec(name, "exit 5", None);
    }
    let request = |name: &String| StartRequest { id: task.id(), exec_id: name.clone() };
    let starts: Vec<u32> =
        names.iter().map(|name| task.shim.send(Method::Start, &request(name))).collect();
    for start in starts {
        task.shim.answer(start).expect("start");
    }
    for name in &names {
        assert_eq!(task.wait(name), 5);
        task.delete(name);
    }
    task.finish();
}

fn slow_hook_keeps_nobody(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (container, gate) = races::kept(bed);
    let shim = Shim::start(&container);
    let create = shim.send(Method::Create, &creation(&container, None));
    // The shim answers other requests while the hook blocks the creation.
    assert!(shim.pid() > 0);
    assert!(shim.answer_within(create, Duration::from_millis(20)).is_none());
    races::answer_past(&gate, &shim, create).expect("create");
    let task = Task { container, shim };
    task.start("");
    task.finish();
}
