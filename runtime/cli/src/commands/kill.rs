//! `kill`: sends a signal to a container.

use container::{Container, Error};

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    if let Some(text) = invocation.values.text(&SIGNAL) {
        // As with Docker and Podman, all arguments are containers.
        let signal = parse(text)?;
        let store = invocation.store()?;
        return each(invocation, |id| kill(invocation, &store.container(id)?, signal));
    }
    let container = invocation.exact_container()?;
    let signal = match invocation.arguments.get(1) {
        None | Some(&"") => signal::TERM,
        Some(text) => parse(text)?,
    };
    kill(invocation, &container, signal)
}

fn parse(text: &str) -> Result<i32, Failure> {
    signal::parse(text).ok_or_else(|| failure!("unknown signal {text:?}"))
}

fn kill(invocation: &Invocation<'_>, container: &Container, signal: i32) -> Result<(), Failure> {
    let all = invocation.values.flag(&ALL);
    match container.kill(signal) {
        // Callers pass --all to kill processes that are left after the container's init has exited.
        Err(Error::NotRunning) if all => Ok(()),
        result => Ok(result?),
    }
}
