//! Provides containers in one way: cold, restored, warm, or from a template.

use super::function::Function;
use super::{MADE, Programs, Provision, memory};
use crate::concurrent;
use crate::figures::Sample;
use crate::harness::*;
use crate::held::{Held, held, namespace};
use crate::restore::Saved;

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
    /// The directory of a saved template.
    images: Option<PathBuf>,
    /// The time in which the last template was made.
    pub(super) made_in: Option<Duration>,
}

impl<'a> Provider<'a> {
    pub(super) fn new(
        way: Provision,
        stand: &'a Stand,
        entrant: &'a Entrant,
        programs: &'a Programs,
    ) -> Self {
        let (saved, warm, template, images, made_in) = Default::default();
        Self { way, stand, entrant, programs, saved, warm, template, images, made_in }
    }

    /// Makes in advance what `count` requests at a time need.
    ///
    /// # Errors
    /// Errors of the harness itself; an interrupt; the runtime's.
    pub(super) fn prepare(&mut self, count: usize) -> Result<(), Error> {
        match self.way {
            Provision::Restored => {
                while self.saved.len() < count {
                    interrupt::check()?;
                    self.saved.push(Saved::save(self.stand, self.entrant, &self.programs.saved)?);
                }
            }
            Provision::Warm => {
                while self.warm.len() < count {
                    interrupt::check()?;
                    self.warm.push(self.start()?);
                }
            }
            Provision::Template | Provision::Disk if self.template.is_none() => {
                let (template, time) = self.template()?;
                (self.template, self.made_in) = (Some(template), Some(time));
            }
            Provision::Cold | Provision::Template | Provision::Disk => {}
        }
        Ok(())
    }

    /// Makes a template: with its warm-up, or from disk. Returns it, and the time until it is ready.
    fn template(&mut self) -> Result<(Container<'a>, Duration), Error> {
        let make = || self.programs.function.container(self.stand, self.entrant, &[], None);
        if self.way == Provision::Disk && self.images.is_none() {
            let images = self.stand.new_directory();
            let saved = make()?;
            saved.become_template_by(Some(("--save", &images)))?;
            saved.discard();
            self.images = Some(images);
        }
        let template = make()?;
        let disk = self.images.as_deref().map(|images| ("--from", images));
        let time = template.become_template_by(disk)?.wall;
        Ok((template, time))
    }

    /// Makes and removes another template, and returns the time until it was ready; for other ways, as [`Self::answer`].
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(super) fn ready(&mut self) -> Result<Duration, Error> {
        match self.way {
            Provision::Template | Provision::Disk => Ok(self.template()?.1),
            _ => self.answer(),
        }
    }

    fn container(&self) -> Result<Container<'a>, Error> {
        let template = self.template.as_ref().map(|template| template.id.as_str());
        self.programs.function.container(self.stand, self.entrant, &[], template)
    }

    /// Makes a function whose container is not started yet.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub(super) fn function(&self) -> Result<Function<'a>, Error> {
        Ok(Function::new(self.container()?, self.stand.deadline))
    }

    fn start(&self) -> Result<Function<'a>, Error> {
        let mut function = self.function()?;
        function.start()?;
        Ok(function)
    }

    /// Lets the function answer one request, and returns the time that this took.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(super) fn answer(&mut self) -> Result<Duration, Error> {
        if let Some(saved) = self.saved.first() {
            let sample = saved.restore(false);
            saved.container.discard();
            return Ok(sample?.wall);
        }
        if let Some(function) = self.warm.first_mut() {
            function.ask()?;
            return Ok(function.took);
        }
        let mut function = self.start()?;
        function.end()?;
        Ok(function.took)
    }

    /// Measures memory while nothing else of the experiment runs.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(super) fn measure(&mut self) -> Result<Sample, Error> {
        self.prepare(1)?;
        let (idle, running) = self.look()?;
        self.warm.clear();
        self.template = None;
        let made = self.made_in.map(|time| (MADE.to_owned(), "ms", time.as_secs_f64() * 1e3));
        Ok(memory(idle, running).into_iter().chain(made).collect())
    }

    /// Returns the memory that is in use while there is no request, and that of a running container.
    fn look(&self) -> Result<(Held, Held), Error> {
        let of = |container: &Container<'_>| Ok(held(&namespace(container.first_process()?)));
        if let Some(saved) = self.saved.first() {
            let running = saved.restore(false).and_then(|_| of(&saved.container));
            saved.container.discard();
            return Ok((Held::default(), running?));
        }
        if let Some(function) = self.warm.first() {
            let held = of(&function.container)?;
            return Ok((held, held));
        }
        let idle = self.template.as_ref().map(of).transpose()?.unwrap_or_default();
        let mut function = self.start()?;
        let running = of(&function.container)?;
        function.end()?;
        Ok((idle, running))
    }
}

/// Lets the function answer `count` requests, `width` at a time. Returns the requests per second and the time of each
/// answer, in microseconds. The rate is the number of requests ÷ the time until the last container is gone, or until the
/// last answer of containers that stay.
///
/// # Errors
/// Errors of the harness itself; an interrupt; the first failure.
pub(super) fn burst(
    provider: &mut Provider<'_>,
    width: usize,
    count: usize,
) -> Result<(f64, Vec<f64>), Error> {
    let (took, answers): (Duration, Vec<Result<Duration, Error>>) = match provider.way {
        Provision::Cold | Provision::Template | Provision::Disk => {
            // Bundles are written before the clock starts, and removed after it stops. Containers that have failed are
            // removed here, on the main thread.
            let functions = (0..count).map(|_| provider.function());
            let mut functions = functions.collect::<Result<Vec<_>, _>>()?;
            concurrent::work(vec![(); width], functions.iter_mut(), |(), function| {
                function.start()?;
                function.end()?;
                Ok(function.took)
            })
        }
        Provision::Restored => concurrent::work(
            provider.saved.iter_mut(),
            0..count,
            |saved: &mut &mut Saved<'_>, _| {
                let sample = saved.restore(false)?;
                saved.end()?;
                Ok(sample.wall)
            },
        ),
        Provision::Warm => concurrent::work(
            provider.warm.iter_mut(),
            0..count,
            |function: &mut &mut Function<'_>, _| {
                function.ask()?;
                Ok(function.took)
            },
        ),
    };
    interrupt::check()?;
    let us = answers.into_iter().map(|answer| Ok(answer?.as_secs_f64() * 1e6));
    let latencies_us = us.collect::<Result<Vec<_>, Error>>()?;
    Ok((latencies_us.len() as f64 / took.as_secs_f64(), latencies_us))
}
