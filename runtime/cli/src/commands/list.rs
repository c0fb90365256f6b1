//! `list`: prints the containers of a state root.

use container::State;
use rustix::fs::{Access, CWD, access};
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
    match columns().filter(|_| !invocation.values.flag(&NO_TRUNC)) {
        Some(columns) => brief::table(states, config, columns),
        None => list::table(states),
    }
}

/// Returns the number of columns of the terminal, if standard output is a terminal.
fn columns() -> Option<usize> {
    let columns = tcgetwinsize(stdout()).ok()?.ws_col;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Reads the configuration of a container from its bundle, if the file still exists.
fn config(state: &State) -> Option<Vec<u8>> {
    sys::fs::read_at(CWD, format!("{}/config.json", state.bundle).as_str()).ok()
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
