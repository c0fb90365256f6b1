//! `dayfly host limit`: the limit on concurrent starts.

use crate::locks;
use crate::options::{Limit as Command, Locks, SetLimit, Width, Work};
use report::count::counted;
use report::{Error, Format, sayln};
use rustix::io::Errno;
use topology::limit::{Limit, State};

/// Prints, sets or removes the limit.
///
/// # Errors
/// Those of semget(2) and semctl(2). With `auto` also those of the measurement, such as an interrupt.
pub fn execute(command: &Command) -> Result<(), Error> {
    match command {
        Command::Status { format } => status(*format)?,
        Command::Set(options) => set(options)?,
        Command::Off => match Limit::lift().map_err(|errno| failed("lift", errno))? {
            true => sayln!("starts are no longer limited"),
            false => sayln!("starts were not limited"),
        },
    }
    Ok(())
}

fn status(format: Format) -> Result<(), Error> {
    let state = Limit::find().and_then(|limit| limit.state());
    match (format, state) {
        (Format::Json, state) => {
            let limit = state.map(|state| {
                serde_json::json!({
                    "width": state.width,
                    "in_flight": in_flight(state),
                    "waiting": state.waiting,
                    "longest_s": state.longest.as_secs(),
                })
            });
            sayln!("{:#}", serde_json::json!({ "limit": limit }));
        }
        (Format::Table, None) => sayln!("starts are not limited"),
        (Format::Table, Some(state)) => sayln!(
            "at most {} in flight at once: {} now, {} waiting, each for up to {} s",
            starts(state.width),
            in_flight(state),
            state.waiting,
            state.longest.as_secs()
        ),
    }
    Ok(())
}

fn set(options: &SetLimit) -> Result<(), Error> {
    let width = match options.width {
        Width::Starts(width) => width,
        Width::Auto => measured()?,
    };
    let longest = options.longest;
    Limit::set(width, longest).map_err(|errno| failed("set", errno))?;
    sayln!(
        "at most {} in flight at once until the next boot; others wait, each for up to {} s",
        starts(width.into()),
        longest.as_secs()
    );
    Ok(())
}

/// Measures this host, and returns the smallest number of concurrent starts whose throughput is nearly the best.
fn measured() -> Result<u16, Error> {
    let (curves, _) = locks::measure(&[Work::Mounts], Locks::TIME)?;
    let width = locks::advise(&curves).iter().find_map(|advice| advice.starts);
    width.and_then(|width| u16::try_from(width).ok()).ok_or_else(|| {
        refused!("the curves of this host allow no advice on the number of starts")
            .advise("give a number instead of auto")
    })
}

fn in_flight(state: State) -> usize {
    state.width.saturating_sub(state.free)
}

fn starts(number: usize) -> String {
    counted(number, "start")
}

fn failed(op: &'static str, errno: Errno) -> Error {
    let error = Error::system(op, "the limit of starts (System V semaphores)", errno);
    error.advised(match errno {
        Errno::PERM => Some(
            "semaphores of another program have its key: remove them as root, ipcrm -S 0x64617966",
        ),
        Errno::NOSPC => Some("raise kernel.sem (man 5 proc)"),
        Errno::NOSYS => Some("this requires a kernel with CONFIG_SYSVIPC"),
        _ => None,
    })
}
