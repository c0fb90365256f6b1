//! `list`: prints the containers of a state root.

use container::State;
use rustix::fs::{Access, access};
use rustix::termios::tcgetwinsize;
use sys::Errno;
use sys::stdio::stdout;

use super::*;
use crate::format::{brief, list};

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let states = states(invocation)?;
    if invocation.values.flag(&QUIET) {
        return print(&list::quiet(&states));
    }
    match is_json(invocation.values.text(&FORMAT), "table")? {
        true => print(&list::json(&states)?),
        false => print(&table(&states, invocation)),
    }
}

/// Returns the table. On a terminal, it is truncated to the terminal's width, unless `--no-trunc` was given. Otherwise
/// it has runc's columns in full.
fn table(states: &[State], invocation: &Invocation<'_>) -> String {
    let Some(columns) = columns().filter(|_| !invocation.values.flag(&NO_TRUNC)) else {
        return list::table(states);
    };
    let process =
        |state: &State| invocation.store().ok()?.container(&state.id).ok()?.process().ok();
    brief::table(states, process, columns)
}

/// Returns the number of columns of the terminal, if standard output is a terminal.
fn columns() -> Option<usize> {
    let columns = tcgetwinsize(stdout()).ok()?.ws_col;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Returns the states of all containers. If the state root does not exist, the list is empty; this is an error only if
/// the command line names the state root.
pub(super) fn states(invocation: &Invocation<'_>) -> Result<Vec<State>, Failure> {
    let root = state_root::of(invocation.globals, invocation.args)?;
    match access(root.path.as_str(), Access::EXISTS) {
        Err(Errno::NOENT) if !root.is_given => Ok(Vec::new()),
        result => {
            result.context("open", &root.path)?;
            Ok(root.open(invocation.trace)?.list()?)
        }
    }
}
