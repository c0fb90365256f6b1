//! Measures the cost of tracing a system call: a program makes calls that do nothing, untraced and traced.

use crate::harness::*;
use crate::weigh;
use host::follow::{Event, Mode, call_name, follow};
use std::env;
use trace::now;

/// The command of this program that makes the calls.
pub const COMMAND: &str = "idle-calls";
/// The number of calls.
const CALLS: u32 = 2000;
/// The number of calls between two readings of the clock.
const BATCH: u32 = 50;
/// The name of the call.
const CALL: &str = "getppid";

/// The time that tracing adds to system calls.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cost {
    /// The time that tracing adds to a call and to the interval before the next call, in microseconds.
    pub call_us: f64,
    /// The part of `call_us` that appears as the call's own time.
    pub within_us: f64,
    /// The part of `call_us` during which the tracer holds the tracee stopped.
    pub held_us: f64,
}

/// Measures the cost.
///
/// # Errors
/// This program can't execute itself, or can't be traced.
pub fn measure(deadline: Duration) -> Result<Cost, Error> {
    let own = env::current_exe().map_err(Error::at("find", Path::new("/proc/self/exe")))?;
    let mut command = Command::new(own);
    command.args([COMMAND, &CALLS.to_string()]);
    let failed = |failure: Failure| unfit!("calibrate tracing: {failure}");
    let plain = process::read(&mut command, deadline).map_err(failed)?;
    let plain_us = each_us(&plain).map_err(failed)?;

    let output = process::in_memory().map_err(Error::at("make", Path::new("memfd")))?;
    let copy = || output.try_clone().map_err(Error::at("duplicate", Path::new("memfd")));
    let followed = weigh::followed(&command, copy()?).stdout(copy()?);
    let (mut entered, mut within, mut held, mut calls) = (0, 0, 0, 0_u32);
    let mut take = |_, event| {
        let seen = now();
        match event {
            Event::Entered { number, .. } if call_name(number) == CALL => {
                entered = now();
                held += entered - seen;
            }
            Event::Left { number, .. } if call_name(number) == CALL => {
                within += seen - entered;
                calls += 1;
                held += now() - seen;
            }
            _ => {}
        }
    };
    follow(&followed, Mode::Syscalls, deadline, &mut take)
        .map_err(|error| failed(weigh::failure(error)))?;
    let followed_us = each_us(&process::content(&output)).map_err(failed)?;
    let each = |sum: u64| sum as f64 / 1e3 / f64::from(calls.max(1));
    Ok(Cost {
        call_us: (followed_us - plain_us).max(0.0),
        within_us: (each(within) - plain_us).max(0.0),
        held_us: each(held),
    })
}

/// Returns the time per call, from the program's output.
fn each_us(text: &str) -> Result<f64, Failure> {
    let nanoseconds: f64 =
        text.trim().parse().map_err(|_| Failure::Left(format!("it printed {text:?}")))?;
    Ok(nanoseconds / 1e3 / f64::from(CALLS))
}

/// Makes `count` calls that do nothing, in batches, and returns the time in nanoseconds, as if each batch had taken the
/// median time. So the time does not include that in which another process ran.
pub fn idle_calls(count: u32) -> u64 {
    let mut times: Vec<u64> = (0..count.div_ceil(BATCH))
        .map(|_| {
            let begun = now();
            for _ in 0..BATCH {
                let _ = rustix::process::getppid();
            }
            now() - begun
        })
        .collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(0);
    median * u64::from(count) / u64::from(BATCH)
}
