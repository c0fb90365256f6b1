//! Fault points of commands: the steps that they put into a trace, in the order in which they begin.

use launch::fault::{Place, strike};
use trace::{Failed, Phase};

use crate::Trace;

/// In the place of the tracer's own methods.
impl Trace {
    pub(crate) fn work<T, E: Failed + From<sys::Error>>(
        &self,
        phase: Phase,
        name: &'static str,
        object: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.strike(name, object)?;
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
        self.strike(name, object)?;
        (**self).wait(phase, name, object, awaits, wait)
    }

    fn strike(&self, name: &'static str, object: &str) -> Result<(), sys::Error> {
        let step = self.steps.get();
        self.steps.set(step + 1);
        strike(Place::Command, step).map_err(|errno| sys::Error::new(name, object, errno))
    }
}
