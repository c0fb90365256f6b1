//! Stops init at a given step, so that the attack happens exactly then.

use dayfly_tests::container::Container;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::wait;
use std::fs::File;
use std::os::fd::OwnedFd;

/// Runs a command whose init stops before its first step with the name `step` (as `dayfly plan` prints it), and calls
/// `meanwhile` while init is stopped. If the start fails before that step, init does not stop.
#[track_caller]
pub fn paused(call: Call, step: &str, meanwhile: impl FnOnce()) -> Outcome {
    let (reader, writer) = std::io::pipe().expect("pipe");
    let call = call.env("DAYFLY_PAUSE", step);
    let running = call.stdin(File::from(OwnedFd::from(reader))).spawn();
    let is_paused = || running.stdout().contains("paused\n");
    wait::until_true("the pause or the end", || is_paused() || running.has_ended());
    if is_paused() {
        meanwhile();
    }
    drop(writer);
    running.wait()
}

/// Runs `run` of a container as [`paused`] does.
#[track_caller]
pub fn run_paused(c: &Container<'_>, step: &str, meanwhile: impl FnOnce()) -> Outcome {
    paused(c.bundle_call("run", &[]), step, meanwhile)
}
