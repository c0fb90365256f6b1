//! Restore: containers that containerd creates from a checkpoint.

use super::checkpoint::{count, counting, counting_on_mounts, counts, end_saved, images, rootfs};
use super::races::{gate, opened};
use super::{Task, is_missing, root_at};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Pipes, Shim, creation, program};
use dayfly_tests::{leak, program, wait};
use proto::messages::events::{TaskCreate, TaskExit, TaskStart, topic};
use proto::messages::mount::Mount;
use proto::messages::options::Options;
use proto::messages::process::status;
use proto::messages::task::{
    CreateTaskRequest, CreateTaskResponse, ExecProcessRequest, KillRequest, Method, PauseRequest,
    ShutdownRequest, StartRequest, StartResponse,
};
use proto::messages::time::Empty;
use proto::ttrpc::Status;
use proto::ttrpc::status::code;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(goes_on).needs(criu::lacking).unlike_runc(),
    case!(config_is_read_once).needs(criu::lacking).unlike_runc(),
    case!(terminal).needs(criu::lacking).unlike_runc(),
    case!(logger).needs(criu::lacking).unlike_runc(),
    case!(output_and_input).needs(criu::lacking).unlike_runc(),
    case!(root_filesystem_of_mounts).needs(criu::lacking).unlike_runc(),
    case!(deleted_before_start).needs(criu::lacking).unlike_runc(),
    case!(damaged_images).needs(criu::lacking).unlike_runc(),
    case!(id_of_another_container).needs(criu::lacking).unlike_runc(),
    case!(start_that_takes_too_long).needs(criu::lacking).unlike_runc(),
    case!(killed_shim).needs(criu::lacking).unlike_runc().alone(),
];

/// The number of kills, spread evenly over the duration of a restore.
const ROUNDS: u32 = 20;

/// Creates a container from the images of an earlier container with the same id.
fn admit(task: &Task<'_>, rootfs: Vec<Mount>, pipes: Option<&Pipes>) {
    let checkpoint = images(task).display().to_string();
    let stdin = pipes.map(|pipes| pipes.path("stdin")).unwrap_or_default();
    let request =
        CreateTaskRequest { checkpoint, rootfs, stdin, ..creation(&task.container, pipes) };
    let made = task.shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    assert_eq!(made.pid, 0);
    let event: TaskCreate = task.shim.events.next_of();
    assert_eq!((event.checkpoint, event.pid), (request.checkpoint, 0));
    let state = task.state();
    assert_eq!((state.status, state.pid), (status::CREATED, 0));
}

fn start(task: &Task<'_>, limit: Duration) -> Result<u32, Status> {
    let request = StartRequest { id: task.id(), ..StartRequest::default() };
    let call = task.shim.send_within(limit, Method::Start, &request);
    let answer = task.shim.answer_within(call, wait::patience() * 3).expect("an answer");
    answer.map(|bytes| StartResponse::decode(&bytes).expect("response").pid)
}

/// Starts a container from its images.
fn restore(task: &Task<'_>) -> u32 {
    let pid = start(task, Duration::ZERO).expect("start");
    let event: TaskStart = task.shim.events.next_of();
    assert_eq!((event.pid, task.state().pid), (pid, pid));
    assert_eq!(task.state().status, status::RUNNING);
    pid
}

/// The restored container is like any other: exec, pause, its exit, its events.
fn goes_on(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    end_saved(&task);
    let saved = count(&rootfs(&task));
    admit(&task, Vec::new(), None);
    let kill = KillRequest { id: task.id(), signal: 9, ..KillRequest::default() };
    let refused = task.shim.call::<Empty>(Method::Kill, &kill).unwrap_err();
    assert_eq!(refused.code, code::FAILED_PRECONDITION, "{refused}");
    let pid = restore(&task);
    assert!(counts(&rootfs(&task)) > saved);
    assert!(!task.container.bundle.join("criu-work").exists());
    let again = start(&task, Duration::ZERO).unwrap_err();
    assert_eq!(again.code, code::FAILED_PRECONDITION, "{again}");
    task.exec("e", "exit 3", None);
    task.start("e");
    assert_eq!(task.wait("e"), 3);
    task.shim.events.topics_to(topic::TASK_EXIT);
    // The container can be saved once more.
    end_saved(&task);
    admit(&task, Vec::new(), None);
    assert_ne!(restore(&task), 0);
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    let exit: TaskExit = task.shim.events.next_of();
    assert_eq!((exit.id, exit.exit_status), (task.id(), 137));
    assert_ne!(exit.pid, pid);
    task.delete("");
    task.shut_down();
}

