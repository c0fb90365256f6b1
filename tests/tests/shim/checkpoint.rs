//! Checkpoint: containers saved by criu at containerd's request.

use super::{Task, is_missing, root_at};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::wait;
use proto::messages::any::Any;
use proto::messages::events::{TaskCheckpointed, topic};
use proto::messages::mount::Mount;
use proto::messages::options::CheckpointOptions;
use proto::messages::process::status;
use proto::messages::task::{CheckpointTaskRequest, Method};
use proto::messages::time::Empty;
use proto::ttrpc::Status;
use std::fs;
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(left_running).needs(criu::lacking).unlike_runc(),
    case!(ended_and_restored).needs(criu::lacking).unlike_runc(),
    case!(root_filesystem_of_mounts).needs(criu::lacking).unlike_runc(),
    case!(failures).needs(criu::lacking).unlike_runc(),
];

/// Counts in a file of the root filesystem.
pub(super) const COUNTER: &str =
    "i=0; while :; do i=$((i+1)); echo $i >/n.new; mv /n.new /n; usleep 20000; done";

/// Starts a container that counts, under a shim that uses this criu.
pub(super) fn counting<'a>(bed: &'a Bed, criu: &str) -> Task<'a> {
    running(bed, criu, COUNTER)
}

/// Starts a container that runs this script, which counts.
fn running<'a>(bed: &'a Bed, criu: &str, script: &str) -> Task<'a> {
    let task = created(bed, criu, script, Vec::new());
    task.start("");
    counts(&rootfs(&task));
    task
}

/// Starts a container that counts, with a root filesystem from a list of mounts. Returns the directory that is mounted,
/// and the task.
pub(super) fn counting_on_mounts(bed: &Bed) -> (PathBuf, Task<'_>) {
    let source = bed.bundle().rootfs();
    let task = created(bed, &criu::program(), COUNTER, vec![root_at(&source)]);
    task.start("");
    counts(&source);
    (source, task)
}

/// Saves a container, whose processes end, and deletes it. The shim stays.
pub(super) fn end_saved(task: &Task<'_>) {
    let options = CheckpointOptions { exit: true, ..CheckpointOptions::default() };
    save(task, &images(task), Some(&options)).expect("checkpoint");
    assert_eq!(task.wait(""), 137);
    task.delete("");
    task.shim.events.topics_to(topic::TASK_DELETE);
}

/// Creates a container under a shim that uses this criu.
pub(super) fn created<'a>(bed: &'a Bed, criu: &str, script: &str, rootfs: Vec<Mount>) -> Task<'a> {
    let variable = format!("DAYFLY_CRIU={criu}");
    Task::created_by(&["env", &variable], bed.bundle().sh(script).make(), rootfs)
}

pub(super) fn rootfs(task: &Task<'_>) -> PathBuf {
    task.container.bundle.join("rootfs")
}

