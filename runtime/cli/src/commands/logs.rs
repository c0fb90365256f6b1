//! `logs`: prints the output of a container that runs in the background.

use crate::definition::options::images::{FOLLOW, TAIL};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::number;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let values = invocation.values;
    let tail = match values.text(&TAIL) {
        None | Some("all") => None,
        Some(text) => Some(number::parse::<u64>(text).map_err(|reason| {
            Failure::new(format_args!("--tail: parsing {text:?} as a number of lines: {reason}"))
        })?),
    };
    Ok(invocation.container()?.print_log(tail, values.flag(&FOLLOW))?)
}
