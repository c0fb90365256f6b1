//! `list`: the containers of a state root.

use alloc::vec::Vec;

use container::{State, Store};
use rustix::fs::{Access, access};
use sys::{Context, Errno};

use super::{is_json, print};
use crate::definition::options::{FORMAT, QUIET};
use crate::failure::Failure;
use crate::format::list;
use crate::invocation::Invocation;
use crate::state_root;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let states = states(invocation)?;
    if invocation.values.flag(&QUIET) {
        return print(&list::quiet(&states));
    }
    match is_json(invocation.values.text(&FORMAT), "table")? {
        true => print(&list::json(&states)?),
        false => print(&list::table(&states)),
    }
}

/// The containers. A state root that is not there holds none, but one that the command line names is
/// expected to be there.
fn states(invocation: &Invocation<'_>) -> Result<Vec<State>, Failure> {
    let root = state_root::of(invocation.globals, invocation.args)?;
    match access(root.path.as_str(), Access::EXISTS) {
        Err(Errno::NOENT) if !root.is_given => Ok(Vec::new()),
        result => {
            result.context("open", &root.path)?;
            Ok(Store::open(&root.path, invocation.trace)?.list()?)
        }
    }
}
