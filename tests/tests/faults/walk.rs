//! Makes every step in the two lists of a plan fail, or kill its process, during `create` or after `start`.

use super::{KINDS, assert_told, faulty};
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::steps::{self, Step};
use dayfly_tests::{leak, wait};

/// A kind of container, all of whose steps are made to fail.
pub struct Walk<'a> {
    /// The container, created repeatedly.
    pub c: Container<'a>,
    /// Flags of `create`.
    pub flags: Vec<String>,
    /// Whether systemd makes the cgroup.
    pub in_scope: bool,
    /// Runs before each `create`.
    pub prepare: Box<dyn Fn() + 'a>,
    /// Returns those remains that can't be found by the container's id.
    pub left: Box<dyn Fn() -> Vec<String> + 'a>,
}

impl<'a> Walk<'a> {
    /// Makes a walk through the steps of this bundle's plan.
    pub fn new(bundle: Bundle<'a>) -> Self {
        Self {
            c: bundle.make(),
            flags: Vec::new(),
            in_scope: false,
            prepare: Box::new(|| {}),
            left: Box::new(Vec::new),
        }
    }

    /// Returns the steps, as `plan` prints them.
    pub fn steps(&self) -> Vec<Step> {
        (self.prepare)();
        let plan = match self.in_scope {
            true => &["--systemd-cgroup", "plan"][..],
            false => &["plan"],
        };
        let mut steps = steps::of(&self.c, plan, "");
        // `plan` does not accept the flags of `create`.
        if self.flags.iter().any(|flag| flag == "--console-socket")
            && let Some(at) = steps.iter().position(|step| step.name == "make network")
        {
            let name = "connect console".to_owned();
            steps.insert(at, Step { name, ..steps[at].clone() });
            steps[at + 1..]
                .iter_mut()
                .filter(|step| step.actor == "parent")
                .for_each(|step| step.number += 1);
        }
        if self.flags.iter().any(|flag| flag == "--no-pivot") {
            steps = steps::of(&self.c, plan, "blank-namespace");
            for step in &mut steps {
                if step.name == "pivot root" {
                    step.name = "change root".to_owned();
                }
            }
        }
        steps
    }

    fn create(&self) -> Call {
        (self.prepare)();
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        match self.in_scope {
            true => self.c.scope_call("create", &flags),
            false => self.c.bundle_call("create", &flags),
        }
    }

    /// Makes a step fail in one `create`, and kill its process in a second one. Returns whether the step is executed
    /// after `start`.
    pub fn strike(&self, step: &Step) -> bool {
        let c = &self.c;
        let mut after_start = false;
        for kind in KINDS {
            let fault = format!("{}:{}:{kind} ({})", step.actor, step.number, step.name);
            let created = faulty(self.create(), step.actor, step.number, kind).run();
            if created.code() != 0 {
                assert_told(&created, kind, &fault);
                assert!(kind == "kill" || names(&created, step), "{fault}: {created}");
            } else {
                // `create` succeeded, so this is a step of init after the start.
                assert_eq!(step.actor, "init", "{fault} did not strike");
                assert_waits_alone(c, &fault);
                let start = c.start();
                // If init is killed after the start, this looks like the end of its program.
                match (kind, start.code()) {
                    ("kill", 0) => c.wait_status("stopped"),
                    _ => assert_told(&start, kind, &fault),
                }
                after_start = true;
            }
            // A command that failed has cleaned up by itself.
            if kind == "kill" || created.code() == 0 {
                c.delete_force().ok();
            }
            self.assert_gone(&fault);
            steps::struck(step.actor, &step.name, kind);
        }
        after_start
    }

    /// Makes every step fail, one at a time; finally starts the container without a fault.
    pub fn take(&self) {
        let steps = self.steps();
        let of = |actor: &str| steps.iter().filter(|step| step.actor == actor).count();
        assert!(of("parent") > 6 && of("init") > 15, "{steps:?}");
        let after_start = steps.iter().filter(|step| self.strike(step)).count();
        assert!(after_start >= 1, "exec is after start");
        // The container's id can be used again.
        let c = &self.c;
        self.create().run().ok();
        c.start().ok();
        let pid = c.pid();
        wait::until_none("descriptors that the program was not given", || leak::descriptors(pid));
        c.delete_force().ok();
        self.assert_gone("nothing");
    }

    fn assert_gone(&self, fault: &str) {
        self.c.assert_gone(fault);
        wait::until_none(&format!("anything left by {fault}"), || (self.left)());
    }
}

/// Returns whether the error message names the failed step. For hooks and exec, which have messages of their own, this
/// is always true.
fn names(outcome: &Outcome, step: &Step) -> bool {
    let found = steps::named_by(step.actor, step.number, &outcome.stderr);
    let by_itself = step.actor == "init" && ["run hooks", "exec"].contains(&step.name.as_str());
    by_itself || found.is_some_and(|found| found.name == step.name)
}

/// Asserts that the only open descriptor of an init that waits for `start` is the socket that it listens on.
#[track_caller]
fn assert_waits_alone(c: &Container<'_>, fault: &str) {
    let state = c.state();
    if state["status"] == "created" {
        let pid = state["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("pid");
        // The connection of `state` remains open for a moment.
        wait::until_none(&format!("descriptors besides the socket after {fault}"), || {
            let open = leak::descriptors(pid);
            if open.len() <= 1 && open.iter().all(|fd| fd.starts_with("socket:")) {
                return Vec::new();
            }
            open
        });
    }
}
