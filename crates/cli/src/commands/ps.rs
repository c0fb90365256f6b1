//! `ps`: the processes of a container.

use super::{is_json, print};
use crate::definition::options::FORMAT;
use crate::failure::Failure;
use crate::format;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let pids = invocation.container()?.pids()?;
    if is_json(invocation.values.text(&FORMAT), "table")? {
        let mut line = format::json(&pids)?;
        line.push('\n');
        return print(&line);
    }
    Err(Failure::unsupported("ps as a table"))
}