/// Start reads and parses the bundle's configuration once.
fn config_is_read_once(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    end_saved(&task);
    admit(&task, Vec::new(), None);
    let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
    let mut opened = File::from(inotify::init(flags).expect("inotify"));
    let config = task.container.bundle.join("config.json");
    inotify::add_watch(&opened, &config, WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE)
        .expect("watch");
    restore(&task);
    // An event without a name has 16 bytes. Events that are equal to the one before are left out.
    let mut events = [0; 4096];
    assert_eq!(opened.read(&mut events).expect("events"), 2 * 16, "opened or closed again");
    task.kill(9);
    task.wait("");
    task.delete("");
    task.shut_down();
}

/// The restored program has new pipes, which the shim connects to containerd's FIFOs.
fn output_and_input(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let script = "echo first; read line; echo $line; echo >/ready; read line; echo $line; exit 7";
    let container = bed.bundle().sh(script).make();
    let pipes = Pipes::new(&container, "before");
    let out = pipes.reader("stdout");
    let stdin = pipes.path("stdin");
    let streams = CreateTaskRequest { stdin, ..creation(&container, Some(&pipes)) };
    let task = started_with(container, &streams);
    pipes.writer("stdin").write_all(b"one\n").expect("write");
    let ready = rootfs(&task).join("ready");
    wait::until_true("the first line to be read", || ready.exists());
    end_saved(&task);
    assert_eq!(out.join().expect("stdout"), b"first\none\n");

    let pipes = Pipes::new(&task.container, "after");
    let out = pipes.reader("stdout");
    admit(&task, Vec::new(), Some(&pipes));
    restore(&task);
    pipes.writer("stdin").write_all(b"two\n").expect("write");
    assert_eq!(task.wait(""), 7);
    assert_eq!(out.join().expect("stdout"), b"two\n");
    task.finish();
}

/// Starts a shim that uses the tests' criu.
fn shim_with_criu<'a>(container: &Container<'a>) -> Shim<'a> {
    let variable = format!("DAYFLY_CRIU={}", criu::program());
    let program = program(container.bed).expect("shim");
    Shim::start_by(program, container, Options::default(), &["env", &variable])
}

/// Starts a shim that uses the tests' criu, for a container with these streams, and starts the container.
fn started_with<'a>(container: Container<'a>, streams: &CreateTaskRequest) -> Task<'a> {
    let shim = shim_with_criu(&container);
    shim.call::<CreateTaskResponse>(Method::Create, streams).expect("create");
    let task = Task { container, shim };
    task.start("");
    task
}

/// Admits and restores a container with these streams.
fn restore_with(task: &Task<'_>, streams: CreateTaskRequest) {
    let checkpoint = images(task).display().to_string();
    let request = CreateTaskRequest { checkpoint, ..streams };
    task.shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    task.shim.events.topics_to(topic::TASK_CREATE);
    restore(task);
}

/// The restored program's terminal is a new one, which the shim connects to containerd's FIFOs.
fn terminal(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let script = "stty -echo; echo >/ready; while read x; do echo got $x; done";
    let container = bed.bundle().set("/process/terminal", json!(true)).sh(script).make();
    let streams = |pipes: &Pipes| CreateTaskRequest {
        stdin: pipes.path("stdin"),
        stderr: String::new(),
        terminal: true,
        ..creation(&container, Some(pipes))
    };
    let says = |pipes: &Pipes, word: &str| {
        let mut out = File::open(pipes.path("stdout")).expect("open stdout");
        writeln!(pipes.writer("stdin"), "{word}").expect("write");
        let mut text = String::new();
        wait::until_true("an answer", || {
            let mut bytes = [0; 256];
            let length = out.read(&mut bytes).expect("read");
            text.push_str(&String::from_utf8_lossy(&bytes[..length]));
            text.contains(&format!("got {word}\r\n"))
        });
    };
    let (before, after) = (Pipes::new(&container, "before"), Pipes::new(&container, "after"));
    let (first, second) = (streams(&before), streams(&after));
    let task = started_with(container, &first);
    let ready = rootfs(&task).join("ready");
    wait::until_true("the terminal to be set", || ready.exists());
    says(&before, "one");
    end_saved(&task);
    restore_with(&task, second);
    says(&after, "two");
    task.exec("e", "test $(readlink /proc/1/fd/0) = /dev/pts/0", None);
    task.start("e");
    assert_eq!(task.wait("e"), 0);
    task.finish();
}

