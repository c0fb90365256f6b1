//! Containers in scopes that criu restores.

use super::{Scope, V2, controllers, limited, scope};
use crate::checkpoint::COUNTER;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::wait;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(restored).needs(controllers_and_criu).on(V2).unlike_runc(),
    case!(named_checkpoint).needs(controllers_and_criu).on(V2).unlike_runc(),
    case!(failed_restore).needs(controllers_and_criu).on(V2).unlike_runc(),
];

fn controllers_and_criu() -> Result<(), String> {
    controllers().and_then(|()| criu::lacking())
}

/// Saves a container in a scope to a directory, which this function returns. The scope is gone then.
fn saved<'a>(bed: &'a Bed, limits: Value) -> (Scope<'a>, String) {
    let c = scope(bed, limited(bed, limits).sh(COUNTER), "system.slice").detached();
    let images = bed.dir.join("images").to_str().expect("path").to_owned();
    let checkpoint = c.container.id_call("checkpoint", &["--image-path", &images], &[]);
    checkpoint.env("DAYFLY_CRIU", &criu::program()).within(wait::patience() * 3).run().ok();
    c.is_gone();
    (c, images)
}

fn restore(c: &Scope<'_>, images: &str) -> Outcome {
    let call = c.container.scope_call("restore", &["--detach", "--image-path", images]);
    call.env("DAYFLY_CRIU", &criu::program()).within(wait::patience() * 3).run()
}

/// A restored container is in a scope with the same name and limits, and criu no longer counts against the limit.
fn restored(bed: &Bed) {
    let (c, images) = saved(bed, json!({ "pids": { "limit": 20 } }));
    for _ in 0..2 {
        restore(&c, &images).ok();
        assert_eq!(c.container.status(), "running");
        assert_eq!(
            (c.show("ActiveState"), c.show("Slice")),
            ("active".into(), "system.slice".into())
        );
        assert_eq!((c.read("pids.max"), c.show("TasksMax")), ("20".into(), "20".into()));
        let pid = c.container.pid().to_string();
        assert!(c.read("cgroup.procs").lines().any(|line| line == pid));
        c.container.exec(&["true"]).ok();
        c.delete();
    }
}

/// A container that an annotation restores waits for `start` in its scope.
fn named_checkpoint(bed: &Bed) {
    let annotations = json!({ "run.dayfly.checkpoint": "images", "team": "a" });
    let c = scope(bed, bed.bundle().set("/annotations", annotations).sh(COUNTER), "system.slice");
    let call = |command: &str| {
        let call = c.container.scope_call(command, &[]).env("DAYFLY_CRIU", &criu::program());
        let place = bed.dir.to_str().expect("path");
        call.env("DAYFLY_CHECKPOINTS", place).within(wait::patience() * 3).run().ok()
    };
    assert!(call("create").stderr.contains("the program is executed instead"));
    c.container.start().ok();
    let images = bed.dir.join("images").to_str().expect("path").to_owned();
    let flags = ["--image-path", &images, "--for", "team=a"];
    let checkpoint = c.container.id_call("checkpoint", &flags, &[]);
    checkpoint.env("DAYFLY_CRIU", &criu::program()).within(wait::patience() * 3).run().ok();
    c.is_gone();
    for _ in 0..2 {
        assert_eq!(call("create").stderr, "");
        let processes = c.read("cgroup.procs");
        assert!(processes.lines().any(|line| line == c.container.pid().to_string()), "{processes}");
        assert_eq!(
            (c.container.status().as_str(), c.show("ActiveState")),
            ("created", "active".into())
        );
        c.container.start().ok();
        assert_eq!(c.container.status(), "running");
        c.container.exec(&["true"]).ok();
        c.delete();
        c.is_gone();
    }
}

/// A failed restore leaves neither the scope nor the container.
fn failed_restore(bed: &Bed) {
    let (c, images) = saved(bed, json!({}));
    let core = fs::read_dir(&images).expect("images").flatten().map(|entry| entry.path());
    let core = core.into_iter().find(|path| path.to_string_lossy().contains("/core-"));
    let core = core.expect("an image of a process");
    let length = fs::metadata(&core).expect("stat").len();
    fs::write(&core, vec![0xff; usize::try_from(length).expect("length")]).expect("damage");
    restore(&c, &images).exits(1);
    assert!(!c.container.exists());
    c.is_gone();
}
