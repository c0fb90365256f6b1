//! `stop`: signals a container's program to exit, and kills it if it does not.

use core::time::Duration;

use container::{Error, Status};

use crate::definition::options::STOP_TIME;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::signal;

/// The annotation that contains the stop signal from the image's configuration (image-spec, conversion.md).
const SIGNAL: &str = "org.opencontainers.image.stopSignal";
/// The default time to wait for the program's exit, as in Docker and Podman.
const PATIENCE: Duration = Duration::from_secs(10);
const KILL: i32 = 9;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let container = invocation.container()?;
    let limit = match invocation.values.duration(&STOP_TIME) {
        None => PATIENCE,
        Some(nanoseconds @ 0..) => Duration::from_nanos(nanoseconds.unsigned_abs()),
        Some(_) => return Err(Failure::new("time must not be less than 0")),
    };
    let state = container.state()?;
    let signal = match state.annotations.get(SIGNAL) {
        None => signal::TERM,
        Some(text) => signal::parse(text).ok_or_else(|| {
            Failure::new(format_args!("unknown signal {text:?} in the annotation {SIGNAL}"))
        })?,
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
            return Ok(());
        }
    }
    Err(Failure::new(format_args!(
        "container {} does not end: its program got KILL {} s ago",
        container.id(),
        PATIENCE.as_secs()
    )))
}
