//! `run`: makes a container, runs it and deletes it.

use container::RunOptions;

use super::create;
use crate::definition::NAME;
use crate::definition::options::{DETACH, KEEP, NO_SUBREAPER};
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    run(invocation).map_err(|failure| failure.of(format_args!("{NAME} run")))
}

fn run(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let options = RunOptions {
        create: create::options(invocation)?,
        detach: invocation.values.flag(&DETACH),
        keep: invocation.values.flag(&KEEP),
        no_subreaper: invocation.values.flag(&NO_SUBREAPER),
    };
    invocation.trace.seal(invocation.args)?;
    Ok(container::run(&invocation.store()?, &options)?)
}
