//! The program of containers: an agent that serves invocations.
//!
//! It reads invocations from standard input, one per line, as platforms' agents do from a socket. It reports the times at
//! which it is ready, an invocation begins, and an invocation is done. To wait for an invocation's duration, it waits for
//! input with a timeout: nothing arrives there before the invocation is done. This needs no other process, and ends early
//! if the pipe is closed, for example when this experiment is killed.

use super::bill::Bill;
use super::meter::Meter;
use super::{Cost, Faas, Policy};
use crate::harness::*;
use crate::python::{IMPORTS, Python};

/// The agent: it prints `r` for ready, `b` for begun and `d` for done, each with the time.
const SHELL: [&str; 3] = [
    "/bin/sh",
    "-c",
    "echo r $EPOCHREALTIME; while read -r t; do echo b $EPOCHREALTIME; read -r -t $t x; echo d $EPOCHREALTIME; done",
];

/// The same agent after its imports, which a template can fork.
const PYTHON: &str = include_str!("agent.py");

/// The agent of a workload.
#[derive(Debug)]
pub(super) enum Agent {
    Shell,
    Python(Python),
}

impl Agent {
    /// Returns the agent that all policies of the experiment can use.
    ///
    /// # Errors
    /// Templates or checkpoints are asked for, and there is no Python; those of mkdir(2) and write(2).
    pub(super) fn of(options: &Faas, stand: &Stand) -> Result<Self, Error> {
        match options.has_templates() || options.has_checkpoints() {
            true => Python::prepare(stand.new_directory(), &format!("{IMPORTS}{PYTHON}"))
                .map(Self::Python),
            false => Ok(Self::Shell),
        }
    }

    /// Makes a container of the agent, to be started as the policy does it.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub(super) fn container<'a>(
        &self,
        stand: &'a Stand,
        racer: &'a Entrant,
        policy: Policy,
    ) -> Result<Container<'a>, Error> {
        let Self::Python(python) = self else { return Container::new(stand, racer, &SHELL) };
        let settle = |config: &mut Value| python.settle(config, &[]);
        match policy {
            Policy::Template => Container::forked(stand, racer, settle),
            _ => Container::changed(stand, racer, &[], settle),
        }
    }
}

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
        let container = agent.container(stand, racer, Policy::Cold)?;
        container.become_template()?;
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
