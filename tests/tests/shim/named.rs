//! Tasks that are restored from a checkpoint which an annotation names.

use super::checkpoint::{COUNTER, count, counts};
use super::{Task, is_missing, root_at};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::wait;
use proto::messages::process::status;
use serde_json::json;
use std::fs;
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(restored_by_its_annotation).needs(criu::lacking).unlike_runc()];

/// The task is created, waits for Start, and ends as any other.
fn restored_by_its_annotation(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let criu = format!("DAYFLY_CRIU={}", criu::program());
    let place = format!("DAYFLY_CHECKPOINTS={}", bed.dir.display());
    let source = bed.bundle().rootfs();
    let annotations = json!({ "run.dayfly.checkpoint": "saved", "team": "a" });
    let created = || {
        let container = bed.bundle().set("/annotations", annotations.clone()).sh(COUNTER).make();
        Task::created_by(&["env", &criu, &place], container, vec![root_at(&source)])
    };
    let cold = created();
    cold.start("");
    counts(&source);
    let images = bed.dir.join("saved").display().to_string();
    let flags = ["checkpoint", "--image-path", &images, "--for", "team=a", &cold.id()];
    cold.shim
        .dayfly(&flags)
        .env("DAYFLY_CRIU", &criu::program())
        .within(wait::patience() * 3)
        .run()
        .ok();
    assert_eq!(cold.wait(""), 137);
    cold.finish();
    let saved = count(&source);
    assert!(saved > 0);

    for _ in 0..2 {
        let task = created();
        let state = task.state();
        assert_eq!(state.status, status::CREATED);
        assert!(state.pid > 0);
        fs::remove_file(source.join("n")).expect("remove");
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(count(&source), 0, "it runs before Start");
        assert_eq!(task.start(""), state.pid);
        assert!(counts(&source) > saved);
        assert_eq!(task.state().status, status::RUNNING);
        task.exec("e", "exit 3", None);
        task.start("e");
        assert_eq!((task.wait("e"), task.delete("e").exit_status), (3, 3));
        task.kill(9);
        assert_eq!((task.wait(""), task.state().status), (137, status::STOPPED));
        task.finish();
    }
}
