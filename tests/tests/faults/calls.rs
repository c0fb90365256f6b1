//! Kills each process of a command (the command itself, its init, and helpers) before each of its system calls.

use super::fault_points;
use super::users::users;
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::descent::{Family, Moment, moments};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::user::User;
use dayfly_tests::{case, leak, wait};
use host::follow::{Event, Listener, call_name};
use rustix::process::{Pid, Signal, kill_process};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(create).needs(fault_points),
    case!(run).needs(fault_points),
    case!(exec).needs(fault_points),
    case!(start_and_delete).needs(fault_points),
    case!(joined).needs(fault_points),
    case!(create_of_a_user).needs(users),
    case!(exec_of_a_user).needs(users),
    case!(run_in_a_namespace_of_somebody_else).needs(users),
    case!(exec_in_a_namespace_of_somebody_else).needs(users),
];

/// Kills one process of a command at a given moment.
#[derive(Default)]
struct Killer {
    command: Option<Pid>,
    family: Family,
}

impl Listener for Killer {
    fn hear(&mut self, pid: Pid, event: Event) {
        match event {
            Event::Born { parent: None, .. } => self.command = Some(pid),
            Event::Born { parent: Some(parent), .. } => self.family.add_child(parent, pid),
            // For a user, the command starts with a script that becomes the user and then executes dayfly. Helpers and
            // hooks execute other programs.
            Event::Executed { command, .. } => {
                let is_ours = command.first().is_some_and(|name| name.ends_with("dayfly"));
                self.family.execute(pid, is_ours && self.command == Some(pid));
            }
            Event::Entered { number, .. } => {
                let is_now = self.family.enter(pid, number);
                if is_now {
                    let _ = kill_process(pid, Signal::KILL);
                    self.family.has_killed = true;
                }
            }
            _ => {}
        }
    }

    fn hears_calls_of(&self, pid: Pid) -> bool {
        self.family.hears_calls_of(pid)
    }
}

/// A command, the preparation before it, and the check after it.
struct Walk<'a> {
    prepare: &'a dyn Fn(),
    call: &'a dyn Fn() -> Call,
    check: &'a dyn Fn(&str, &Outcome),
}

impl Walk<'_> {
    /// Walks through the command; returns the number of calls at which a process was killed.
    fn take(&self) -> usize {
        // The first start fills the host's cache.
        (self.prepare)();
        (self.check)("nothing", &(self.call)().run().ok());
        let mut recorder = Killer::default();
        (self.prepare)();
        let whole = (self.call)().followed_by(&mut recorder).ok();
        (self.check)("nothing", &whole);
        let mut count = 0;
        for (last, made) in moments(&recorder.family.calls, |_| true) {
            (self.prepare)();
            let Moment { whose, number } = last.clone();
            let mut killer = Killer { family: Family::until(last), ..Killer::default() };
            let outcome = (self.call)().followed_by(&mut killer);
            // The process may not have reached this call this time.
            if !killer.family.has_killed {
                continue;
            }
            count += 1;
            let name = call_name(made);
            (self.check)(&format!("{whose:?} killed before call {number}, {name}"), &outcome);
        }
        count
    }
}

/// Runs a command that makes a container once for each of the system calls that its processes make. Each run kills the
/// process that makes the call, before the call. After each run, `delete --force` must leave nothing of the container.
pub fn making(c: &Container<'_>, left: &dyn Fn() -> Vec<String>, call: &dyn Fn() -> Call) {
    let check = |fault: &str, outcome: &Outcome| {
        // A process killed before execve(2) looks like a program that was killed.
        let quiet = outcome.code() == 0 || outcome.died_of_signal() || fault.ends_with("execve");
        assert!(quiet || !outcome.stderr.is_empty(), "{fault}: {outcome}");
        c.delete_force().ok();
        c.assert_gone(fault);
        wait::until_none(&format!("anything left by {fault}"), left);
    };
    let struck = Walk { prepare: &|| {}, call, check: &check }.take();
    println!("{}: killed before each of {struck} system calls", c.id);
    // A kill may come before a call is reached, so not every call counts each time.
    assert!(struck > 60, "{struck}");
}

fn nothing() -> Vec<String> {
    Vec::new()
}

fn create(bed: &Bed) {
    let c = bed.bundle().make();
    making(&c, &nothing, &|| c.bundle_call("create", &[]));
}

fn run(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    making(&c, &nothing, &|| c.bundle_call("run", &[]));
}

fn joined(bed: &Bed) {
    let first = mapped(bed).make().detached();
    let user = format!("/proc/{}/ns/user", first.pid());
    let joined = mapped(bed).join_namespace("user", &user);
    let c = joined.unset("/linux/uidMappings").unset("/linux/gidMappings").make();
    making(&c, &nothing, &|| c.bundle_call("create", &[]));
}

/// Walks through `exec` in a container that must not be affected.
fn executing(c: &Container<'_>, left: &dyn Fn() -> Vec<String>) {
    let there = || (leak::processes(std::slice::from_ref(&c.id)).len(), left());
    let before = there();
    let check = |fault: &str, _: &Outcome| {
        wait::until_true(&format!("no process to be left by {fault}"), || there() == before);
        assert_eq!(c.status(), "running", "{fault}");
    };
    let call = || c.id_call("exec", &[], &["/bin/true"]);
    let struck = Walk { prepare: &|| {}, call: &call, check: &check }.take();
    println!("{}: killed before each of {struck} system calls of exec", c.id);
    assert!(struck > 50, "{struck}");
}

fn exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    executing(&c, &nothing);
}

fn start_and_delete(bed: &Bed) {
    let c = bed.bundle().make();
    let delete = |fault: &str, _: &Outcome| {
        c.delete_force().ok();
        c.assert_gone(fault);
    };
    // A container that was not started can still be started.
    let start = |fault: &str, outcome: &Outcome| {
        if c.status() == "created" {
            c.start().ok();
        }
        delete(fault, outcome);
    };
    let created = || drop(c.create().ok());
    let started = || {
        created();
        c.start().ok();
    };
    for (prepare, command, flags, check) in [
        (&created as &dyn Fn(), "start", &[][..], &start as &dyn Fn(&str, &Outcome)),
        (&created, "delete", &[], &delete),
        (&started, "delete", &["--force"], &delete),
    ] {
        let struck = Walk { prepare, call: &|| c.id_call(command, flags, &[]), check }.take();
        println!("{}: killed before each of {struck} system calls of {command}", c.id);
        assert!(struck > 10, "{command}: {struck}");
    }
}

fn create_of_a_user(bed: &Bed) {
    let user = User::delegated(bed);
    let c = user.ranges().make();
    making(&c, &|| user.left(), &|| c.bundle_call("create", &[]));
}

fn exec_of_a_user(bed: &Bed) {
    let user = User::delegated(bed);
    let c = user.ranges().make().detached();
    executing(&c, &|| user.left());
}

fn run_in_a_namespace_of_somebody_else(bed: &Bed) {
    let user = User::nested(bed);
    let c = user.plain().args(&["/bin/true"]).make();
    making(&c, &|| user.left(), &|| c.bundle_call("run", &[]));
}

fn exec_in_a_namespace_of_somebody_else(bed: &Bed) {
    let user = User::nested(bed);
    let c = user.plain().make().detached();
    executing(&c, &|| user.left());
}