pub(super) fn count(rootfs: &Path) -> u64 {
    let text = fs::read_to_string(rootfs.join("n")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Waits until the count increases, and returns the new count.
pub(super) fn counts(rootfs: &Path) -> u64 {
    let before = count(rootfs);
    wait::until("it to count", || Some(count(rootfs)).filter(|now| *now > before))
}

/// Restores a container without a shim, checks that it counts on from `saved`, and deletes it.
fn restored(task: &Task<'_>, saved: u64) {
    let (id, images) = (task.id(), images(task).display().to_string());
    let bundle = task.container.bundle.display().to_string();
    let restore = ["restore", "--detach", "--image-path", &images, "--bundle", &bundle, &id];
    let restore = task.shim.dayfly(&restore).env("DAYFLY_CRIU", &criu::program());
    restore.within(wait::patience() * 3).run().ok();
    assert!(counts(&rootfs(task)) > saved);
    task.shim.dayfly(&["delete", "--force", &id]).run().ok();
}

pub(super) fn images(task: &Task<'_>) -> PathBuf {
    task.container.bed.dir.join(format!("images-{}", task.id()))
}

pub(super) fn save(
    task: &Task<'_>,
    path: &Path,
    options: Option<&CheckpointOptions>,
) -> Result<(), Status> {
    let request = CheckpointTaskRequest {
        id: task.id(),
        path: path.display().to_string(),
        options: options.map(Any::pack),
    };
    let call = task.shim.send(Method::Checkpoint, &request);
    let answer = task.shim.answer_within(call, wait::patience() * 3).expect("an answer");
    answer.map(|bytes| assert_eq!(Empty::decode(&bytes), Ok(Empty {})))
}

fn left_running(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    task.shim.events.topics_to(topic::TASK_START);
    for round in 0..2 {
        let path = images(&task).join(round.to_string());
        save(&task, &path, None).expect("checkpoint");
        let event: TaskCheckpointed = task.shim.events.next_of();
        assert_eq!((event.container_id, event.checkpoint), (task.id(), path.display().to_string()));
        assert!(path.join("inventory.img").exists());
        assert!(!task.container.bundle.join("criu-work").exists());
        assert_eq!(task.state().status, status::RUNNING);
        counts(&rootfs(&task));
    }
    task.exec("e", "exit 3", None);
    task.start("e");
    assert_eq!(task.wait("e"), 3);
    task.finish();
}

/// The options of the checkpoint end the container. `dayfly restore` restores it, without a shim.
fn ended_and_restored(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, &criu::program());
    task.shim.events.topics_to(topic::TASK_START);
    let path = images(&task);
    let work = bed.dir.join("work");
    let work_path = work.display().to_string();
    let options = CheckpointOptions { exit: true, work_path, ..CheckpointOptions::default() };
    save(&task, &path, Some(&options)).expect("checkpoint");
    assert!(work.join("dump.log").exists());
    let saved = count(&rootfs(&task));
    assert_eq!(task.wait(""), 137);
    let topics = task.shim.events.topics_to(topic::TASK_EXIT);
    assert!(
        topics.iter().all(|name| [topic::TASK_EXIT, topic::TASK_CHECKPOINTED].contains(&&**name))
    );
    task.delete("");
    restored(&task, saved);
    task.shut_down();
}

/// The root filesystem is assembled from a list of mounts, and is not visible on the host. For `dayfly restore`, the
/// root filesystem is moved into the bundle.
fn root_filesystem_of_mounts(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let (source, task) = counting_on_mounts(bed);
    end_saved(&task);
    let saved = count(&source);
    assert!(saved > 0);
    fs::remove_dir_all(rootfs(&task)).expect("remove root filesystem");
    fs::rename(&source, rootfs(&task)).expect("rename");
    restored(&task, saved);
    task.shut_down();
}

/// The container continues after each failure.
fn failures(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = counting(bed, "/nowhere/criu");
    let path = images(&task);
    let fails = |path: &Path, options: Option<&CheckpointOptions>, text: &str| {
        let failed = save(&task, path, options).unwrap_err();
        assert!(failed.message.contains(text), "{}", failed.message);
        counts(&rootfs(&task));
    };
    fails(&path, None, "exec /nowhere/criu: no such file or directory");
    fails(Path::new(""), None, "no directory for the images");
    let options = || CheckpointOptions { exit: true, ..CheckpointOptions::default() };
    let parent = CheckpointOptions { parent_path: "/x".into(), ..options() };
    fails(&path, Some(&parent), "parent images are not supported");
    let empty = CheckpointOptions { empty_namespaces: vec!["pid".into()], ..options() };
    fails(&path, Some(&empty), "namespace \"pid\" cannot be restored empty");
    let mode = CheckpointOptions { cgroups_mode: "hard".into(), ..options() };
    fails(&path, Some(&mode), "invalid manage-cgroups-mode value");
    task.finish();

    // criu's reason for a refusal is in criu's log, in the bundle.
    let task = running(bed, &criu::program(), &format!("exec 3>/x; ln /x /y; rm /x; {COUNTER}"));
    let failed = save(&task, &images(&task), None).unwrap_err();
    let log = task.container.bundle.join("criu-work/dump.log");
    assert!(failed.message.contains(&log.display().to_string()), "{}", failed.message);
    assert!(log.exists());
    counts(&rootfs(&task));
    assert_eq!(task.state().status, status::RUNNING);
    task.finish();
}
