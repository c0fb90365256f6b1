//! `wait`: waits until containers have ended, and prints their exit codes.

use container::UNKNOWN;

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let store = invocation.store()?;
    // Before the wait for the first: the exit codes of the others may get lost meanwhile.
    let mut ends = invocation
        .arguments
        .iter()
        .map(|id| Ok::<_, Failure>(store.by_beginning(id)?.end()?))
        .collect::<Vec<_>>()
        .into_iter();
    each(invocation, |id| {
        let Some(end) = ends.next() else { return Ok(()) };
        match end?.wait()? {
            Some(code) => print(&format!("{code}\n")),
            None => {
                print(&format!("{UNKNOWN}\n"))?;
                Err(failure!(
                    "the exit code of container {id} is unknown: that of a container that has ended is kept for root \
                     only, from Linux 6.15, and only after \"run -d --image\""
                ))
            }
        }
    })
}
