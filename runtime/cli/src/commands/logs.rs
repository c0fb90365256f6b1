//! `logs`: prints the output of a container that runs in the background.

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let values = invocation.values;
    let tail = match values.text(&TAIL) {
        None | Some("all") => None,
        Some(text) => Some(number::parse::<u64>(text).map_err(|reason| {
            failure!("--tail: parsing {text:?} as a number of lines: {reason}")
        })?),
    };
    Ok(invocation.container()?.print_log(tail, values.flag(&FOLLOW))?)
}
