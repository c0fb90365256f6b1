//! The functions that commands execute stand beside each other in the program. The kernel maps 16 pages around each page
//! that a process touches, so a start that touches few such windows takes fewer page faults.
//!
//! `UPDATE_ORDER=DIRECTORY` writes the lists of these functions anew, from this and earlier runs with the same directory
//! (`scripts/order`).

use crate::shim::calls::Ground;
use crate::weight::{command_of, container, of_bundle};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::descent::Family;
use dayfly_tests::order::{Addresses, Program, SECTION};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::view::View;
use host::follow::{End, Event, Listener, Mode, follow};
use rustix::process::Pid;
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(dayfly).on(VIEWS).when(uses_every_fast_path).needs(chosen).unlike_runc(),
    case!(shim).on(VIEWS).when(uses_every_fast_path).needs(chosen).unlike_runc(),
];

const VIEWS: &[View] = &[View::V1, View::V2, View::Hybrid];

/// The minimum share of a start's instructions that are in the section, in percent. The rest is new since the list was
/// written.
const ENOUGH: usize = 90;
/// A list is made from all instructions of a command; the check is quicker.
const BOUND: u64 = 5_000_000;
const BOUND_OF_CHECK: u64 = 60_000;
const DEADLINE: Duration = Duration::from_secs(240);

/// One view is enough for the check; a new list contains the functions of all views.
fn chosen() -> Result<(), String> {
    let is_v2 = View::current().is_ok_and(|view| view == View::V2);
    if is_v2 || updating().is_some() {
        return Ok(());
    }
    Err("the view v2 has this case".to_owned())
}

/// Returns the directory of the traces from which new lists are made.
fn updating() -> Option<PathBuf> {
    std::env::var_os("UPDATE_ORDER").map(PathBuf::from)
}

fn dayfly(bed: &Bed) {
    let run = executed(bed, "run", |_| {}, |c| of_bundle("run", c));
    let created = |c: &Container<'_>| drop(c.create().ok());
    let running = |c: &Container<'_>| drop(c.run_with(&["--detach"]).ok());
    let stopped = |c: &Container<'_>| {
        c.run_with(&["--detach"]).ok();
        c.kill("KILL").ok();
        c.wait_status("stopped");
    };
    let of_id = |verb: &str, c: &Container<'_>| vec![verb.to_owned(), c.id.clone()];
    let exec = |c: &Container<'_>| vec!["exec".into(), c.id.clone(), "/bin/true".into()];
    let rest = || {
        vec![
            executed(bed, "exec", running, exec),
            executed(bed, "create", |_| {}, |c| of_bundle("create", c)),
            executed(bed, "start", created, |c| of_id("start", c)),
            executed(bed, "state", running, |c| of_id("state", c)),
            executed(bed, "kill", running, |c| [of_id("kill", c), vec!["KILL".into()]].concat()),
            executed(bed, "delete", stopped, |c| of_id("delete", c)),
        ]
    };
    check(bed.view, "cli", bed.runtime(), run, rest);
}

fn shim(bed: &Bed) {
    let Some(ground) = Ground::new(bed) else { return };
    // The first start fills the host's caches.
    ground.live_through(Mode::Syscalls, |_: Pid, _: Event| {});
    let steps = Steps::of(&ground.program);
    ground.live_through(by_step(), steps.clone());
    check(bed.view, "shim", &ground.program, steps.addresses(), Vec::new);
}

/// Checks that `first` executes mostly functions of the section. With `UPDATE_ORDER`, writes the list of the package
/// instead, with the functions of the `rest` too.
fn check(
    view: View,
    package: &str,
    program: &Path,
    first: Addresses,
    rest: impl FnOnce() -> Vec<Addresses>,
) {
    let program = Program::read(program);
    let Some(directory) = updating().map(|directory| directory.join(package)) else {
        let share = program.ordered(&first).unwrap_or_else(|| panic!("no section {SECTION}"));
        println!("{share} % of the executed instructions are in {SECTION}");
        assert!(
            share >= ENOUGH,
            "{share} % are in {SECTION}: scripts/order lists the functions anew"
        );
        return;
    };
    let commands: Vec<Addresses> = iter::once(first).chain(rest()).collect();
    keep(&directory, view, &commands);
    let list = format!("{}/../runtime/{package}/order", env!("CARGO_MANIFEST_DIR"));
    let before = fs::read_to_string(&list).unwrap_or_default();
    let order = program.order(&kept(&directory), before.lines());
    fs::write(list, order.join("\n") + "\n").expect("write the list");
}

/// The instructions that the processes of a program execute.
#[derive(Clone)]
struct Steps(Arc<Mutex<Stepped>>);

#[derive(Default)]
struct Stepped {
    program: PathBuf,
    family: Family,
    seen: HashSet<u64>,
    addresses: Addresses,
}

impl Steps {
    fn of(program: &Path) -> Self {
        let program = program.to_owned();
        Self(Arc::new(Mutex::new(Stepped { program, ..Stepped::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Stepped> {
        self.0.lock().expect("steps")
    }

    fn addresses(&self) -> Addresses {
        std::mem::take(&mut self.lock().addresses)
    }
}

impl Listener for Steps {
    fn hear(&mut self, pid: Pid, event: Event) {
        let mut stepped = self.lock();
        match event {
            Event::Born { parent: Some(parent), .. } => stepped.family.add_child(parent, pid),
            Event::Executed { command, .. } => {
                let name = command.first();
                let is_program = name.is_some_and(|name| stepped.program.ends_with(name));
                stepped.family.execute(pid, is_program);
            }
            Event::Stepped { next } if stepped.seen.insert(next) => stepped.addresses.push(next),
            _ => {}
        }
    }

    fn hears_calls_of(&self, pid: Pid) -> bool {
        self.lock().family.hears_calls_of(pid)
    }
}

/// Returns the addresses of the instructions that a command of the runtime and its init execute, up to the bound.
fn executed(
    bed: &Bed,
    command: &str,
    prepare: impl Fn(&Container<'_>),
    args: impl Fn(&Container<'_>) -> Vec<String>,
) -> Addresses {
    let step = |mode| {
        let container = container(bed, command);
        prepare(&container);
        let mut steps = Steps::of(bed.runtime());
        let end = follow(&command_of(bed, &args(&container)), mode, DEADLINE, &mut steps);
        assert_eq!(end.unwrap_or_else(|error| panic!("{error}")), End::Exited(0), "{command}");
        steps.addresses()
    };
    // The first start fills the host's caches.
    if command == "run" {
        step(Mode::Syscalls);
    }
    step(by_step())
}

fn by_step() -> Mode {
    Mode::Instructions { bound: if updating().is_some() { BOUND } else { BOUND_OF_CHECK } }
}

/// Adds the commands of this view to the directory.
fn keep(directory: &Path, view: View, commands: &[Addresses]) {
    fs::create_dir_all(directory).expect("create the directory");
    for (number, addresses) in commands.iter().enumerate() {
        let mut text = String::new();
        addresses.iter().for_each(|address| _ = writeln!(text, "{address:x}"));
        fs::write(directory.join(format!("{number}.{}", view.name())), text).expect("write");
    }
}

/// Returns the commands in the directory, sorted by command.
fn kept(directory: &Path) -> Vec<Addresses> {
    let entries = fs::read_dir(directory).expect("list").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("read");
        let address = |line| u64::from_str_radix(line, 16).expect("an address");
        text.lines().map(address).collect()
    };
    files.iter().map(read).collect()
}
