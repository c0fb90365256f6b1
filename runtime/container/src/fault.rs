//! The points of a command at which tests inject faults: its traced steps, and other operations that can fail. The
//! points are numbered in the order in which the operations begin.

#[cfg(dayfly_faults)]
use launch::fault::{Place, strike};
#[cfg(dayfly_faults)]
use trace::{Failed, Phase};

use crate::Trace;

#[cfg(not(dayfly_faults))]
impl Trace {
    /// Marks an operation that can fail but is not a traced step. In builds without fault injection,
    /// this function does nothing.
    #[inline(always)]
    pub(crate) fn point(&self, _: &'static str, _: &str) -> Result<(), sys::Error> {
        Ok(())
    }
}

/// In builds with fault injection, `work` and `wait` hide the tracer's methods of the same names. Each first calls
/// `point`, at which a test can inject a fault.
#[cfg(dayfly_faults)]
impl Trace {
    pub(crate) fn work<T, E: Failed + From<sys::Error>>(
        &self,
        phase: Phase,
        name: &'static str,
        object: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.point(name, object)?;
        (**self).work(phase, name, object, work)
    }

    pub(crate) fn wait<T, E: Failed + From<sys::Error>>(
        &self,
        phase: Phase,
        name: &'static str,
        object: &str,
        awaits: &'static str,
        wait: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.point(name, object)?;
        (**self).wait(phase, name, object, awaits, wait)
    }

    /// Marks an operation that can fail but is not a traced step.
    pub(crate) fn point(&self, name: &'static str, object: &str) -> Result<(), sys::Error> {
        let step = self.steps.get();
        self.steps.set(step + 1);
        strike(Place::Command, step).map_err(|errno| sys::Error::new(name, object, errno))
    }
}
