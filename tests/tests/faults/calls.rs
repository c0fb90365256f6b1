//! Kills each process of a command (the command itself, its init, and helpers) before each of its system calls.

use super::fault_points;
use super::users::users;
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::user::User;
use dayfly_tests::{case, leak, wait};
use follow::{Event, Listener, call_name};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, HashMap};

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

/// A process's place in the tree: the command is `[]`, its second child is `[1]`, and the first child of that is `[1,
/// 0]`.
type Descent = Vec<usize>;

/// The system call before which a process is killed; `number` counts the calls of that process from 0.
#[derive(Clone)]
struct Moment {
    whose: Descent,
    number: usize,
}

/// The processes of a command, and the calls that each of them has made. Kills one of them at a given moment.
#[derive(Default)]
struct Family {
    command: Option<Pid>,
    members: HashMap<Pid, Descent>,
    children: HashMap<Pid, usize>,
    calls: BTreeMap<Descent, Vec<u64>>,
    /// The moment of the kill; `None` to record all calls instead.
    last: Option<Moment>,
    has_killed: bool,
}

impl Listener for Family {
    fn hear(&mut self, pid: Pid, event: Event) {
        match event {
            Event::Born { parent: None, .. } => self.command = Some(pid),
            Event::Born { parent: Some(parent), .. } => {
                let Some(mut descent) = self.members.get(&parent).cloned() else { return };
                let number = self.children.entry(parent).or_default();
                descent.push(*number);
                *number += 1;
                self.members.insert(pid, descent);
            }
            // For a user, the command starts with a script that becomes the user and then executes dayfly. Helpers and
            // hooks execute other programs.
            Event::Executed { command, .. } => {
                let is_ours = command.first().is_some_and(|name| name.ends_with("dayfly"));
                match is_ours && self.command == Some(pid) {
                    true => self.members.insert(pid, Descent::new()),
                    false => self.members.remove(&pid),
                };
            }
            Event::Entered { number, .. } => {
                let Some(whose) = self.members.get(&pid) else { return };
                let calls = self.calls.entry(whose.clone()).or_default();
                calls.push(number);
                let is_last =
                    |last: &Moment| last.whose == *whose && last.number + 1 == calls.len();
                if self.last.as_ref().is_some_and(is_last) {
                    let _ = kill_process(pid, Signal::KILL);
                    self.has_killed = true;
                }
            }
            _ => {}
        }
    }

    fn hears_calls_of(&self, pid: Pid) -> bool {
        let Some(whose) = self.members.get(&pid) else { return false };
        self.last.as_ref().is_none_or(|last| !self.has_killed && last.whose == *whose)
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
        let call = || (self.call)().env("DAYFLY_WITHOUT", super::WITHOUT);
        // The first start creates what a host keeps between starts.
        (self.prepare)();
        (self.check)("nothing", &call().run().ok());
        let mut family = Family::default();
        (self.prepare)();
        let whole = call().followed_by(&mut family).ok();
        (self.check)("nothing", &whole);
        let mut count = 0;
        for (whose, calls) in &family.calls {
            for (number, made) in calls.iter().enumerate() {
                (self.prepare)();
                let last = Moment { whose: whose.clone(), number };
                let mut family = Family { last: Some(last), ..Family::default() };
                let outcome = call().followed_by(&mut family);
                // The process may not have reached this call this time.
                if !family.has_killed {
                    continue;
                }
                count += 1;
                let name = call_name(*made);
                (self.check)(&format!("{whose:?} killed before call {number}, {name}"), &outcome);
            }
        }
        count
    }
}

/// Walks through a command that makes a container. Nothing of the container may be left after each kill.
fn making(c: &Container<'_>, left: &dyn Fn() -> Vec<String>, call: &dyn Fn() -> Call) {
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
    assert!(struck > 100, "{struck}");
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
