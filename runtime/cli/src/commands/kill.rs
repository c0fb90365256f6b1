//! `kill`: sends a signal to a container.

use container::Error;

use crate::definition::options::ALL;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::signal;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let container = invocation.exact_container()?;
    let signal = match invocation.arguments.get(1) {
        None | Some(&"") => signal::TERM,
        Some(text) => signal::parse(text)
            .ok_or_else(|| Failure::new(format_args!("unknown signal {text:?}")))?,
    };
    let all = invocation.values.flag(&ALL);
    match container.kill(signal) {
        // Callers pass --all to kill processes that are left after the container's init has exited.
        Err(Error::NotRunning) if all => Ok(()),
        result => Ok(result?),
    }
}
