//! The integration suite: one module per subject, with real containers.
//!
//! Each file of this directory is a module, which registers its cases with `subject!`. A table of cases that is not
//! registered is dead code, which `make lint` rejects.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a number that is cut fails the test"
)]

automod::dir!("tests");

use std::process::ExitCode;

fn main() -> ExitCode {
    dayfly_tests::runner::main(&dayfly_tests::subject::all())
}
