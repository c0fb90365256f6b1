//! `stop`: signals a container's program to exit, and kills it if it does not.

use core::time::Duration;

use container::{Container, Error, STOP_SIGNAL, Status};

use super::*;

/// The default time to wait for the program's exit, as in Docker and Podman.
const PATIENCE: Duration = Duration::from_secs(10);
const KILL: i32 = 9;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let limit =
        invocation.values.text(&STOP_TIME).map_or(Ok(PATIENCE), |text| limit("time", text))?;
    let store = invocation.store()?;
    each(invocation, |id| stop(&store.by_beginning(id)?, limit))
}

fn stop(container: &Container, limit: Duration) -> Result<(), Failure> {
    let state = container.state()?;
    let signal = match state.annotations.get(STOP_SIGNAL) {
        None => signal::TERM,
        Some(text) => signal::parse(text)
            .ok_or_else(|| failure!("unknown signal {text:?} in the annotation {STOP_SIGNAL}"))?,
    };
    for (signal, limit) in [(signal, limit), (KILL, PATIENCE)] {
        match container.kill(signal) {
            Ok(()) => {}
            Err(Error::NotRunning) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // SIGKILL is the only signal that takes effect while the container is frozen.
        if state.status == Status::Paused && signal != KILL {
            container.resume()?;
        }
        if container.ends_within(limit) {
            container.note_end();
            return Ok(());
        }
    }
    Err(failure!(
        "container {} does not stop: its program got KILL {} s ago",
        container.id(),
        PATIENCE.as_secs()
    ))
}

/// Parses the value of an option such as `--time`. A number without a unit is a number of seconds, as in Docker and
/// Podman.
pub fn limit(option: &str, text: &str) -> Result<Duration, Failure> {
    let seconds = number::parse::<u32>(text).ok().map(|count| Duration::from_secs(count.into()));
    let nanoseconds = || duration::parse(text).and_then(|count| u64::try_from(count).ok());
    seconds.or_else(|| nanoseconds().map(Duration::from_nanos)).ok_or_else(|| {
        failure!("--{option} {text}: must be a time such as 10s or 500ms, or a number of seconds")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let of = |text| limit("time", text).ok();
        assert_eq!(of("300ms"), Some(Duration::from_millis(300)));
        assert_eq!(of("1m1s"), Some(Duration::from_secs(61)));
        assert_eq!(of("5"), Some(Duration::from_secs(5)));
        assert_eq!(of("0"), Some(Duration::ZERO));
        for text in ["", "x", "-1", "-1s", "5 s", "99999999999h"] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }
}
