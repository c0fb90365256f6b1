//! `kill`: sends a signal to a container.

use container::Error;

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let container = invocation.exact_container()?;
    let signal = match invocation.arguments.get(1) {
        None | Some(&"") => signal::TERM,
        Some(text) => signal::parse(text).ok_or_else(|| failure!("unknown signal {text:?}"))?,
    };
    let all = invocation.values.flag(&ALL);
    match container.kill(signal) {
        // Callers pass --all to kill processes that are left after the container's init has exited.
        Err(Error::NotRunning) if all => Ok(()),
        result => Ok(result?),
    }
}
