//! The template of a function, which is kept for a whole replay.

use super::Cost;
use super::agent::Agent;
use super::instance::Bill;
use super::meter::Meter;
use crate::harness::*;

/// A template, and what it costs.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    container: Container<'a>,
    meter: Option<Meter>,
    bill: Bill,
}

impl<'a> Kept<'a> {
    /// Makes the template.
    ///
    /// # Errors
    /// Errors of the harness itself. the runtime's.
    pub(super) fn make(agent: &Agent, stand: &'a Stand, racer: &'a Entrant) -> Result<Self, Error> {
        let container = agent.template(stand, racer)?;
        let meter = Meter::of(container.first_process()?, true);
        Ok(Self { container, meter, bill: Bill::default() })
    }

    pub(super) fn name(&self) -> &str {
        &self.container.id
    }

    /// Begins to count its time.
    pub(super) fn begin(&mut self, now: Instant) {
        self.bill.begin(now);
    }

    /// Returns its time since the beginning, and its memory multiplied by this time.
    pub(super) fn cost(&mut self) -> Cost {
        self.bill.measure(Instant::now(), self.meter.as_ref().and_then(Meter::kib));
        self.bill.cost(self.bill)
    }
}