/// A logger of the host reads the output of the restored program.
fn logger(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().sh("while :; do echo counted; usleep 20000; done").make();
    let program = container.bundle.join("logger");
    let log = container.bundle.join("log-of-output");
    program::write(&program, "#!/bin/sh\nexec 5>&-; exec cat <&3 >>\"$2\"\n");
    let uri = format!("binary://{}?to={}", program.display(), log.display());
    let streams =
        CreateTaskRequest { stdout: uri.clone(), stderr: uri, ..creation(&container, None) };
    let task = started_with(container, &streams);
    let is_logged = || fs::read_to_string(&log).is_ok_and(|text| text.contains("counted\n"));
    wait::until_true("the first output", is_logged);
    end_saved(&task);
    fs::remove_file(&log).expect("remove");
    restore_with(&task, streams);
    wait::until_true("output after the restore", is_logged);
    task.finish();
}

fn root_filesystem_of_mounts(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (source, task) = counting_on_mounts(bed);
    end_saved(&task);
    let saved = count(&source);
    admit(&task, vec![root_at(&source)], None);
    // Before Start, containerd writes the container's earlier changes of files to the root filesystem.
    fs::write(rootfs(&task).join("changed"), "").expect("write");
    assert!(source.join("changed").exists(), "not mounted");
    restore(&task);
    assert!(counts(&source) > saved);
    task.finish();
}

fn deleted_before_start(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    end_saved(&task);
    admit(&task, Vec::new(), None);
    let deleted = task.delete("");
    assert_eq!((deleted.pid, deleted.exit_status), (0, 0));
    assert_eq!(task.shim.events.next().topic, topic::TASK_DELETE);
    task.shut_down();
}

/// Start fails, and the container can only be deleted. Then the name is free.
fn damaged_images(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (source, task) = counting_on_mounts(bed);
    end_saved(&task);
    let inventory = images(&task).join("inventory.img");
    let whole = fs::read(&inventory).expect("read");
    fs::write(&inventory, &whole[..whole.len() / 2]).expect("write");
    admit(&task, vec![root_at(&source)], None);
    let failed = start(&task, Duration::ZERO).unwrap_err();
    assert!(failed.message.starts_with("OCI runtime restore failed: "), "{failed}");
    assert!(failed.message.contains("inventory.img"), "{failed}");
    assert_eq!((task.wait(""), task.state().status), (255, status::STOPPED));
    assert_eq!(start(&task, Duration::ZERO).unwrap_err().code, code::FAILED_PRECONDITION);
    assert_eq!(task.delete("").exit_status, 255);
    assert_eq!(task.shim.events.next().topic, topic::TASK_DELETE);
    fs::write(&inventory, &whole).expect("write");
    admit(&task, vec![root_at(&source)], None);
    restore(&task);
    counts(&source);
    task.finish();
}

