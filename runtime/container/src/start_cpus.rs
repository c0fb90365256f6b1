//! `--start-cpus`: selects the CPUs on which a container is started, without binding the container to these CPUs.
//!
//! Mounts contend for kernel locks, which are expensive when many distant CPUs compete for them. `dayfly host locks`
//! shows which CPUs give the highest throughput. The command and init's set-up run on these CPUs; hooks and the program
//! keep their usual affinity.

use alloc::boxed::Box;
use alloc::format;

use plan::step::NumberSet;
use rustix::thread::sched_setaffinity;
use sys::sched::{Affinity, cpu_set};
use sys::{Context, Errno};
use topology::Topology;
use topology::pin::{Pin, PinError};

use crate::{Error, Trace, Warn};

/// The affinity that the command had before it moved to other CPUs; `None` if it did not move.
pub(crate) struct StartCpus(Option<Box<Affinity>>);

impl StartCpus {
    /// Moves to `cpus`, if given. Warns if some of them are not available.
    ///
    /// # Errors
    /// If the list is invalid, or if none of these CPUs is online and allowed here.
    pub(crate) fn enter(cpus: Option<&str>, trace: &Trace, warn: Warn<'_>) -> Result<Self, Error> {
        let Some(words) = cpus else { return Ok(Self(None)) };
        trace.point("set affinity", "start cpus")?;
        let own = Affinity::of(None).context("sched_getaffinity", "")?;
        let cpus = resolve(words, &own)?;
        match sched_setaffinity(None, &cpu_set(cpus.iter())) {
            Err(Errno::INVAL) => Err(Error::Text(format!(
                "--start-cpus {cpus}: none of these CPUs is online and allowed here"
            ))),
            result => {
                result.context("sched_setaffinity", cpus)?;
                let left = Self(Some(Box::new(own)));
                let there = Affinity::of(None).context("sched_getaffinity", "")?;
                let missing: NumberSet = cpus.iter().filter(|cpu| !there.has(*cpu)).collect();
                if !missing.is_empty() {
                    let those =
                        if missing.iter().nth(1).is_some() { "these are" } else { "this is" };
                    (warn.print)(&format!(
                        "--start-cpus {cpus}: {missing}: {those} not online or not allowed here"
                    ));
                }
                Ok(left)
            }
        }
    }

    /// Returns the affinity that the command had before it moved. It is restored for hooks on the host.
    pub(crate) fn own(&self) -> Option<NumberSet> {
        let own = self.0.as_ref()?;
        Some((0..NumberSet::LIMIT).filter(|cpu| own.has(*cpu)).collect())
    }

    /// Restores the command's affinity after the start.
    pub(crate) fn leave(&self, trace: &Trace) -> Result<(), Error> {
        let Some(own) = &self.0 else { return Ok(()) };
        trace.point("set affinity", "own cpus")?;
        Ok(own.set(None).context("sched_setaffinity", "own cpus")?)
    }
}

/// Parses a list of CPUs, or resolves words such as `node:0` to CPUs on which this process may run.
fn resolve(words: &str, own: &Affinity) -> Result<NumberSet, Error> {
    let listed = NumberSet::parse(words);
    match listed {
        Ok(cpus) if !cpus.is_empty() => return Ok(cpus),
        _ if !words.contains(|letter: char| letter.is_ascii_alphabetic()) => {
            let reason = listed.err().map(|error| format!("{error}: ")).unwrap_or_default();
            return Err(Error::Text(format!(
                "invalid value {words:?} for --start-cpus: {reason}must be a list of CPUs such as 0-3,8, or words such as node:0"
            )));
        }
        _ => {}
    }
    let wrong = |error: PinError| Error::Text(error.told_of("--start-cpus"));
    let pin = Pin::parse(words).map_err(wrong)?;
    let topology = Topology::read("")?;
    let allowed = topology.online().iter().filter(|cpu| own.has(*cpu)).collect();
    let placement = pin.resolve(&topology, &allowed).map_err(wrong)?;
    Ok(placement.cpus.iter().collect())
}

/// Restores the affinity after a failed start, since the start may be repeated in this process.
impl Drop for StartCpus {
    fn drop(&mut self) {
        if let Some(own) = &self.0 {
            let _ = own.set(None);
        }
    }
}
