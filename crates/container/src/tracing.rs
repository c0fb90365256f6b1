//! Writing a trace out, after the container runs.

use alloc::string::String;
use plan::Plan;
use rustix::fs::{CWD, Mode, OFlags, openat};
use sys::Context;
use trace::Recorder;

use crate::Error;

/// Writes the step table to `destination`: a file, or `-` for stderr (stdout is the container's).
pub(crate) fn write(
    destination: Option<&str>,
    recorder: Option<&Recorder>,
    plan: &Plan,
) -> Result<(), Error> {
    let (Some(destination), Some(recorder)) = (destination, recorder) else { return Ok(()) };
    let (host, init) = plan::labels(plan);
    let mut text = String::new();
    let _ = trace::table(&mut text, recorder, &host, &init);
    if destination == "-" {
        sys::stdio::write_all(sys::stdio::stderr(), text.as_bytes()).context("write", "stderr")?;
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = openat(CWD, destination, flags, Mode::from_raw_mode(0o644))
        .context("create trace", destination)?;
    Ok(sys::stdio::write_all(file, text.as_bytes()).context("write trace", destination)?)
}
