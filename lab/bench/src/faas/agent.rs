//! The program of containers: an agent that serves invocations.
//!
//! It reads invocations from standard input, one per line, as platforms' agents do from a socket. It reports the times at
//! which it is ready, an invocation begins, and an invocation is done. To wait for an invocation's duration, it waits for
//! input with a timeout: nothing arrives there before the invocation is done. This needs no other process, and ends early
//! if the pipe is closed, for example when this experiment is killed.

use super::{Faas, Policy};
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
    /// Templates are asked for, and there is no Python; those of mkdir(2) and write(2).
    pub(super) fn of(options: &Faas, stand: &Stand) -> Result<Self, Error> {
        match options.has_templates() {
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
        match self {
            Self::Shell => Container::new(stand, racer, &SHELL),
            Self::Python(python) if policy == Policy::Template => {
                Container::forked(stand, racer, |config| python.settle(config, &[]))
            }
            Self::Python(python) => {
                Container::changed(stand, racer, &[], |config| python.settle(config, &[]))
            }
        }
    }

    /// Makes a template of the agent, which serves requests when this returns.
    ///
    /// # Errors
    /// Those of [`Self::container`]. the runtime's.
    pub(super) fn template<'a>(
        &self,
        stand: &'a Stand,
        racer: &'a Entrant,
    ) -> Result<Container<'a>, Error> {
        let template = self.container(stand, racer, Policy::Cold)?;
        template.become_template()?;
        Ok(template)
    }
}