/// A container that a command has created under the same id is touched neither by calls before Start, nor by the failed
/// restore.
fn id_of_another_container(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    end_saved(&task);
    admit(&task, Vec::new(), None);
    let (id, bundle) = (task.id(), task.container.bundle.display().to_string());
    task.shim.dayfly(&["run", "--detach", "--bundle", &bundle, &id]).run().ok();
    let pause = PauseRequest { id: id.clone() };
    let refused = task.shim.call::<Empty>(Method::Pause, &pause).unwrap_err();
    assert_eq!(refused.code, code::FAILED_PRECONDITION, "{refused}");
    let exec = ExecProcessRequest { id: id.clone(), exec_id: "e".into(), ..Default::default() };
    let refused = task.shim.call::<Empty>(Method::Exec, &exec).unwrap_err();
    assert_eq!(refused.code, code::FAILED_PRECONDITION, "{refused}");
    // This worker is killed before it claims the id.
    let late = start(&task, Duration::from_nanos(1)).unwrap_err();
    assert_eq!(late.code, code::DEADLINE_EXCEEDED, "{late}");
    task.delete("");
    counts(&rootfs(&task));
    task.shim.events.topics_to(topic::TASK_DELETE);
    admit(&task, Vec::new(), None);
    let failed = start(&task, Duration::ZERO).unwrap_err();
    assert!(failed.message.contains("exists"), "{failed}");
    task.delete("");
    counts(&rootfs(&task));
    task.shim.dayfly(&["delete", "--force", &id]).run().ok();
    task.shut_down();
}

/// After the time limit, the shim removes the partly restored container, and answers only then.
fn start_that_takes_too_long(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    end_saved(&task);
    let (gate, hook) = gate(bed);
    let config = task.container.bundle.join("config.json");
    let mut spec: serde_json::Value =
        serde_json::from_slice(&fs::read(&config).expect("read")).expect("config");
    spec["hooks"] = serde_json::json!({ "poststart": hook });
    fs::write(&config, spec.to_string()).expect("write");
    admit(&task, Vec::new(), None);
    let late = start(&task, Duration::from_secs(1)).unwrap_err();
    assert_eq!(late.code, code::DEADLINE_EXCEEDED, "{late}");
    assert_eq!(task.state().status, status::STOPPED);
    task.delete("");
    task.shim.events.topics_to(topic::TASK_DELETE);

    // SIGKILL ends a restore, too.
    admit(&task, Vec::new(), None);
    let before = count(&rootfs(&task));
    let request = StartRequest { id: task.id(), ..StartRequest::default() };
    let call = task.shim.send(Method::Start, &request);
    wait::until_true("the restored container", || count(&rootfs(&task)) > before);
    task.kill(9);
    let killed = task.shim.answer_within(call, wait::patience() * 3).expect("an answer");
    assert_eq!(killed.unwrap_err().code, code::ABORTED);
    assert_eq!(task.state().status, status::STOPPED);
    let before = count(&rootfs(&task));
    drop(opened(&gate));
    task.delete("");
    assert_eq!(count(&rootfs(&task)), before);
    task.shut_down();
}

/// The shim gets SIGKILL at any moment of the restore. Afterwards, the action `delete` of the shim's program leaves
/// nothing behind, not even a process of criu.
fn killed_shim(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let saved = counting(bed, &criu::program());
    end_saved(&saved);
    let images = images(&saved);
    let shim = saved.shim.pid();
    let request = ShutdownRequest { id: saved.id(), now: false };
    saved.shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
    saved.await_end(shim);
    let container = saved.container;
    let once = |after: Option<Duration>| {
        fs::remove_file(container.bundle.join("events.sock")).expect("remove the old socket");
        let shim = shim_with_criu(&container);
        let checkpoint = images.display().to_string();
        let request = CreateTaskRequest { checkpoint, ..creation(&container, None) };
        shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
        let pid = Pid::from_raw(shim.pid() as i32).expect("pid");
        let request = StartRequest { id: container.id.clone(), ..StartRequest::default() };
        let since = Instant::now();
        let call = shim.send(Method::Start, &request);
        match after {
            None => drop(shim.answer(call).expect("start")),
            // The moment of the kill is what varies.
            Some(after) => std::thread::sleep(after),
        }
        let took = since.elapsed();
        kill_process(pid, Signal::KILL).expect("kill");
        shim.wait_for_its_end();
        let output = shim.delete(&container);
        assert!(output.status.success(), "{after:?}: {output:?}");
        let ids = [container.id.clone()];
        let left = || leak::find(bed.view, &bed.dir, &ids);
        wait::until_none(&format!("killed after {after:?}: left"), left);
        took
    };
    let whole = once(None);
    for round in 0..ROUNDS {
        once(Some(whole * round / ROUNDS));
    }
    println!("restore: {whole:?}");
}
