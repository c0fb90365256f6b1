//! Walks through the fault points of all commands, for any caller.

use super::walk::Walk;
use super::{KINDS, faulty, walk_through};
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::steps::{self, Step};
use dayfly_tests::{leak, wait};
use serde_json::{Value, json};

/// The caller of a walk: functions that create the caller's bundles, and that find the remains of
/// the caller's containers.
pub struct Ground<'a> {
    /// Returns a new bundle.
    pub bundle: Box<dyn Fn() -> Bundle<'a> + 'a>,
    /// Returns those remains that can't be found by the container's id.
    pub left: Box<dyn Fn() -> Vec<String> + 'a>,
}

/// Returns a process file for a program that exits at once, with every property that `exec` supports.
fn process() -> Value {
    json!({ "args": ["/bin/true"], "cwd": "/", "user": { "uid": 0, "gid": 0 }, "oomScoreAdj": 377,
        "execCPUAffinity": { "initial": "0", "final": "0" } })
}

impl<'a> Ground<'a> {
    /// Returns the [`Ground`] for root's bundles. Whatever their containers leave behind can be found by the
    /// container's id, so `left` returns nothing.
    pub fn new(bundle: impl Fn() -> Bundle<'a> + 'a) -> Self {
        Self { bundle: Box::new(bundle), left: Box::new(Vec::new) }
    }

    fn make(&self) -> Container<'a> {
        (self.bundle)().make()
    }

    fn assert_gone(&self, c: &Container<'_>, fault: &str) {
        c.assert_gone(fault);
        wait::until_none(&format!("anything left by {fault}"), || (self.left)());
    }

    /// Walks through the plan's lists, with `create` and `start`.
    pub fn create(&self) {
        let mut walk = Walk::new((self.bundle)().set("/process/oomScoreAdj", json!(377)));
        walk.left = Box::new(|| (self.left)());
        walk.take();
    }

    /// Walks through the plan's lists, with `run`.
    pub fn run(&self, flags: &[&str]) {
        let c = (self.bundle)().args(&["/bin/true"]).set("/process/oomScoreAdj", json!(377)).make();
        for place in ["parent", "init"] {
            let mut named = Vec::new();
            for kind in KINDS {
                let steps = walk_through(place, kind, |step, fault| {
                    let outcome = faulty(c.bundle_call("run", flags), place, step, kind).run();
                    if kind == "kill" || outcome.code() == 0 {
                        c.delete_force().ok();
                    }
                    self.assert_gone(&c, fault);
                    note(&mut named, place, step, kind, &outcome);
                    outcome
                });
                assert!(steps > 6, "{place}: {steps}");
            }
        }
    }

    /// Walks through the steps of `create` or `run` that are not in the plan's lists, and asserts that there are at
    /// least `least` of them. The container of a `run` may have ended before the failure.
    pub fn besides(&self, verb: &str, call: &dyn Fn(&Container<'_>) -> Call, least: usize) {
        let c = (self.bundle)().args(&["/bin/true"]).make();
        for kind in KINDS {
            let steps = walk_through("command", kind, |step, fault| {
                let outcome = faulty(call(&c), "command", step, kind).run();
                if kind == "kill" || outcome.code() == 0 || verb == "run" {
                    c.delete_force().ok();
                }
                self.assert_gone(&c, fault);
                outcome
            });
            assert!(steps >= least, "{verb}: {steps}");
        }
    }

    /// Walks through the steps of `exec`, in a container that must continue unaffected.
    pub fn exec(&self, flags: &[&str]) {
        let c = self.make().detached();
        let file = c.bundle.join("process.json");
        std::fs::write(&file, process().to_string()).expect("write");
        let flags = [&["--process", file.to_str().expect("path")], flags].concat();
        let there = || (leak::processes(std::slice::from_ref(&c.id)).len(), (self.left)());
        let before = there();
        let open = leak::descriptors(c.pid());
        for place in ["parent", "init", "command"] {
            let mut named = Vec::new();
            for kind in KINDS {
                let steps = walk_through(place, kind, |step, fault| {
                    let outcome = faulty(c.id_call("exec", &flags, &[]), place, step, kind).run();
                    let what = format!("no process to be left by {fault}");
                    wait::until_true(&what, || there() == before);
                    assert_eq!(c.status(), "running", "{fault}");
                    assert_eq!(leak::descriptors(c.pid()), open, "{fault}");
                    note(&mut named, place, step, kind, &outcome);
                    outcome
                });
                assert!(steps > 6 || place == "command", "{place}: {steps}");
            }
        }
        c.exec(&["true"]).ok();
        c.delete_force().ok();
        self.assert_gone(&c, "nothing");
    }

    /// Walks through the steps of `start`, except the release of init.
    pub fn start(&self) {
        for kind in KINDS {
            let steps = walk_through("command", kind, |step, fault| {
                let c = self.make();
                c.create().ok();
                let outcome = faulty(c.id_call("start", &[], &[]), "command", step, kind).run();
                let status = c.status();
                assert!(status == "created" || status == "running", "{fault}: {status}");
                if status == "created" {
                    c.start().ok();
                }
                c.delete_force().ok();
                self.assert_gone(&c, fault);
                outcome
            });
            assert!(steps >= 3, "{steps}");
        }
    }

    /// Walks through `delete`, of a created container and of a running one.
    pub fn delete(&self) {
        for (kind, force) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let flags: &[&str] = if force { &["--force"] } else { &[] };
            let steps = walk_through("command", kind, |step, fault| {
                let c = self.make();
                c.create().ok();
                if force {
                    c.start().ok();
                }
                let outcome = faulty(c.id_call("delete", flags, &[]), "command", step, kind).run();
                c.delete_force().ok();
                self.assert_gone(&c, fault);
                outcome
            });
            assert!(steps >= 4, "{steps}");
        }
    }

    /// Walks through `delete --force` after a `create` that was killed before it wrote a record.
    pub fn delete_unrecorded(&self) {
        for kind in KINDS {
            let steps = walk_through("command", kind, |step, fault| {
                let c = self.make();
                let half = c.bed.root().join(&c.id);
                std::fs::create_dir_all(&half).expect("make half a container");
                let call = c.id_call("delete", &["--force"], &[]);
                let outcome = faulty(call, "command", step, kind).run();
                c.delete_force().ok();
                self.assert_gone(&c, fault);
                outcome
            });
            assert!(steps >= 2, "{steps}");
        }
    }
}

/// Adds the step that the error names to `named`, if its kind is `fail`; the walk kills the process at the same step
/// afterwards.
pub fn note(
    named: &mut Vec<Option<Step>>,
    place: &'static str,
    number: usize,
    kind: &'static str,
    outcome: &Outcome,
) {
    if outcome.code() == 0 {
        return;
    }
    if kind == "fail" {
        named.push(steps::named_by(place, number, &outcome.stderr));
    }
    if let Some(Some(step)) = named.get(number) {
        steps::struck(step.actor, &step.name, kind);
    }
}
