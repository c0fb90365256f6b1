//! Provides containers in one way: cold, restored, warm, or from a template.

use super::function::Function;
use super::{Memory, Programs};
use crate::Error;
use crate::container::{Container, Fault};
use crate::held::{Held, held, namespace};
use crate::options::Provision;
use crate::restore::Saved;
use crate::stand::{Entrant, Stand};
use report::interrupt;
use std::time::Duration;

/// One way to provide containers, and what it has made in advance.
pub(super) struct Provider<'a> {
    pub(super) way: Provision,
    stand: &'a Stand,
    entrant: &'a Entrant,
    programs: &'a Programs,
    /// Saved containers.
    pub(super) saved: Vec<Saved<'a>>,
    /// Started containers that wait.
    pub(super) warm: Vec<Function<'a>>,
    template: Option<Container<'a>>,
    /// The time in which the last template was made.
    pub(super) made_in: Option<Duration>,
}

type Answer<T> = Result<Result<T, Fault>, Error>;

impl<'a> Provider<'a> {
    pub(super) fn new(
        way: Provision,
        stand: &'a Stand,
        entrant: &'a Entrant,
        programs: &'a Programs,
    ) -> Self {
        let (saved, warm) = (Vec::new(), Vec::new());
        Self { way, stand, entrant, programs, saved, warm, template: None, made_in: None }
    }

    /// Makes in advance what `count` requests at a time need.
    ///
    /// # Errors
    /// Errors of the harness itself; an interrupt. The inner error is the runtime's.
    pub(super) fn prepare(&mut self, count: usize) -> Answer<()> {
        match self.way {
            Provision::Cold => {}
            Provision::Restored => {
                while self.saved.len() < count {
                    interrupt::check()?;
                    match Saved::save(self.stand, self.entrant, &self.programs.saved)? {
                        Ok(saved) => self.saved.push(saved),
                        Err(fault) => return Ok(Err(fault)),
                    }
                }
            }
            Provision::Warm => {
                while self.warm.len() < count {
                    interrupt::check()?;
                    match self.start()? {
                        Ok(function) => self.warm.push(function),
                        Err(fault) => return Ok(Err(fault)),
                    }
                }
            }
            Provision::Template if self.template.is_none() => {
                let template = Container::changed(self.stand, self.entrant, &[], |config| {
                    self.programs.function.settle(config, &[]);
                })?;
                match template.become_template() {
                    Ok(sample) => self.made_in = Some(sample.wall),
                    Err(fault) => return Ok(Err(fault)),
                }
                self.template = Some(template);
            }
            Provision::Template => {}
        }
        Ok(Ok(()))
    }

    fn container(&self) -> Result<Container<'a>, Error> {
        let change = |config: &mut _| self.programs.function.settle(config, &[]);
        let Some(template) = &self.template else {
            return Container::changed(self.stand, self.entrant, &[], change);
        };
        let mut container = Container::forked(self.stand, self.entrant, change)?;
        container.fork_from(&template.id);
        Ok(container)
    }

    /// Makes a function whose container is not started yet.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub(super) fn function(&self) -> Result<Function<'a>, Error> {
        Ok(Function::new(self.container()?, self.stand.deadline))
    }

    fn start(&self) -> Answer<Function<'a>> {
        let mut function = self.function()?;
        Ok(function.start().map(|()| function))
    }

    /// Lets the function answer one request, and returns the time that this took.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(super) fn answer(&mut self) -> Answer<Duration> {
        if let Some(saved) = self.saved.first() {
            let sample = saved.restore()?;
            saved.container.discard();
            return Ok(sample.map(|sample| sample.wall));
        }
        if let Some(function) = self.warm.first_mut() {
            return Ok(function.ask().map(|()| function.took));
        }
        Ok(self.start()?.and_then(|mut function| function.end().map(|()| function.took)))
    }

    /// Measures memory while nothing else of the experiment runs.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(super) fn measure(&mut self) -> Answer<Memory> {
        if let Err(fault) = self.prepare(1)? {
            return Ok(Err(fault));
        }
        let memory = self.look()?;
        self.warm.clear();
        self.template = None;
        Ok(memory)
    }

    fn look(&self) -> Answer<Memory> {
        let of = |container: &Container<'_>| -> Result<Held, Fault> {
            Ok(held(&namespace(container.first_process()?)))
        };
        let made_ms = self.made_in.map(|time| time.as_secs_f64() * 1e3);
        let memory = |idle, running| Memory { idle, running, made_ms };
        if let Some(saved) = self.saved.first() {
            let running = saved.restore()?.and_then(|_| of(&saved.container));
            saved.container.discard();
            return Ok(running.map(|running| memory(Held::default(), running)));
        }
        if let Some(function) = self.warm.first() {
            return Ok(of(&function.container).map(|held| memory(held, held)));
        }
        let idle = self.template.as_ref().map(of).transpose();
        let idle = match idle {
            Ok(idle) => idle.unwrap_or_default(),
            Err(fault) => return Ok(Err(fault)),
        };
        Ok(self.start()?.and_then(|mut function| {
            let running = of(&function.container)?;
            function.end().map(|()| memory(idle, running))
        }))
    }
}
