//! The integration suite: one module a subject, real containers in each.

mod devices;
mod exec;
mod hooks;
mod lifecycle;
mod masks;
mod mounts;
mod namespaces;
mod process;
mod run;
mod seccomp;
mod terminal;
mod userns;

use dayfly_tests::runner::{self, Subject};
use std::process::ExitCode;

const SUBJECTS: &[Subject] = &[
    ("lifecycle", lifecycle::CASES),
    ("run", run::CASES),
    ("exec", exec::CASES),
    ("terminal", terminal::CASES),
    ("mounts", mounts::CASES),
    ("masks", masks::CASES),
    ("devices", devices::CASES),
    ("namespaces", namespaces::CASES),
    ("userns", userns::CASES),
    ("process", process::CASES),
    ("seccomp", seccomp::CASES),
    ("hooks", hooks::CASES),
];

fn main() -> ExitCode {
    runner::main(SUBJECTS)
}
