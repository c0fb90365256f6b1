//! The integration suite: one module a subject, real containers in each.

mod exec;
mod lifecycle;
mod run;
mod terminal;

use dayfly_tests::runner::{self, Subject};
use std::process::ExitCode;

const SUBJECTS: &[Subject] =
    &[("lifecycle", lifecycle::CASES), ("run", run::CASES), ("exec", exec::CASES), ("terminal", terminal::CASES)];

fn main() -> ExitCode {
    runner::main(SUBJECTS)
}
