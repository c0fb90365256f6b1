//! Clients that go away during Create, `delete` while the shim still answers, and `delete` commands that were killed:
//! nothing is left.

use super::races::{children, sleeper};
use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Line, NAMESPACE, Shim, creation};
use dayfly_tests::{case, leak, program, wait};
use proto::messages::process::status;
use proto::messages::task::{
    CreateTaskRequest, CreateTaskResponse, DeleteRequest, DeleteResponse, Method, ShutdownRequest,
};
use proto::messages::time::Empty;
use proto::ttrpc::status::code;
use rustix::fs::{CWD, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(deleted_before_anything_exists).unlike_runc(),
    case!(deleted_before_its_logger_is_ready).unlike_runc(),
    case!(client_dies_during_create).unlike_runc(),
    case!(delete_asks_a_shim_that_answers).unlike_runc(),
    case!(killed_deletes_are_made_up_for).unlike_runc(),
];

/// Replaces the configuration of a bundle with a FIFO. So a creation waits before it makes the container's directory,
/// until [`release`] is called.
fn hold_back(container: &Container<'_>) {
    let path = container.bundle.join("config.json");
    fs::rename(&path, container.bundle.join("config")).expect("rename");
    mkfifoat(CWD, &path, 0o600.into()).expect("mkfifo");
}

/// Puts the configuration back. A creation that still waits gets it.
fn release(container: &Container<'_>) {
    let (path, saved) = (container.bundle.join("config.json"), container.bundle.join("config"));
    let fifo = fs::File::options().read(true).write(true).open(&path).expect("open");
    fs::rename(&saved, &path).expect("rename");
    let text = fs::read(&path).expect("read");
    std::io::Write::write_all(&mut &fifo, &text).expect("write");
}

fn deletion(container: &Container<'_>) -> DeleteRequest {
    DeleteRequest { id: container.id.clone(), ..DeleteRequest::default() }
}

fn shut_down(container: &Container<'_>, shim: &Shim<'_>) {
    let request = ShutdownRequest { id: container.id.clone(), now: false };
    shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
    shim.wait_for_its_end();
}

/// Delete ends a creation that has not claimed the container's id yet, and is answered when it is over. The id can be
/// used again.
fn deleted_before_anything_exists(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = sleeper(bed);
    let shim = Shim::start(&container);
    hold_back(&container);
    let request = creation(&container, None);
    let create = shim.send(Method::Create, &request);
    wait::until("the worker", || children(shim.pid()).pop());
    let deletes = [(); 2].map(|()| shim.send(Method::Delete, &deletion(&container)));
    let [first, second] = deletes.map(|delete| shim.answer(delete));
    let answer = DeleteResponse::decode(&first.expect("delete")).expect("answer");
    assert_eq!((answer.pid, answer.exit_status), (0, 137));
    // The shim may have read the second call when everything was over.
    let is_known = second.as_ref().err().is_none_or(|status| status.code == code::NOT_FOUND);
    assert!(is_known, "{second:?}");
    assert_eq!(shim.answer(create).unwrap_err().code, code::ABORTED);
    let again = shim.call::<DeleteResponse>(Method::Delete, &deletion(&container)).unwrap_err();
    assert_eq!(again.code, code::NOT_FOUND, "{again}");
    release(&container);
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let task = Task { container, shim };
    task.start("");
    task.finish();
}

/// A creation that waits for its logger has no worker yet.
fn deleted_before_its_logger_is_ready(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = sleeper(bed);
    let shim = Shim::start(&container);
    let logger = container.bundle.join("logger");
    program::write(&logger, "#!/bin/sh\nexec sleep 1000\n");
    let stdout = format!("binary://{}", logger.display());
    let request = CreateTaskRequest { stdout, ..creation(&container, None) };
    let create = shim.send(Method::Create, &request);
    shim.call::<DeleteResponse>(Method::Delete, &deletion(&container)).expect("delete");
    assert_eq!(shim.answer(create).unwrap_err().code, code::NOT_FOUND);
    shut_down(&container, &shim);
}

/// containerd closes its connection and runs `delete`, while the shim serves another container of the pod.
fn client_dies_during_create(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    let container = sleeper(bed);
    fs::write(container.bundle.join("address"), &task.shim.address).expect("write");
    hold_back(&container);
    let line = Line::to(&task.shim.address);
    line.send(Method::Create, &creation(&container, None));
    wait::until("the worker", || children(line.pid()).into_iter().nth(1));
    drop(line);
    let output = task.shim.delete(&container);
    assert!(output.status.success(), "{output:?}");
    let unknown = task.shim.call::<DeleteResponse>(Method::Delete, &deletion(&container));
    assert_eq!(unknown.unwrap_err().code, code::NOT_FOUND);
    release(&container);
    assert_eq!(children(task.shim.pid()).len(), 1);
    container.assert_gone("a client that died");
    assert_eq!(task.state().status, status::RUNNING);
    task.finish();
}

/// containerd runs `delete` for a container that the shim has not removed. The shim removes it, and exits because it was
/// the last.
fn delete_asks_a_shim_that_answers(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(sleeper(bed), None);
    let (pid, init) = (task.shim.pid(), task.state().pid);
    let output = task.shim.delete(&task.container);
    assert!(output.status.success(), "{output:?}");
    let answer = DeleteResponse::decode(&output.stdout).expect("delete response");
    assert_eq!((answer.pid, answer.exit_status), (init, 137));
    task.container.assert_gone("a shim that was asked");
    task.await_end(pid);
}

/// The shim and its `delete` were killed, and containerd has removed the bundle: it will not run `delete` again. The next
/// shim of the namespace removes what is left when it exits, but no container whose bundle exists.
fn killed_deletes_are_made_up_for(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let stop = |removes_bundle: bool| {
        let mut container = sleeper(bed);
        // containerd names bundles by ids.
        let bundle = bed.dir.join(&container.id);
        fs::rename(&container.bundle, &bundle).expect("rename");
        container.bundle = bundle;
        let task = Task::started(container, None);
        let init = task.state().pid;
        let [shim, init] = [task.shim.pid(), init].map(|pid| Pid::from_raw(pid as i32).unwrap());
        kill_process(shim, Signal::KILL).expect("kill");
        task.shim.wait_for_its_end();
        kill_process(init, Signal::KILL).expect("kill");
        let is_stopped = || {
            let state = task.shim.dayfly(&["state", &task.container.id]).run().ok().stdout;
            state.contains("\"stopped\"")
        };
        wait::until_true("init to end", is_stopped);
        if removes_bundle {
            fs::remove_dir_all(&task.container.bundle).expect("remove the bundle");
        }
        task
    };
    let (lost, kept) = (stop(true), stop(false));
    let socket = |task: &Task<'_>| task.shim.address.trim_start_matches("unix://").to_owned();
    assert!(Path::new(&socket(&lost)).exists());
    Task::started(sleeper(bed), None).finish();
    let left = || leak::find(bed.view, &bed.dir.join("none"), &[lost.id()]);
    wait::until_none("what the lost container left", left);
    wait::until_true("the socket to go", || !Path::new(&socket(&lost)).exists());
    assert!(!bed.root().join(NAMESPACE).join(lost.id()).exists());
    let output = kept.shim.delete(&kept.container);
    assert!(output.status.success(), "{output:?}");
    let answer = DeleteResponse::decode(&output.stdout).expect("delete response");
    assert_eq!(answer.exit_status, 137);
}
