//! An upgrade: pods of an older shim under new programs, and the other way round.
//!
//! `DAYFLY_OLD`: `crate::upgrade`.

use super::{Task, is_missing};
use crate::upgrade::{format_of, old, old_programs};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Events, NAME, Shim, boot, creation, program};
use proto::messages::options::Options;
use proto::messages::task::{CreateTaskResponse, DeleteResponse, Method};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(old_shim_and_new_programs).needs(old_programs).unlike_runc(),
    case!(new_shim_and_old_programs).needs(old_programs).unlike_runc(),
];

/// Starts a pod's first container under a shim of `program`.
fn started<'a>(program: PathBuf, container: Container<'a>) -> Task<'a> {
    let shim = Shim::start_by(program, &container, Options::default(), &[]);
    let request = creation(&container, None);
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let task = Task { container, shim };
    task.start("");
    task
}

fn sleeper(bed: &Bed) -> Container<'_> {
    bed.bundle().args(&["sleep", "1000"]).make()
}

fn root(bed: &Bed) -> PathBuf {
    bed.root().join("tests")
}

fn dayfly(program: &Path, bed: &Bed, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("--root").arg(root(bed)).args(args);
    command.output().expect("execute dayfly")
}

/// Uses the state of a task's container with a `dayfly` other than the shim's.
#[track_caller]
fn used_by(program: &Path, task: &Task<'_>, is_same_format: bool) {
    let (bed, id) = (task.container.bed, task.id());
    let listed = dayfly(program, bed, &["list", "--quiet"]);
    let stdout = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    if is_same_format {
        assert_eq!(stdout(&listed), format!("{id}\n"), "{listed:?}");
        let state = dayfly(program, bed, &["state", &id]);
        assert!(stdout(&state).contains("\"running\""), "{state:?}");
        let said = dayfly(program, bed, &["exec", &id, "echo", "beside"]);
        assert_eq!(stdout(&said), "beside\n", "{said:?}");
        for command in ["pause", "resume"].iter().filter(|_| bed.view.has_v1()) {
            let output = dayfly(program, bed, &[command, &id]);
            assert!(output.status.success(), "{command}: {output:?}");
        }
    } else {
        let state = dayfly(program, bed, &["state", &id]);
        let said = String::from_utf8_lossy(&state.stderr);
        assert!(said.contains("written by another version of dayfly"), "{state:?}");
    }
}

/// Asserts that the pod continues under its own shim, and that the `delete` of `other` removes the
/// pod after its shim has died.
#[track_caller]
fn goes_on_and_is_deleted_by(other: PathBuf, mut task: Task<'_>) {
    task.exec("e", "exit 5", None);
    task.start("e");
    assert_eq!(task.wait("e"), 5);
    task.delete("e");
    // containerd executes `other start` for the pod's next container, and gets the address of the pod's shim.
    let events = Events::serve(&task.container.bed.dir);
    let container = &task.container;
    let address = boot(container.bed, &other, container, &events, Options::default(), &[]);
    assert_eq!(address, task.shim.address);
    let pid = Pid::from_raw(task.shim.pid() as i32).expect("pid");
    kill_process(pid, Signal::KILL).expect("kill");
    task.shim.wait_for_its_end();
    task.shim.program = other;
    let output = task.shim.delete(&task.container);
    assert!(output.status.success(), "{output:?}");
    DeleteResponse::decode(&output.stdout).expect("delete response");
    task.container.assert_gone("the other program's delete");
    assert!(!root(task.container.bed).join(task.id()).exists(), "state is left");
}

/// Returns whether the old programs' records have the same format as the new programs' records.
fn is_same_format(bed: &Bed) -> bool {
    let container = sleeper(bed);
    let made = container.bundle.display().to_string();
    let format = |program: &Path| {
        let mut create = Command::new(program);
        create.arg("--root").arg(root(bed)).args(["create", "--bundle", &made, &container.id]);
        // The container keeps its output open.
        create.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(create.status().expect("execute dayfly").success(), "{create:?}");
        let format = format_of(&root(bed), &container.id);
        let deleted = dayfly(program, bed, &["delete", "--force", &container.id]);
        assert!(deleted.status.success(), "{deleted:?}");
        format
    };
    let (old, new) = (format(&old("dayfly")), format(bed.runtime()));
    println!("formats of records: old {old}, new {new}");
    old == new
}

fn old_shim_and_new_programs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let is_same_format = is_same_format(bed);
    let task = started(old(NAME), sleeper(bed));
    used_by(bed.runtime(), &task, is_same_format);
    goes_on_and_is_deleted_by(program(bed).expect("shim"), task);
}

fn new_shim_and_old_programs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let is_same_format = is_same_format(bed);
    let task = started(program(bed).expect("shim"), sleeper(bed));
    used_by(&old("dayfly"), &task, is_same_format);
    goes_on_and_is_deleted_by(old(NAME), task);
}
