//! `burst`: runs many containers with several in flight, and probes the host's responsiveness meanwhile.

use crate::concurrent;
use crate::harness::*;
use crate::placement;
use crate::probe::{self, Health};
use crate::session::all;
use sys::clone::CloneFlags;
use topology::limit::{LONGEST_WAIT, Limit};

/// `burst`.
#[derive(Debug, Args)]
pub struct Burst {
    /// Containers in flight
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16")]
    pub width: Vec<usize>,
    /// Also run dayfly with this limit of starts in flight, set like "dayfly host limit", in an IPC namespace of the
    /// experiment's own
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=32_767))]
    pub start_limit: Vec<u16>,
    /// Also run dayfly from the CPUs of each placement that this host has: one a core, of one node, of one cache
    #[arg(long)]
    pub placements: bool,
    /// Containers per round
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 32)]
    pub count: usize,
    /// Rounds of each runtime at each width
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 8)]
    pub rounds: usize,
}

/// A limit of starts in flight, removed when dropped.
struct Limited;

impl Limited {
    fn to(width: u16) -> Result<Self, Error> {
        Limit::set(width, LONGEST_WAIT)
            .map_err(|errno| report::Error::system("set", "the limit of starts", errno))?;
        Ok(Self)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = Limit::lift();
    }
}

/// The results of one entrant with one number of containers in flight (the width), over all rounds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Load {
    /// Containers per second, for each round.
    pub(crate) rates: Vec<f64>,
    /// The latency of each successful container, in microseconds.
    pub(crate) latencies_us: Vec<f64>,
    /// The number of failed containers.
    pub(crate) failed: usize,
    /// The reason of the first failure.
    pub(crate) reason: Option<String>,
    /// The probe's measurements.
    pub(crate) health: Health,
}

impl Load {
    /// Returns whether there are no results.
    pub(crate) fn is_empty(&self) -> bool {
        self.latencies_us.is_empty() && self.failed == 0
    }

    /// Adds the load of an entrant in a case to the figures.
    pub(crate) fn add_to(&self, figures: &mut Figures, case: &str, entrant: &str) {
        let ms = self.latencies_us.iter().map(|us| us / 1e3);
        figures.rounds(
            format!("{case}: containers"),
            "containers/s",
            entrant,
            self.rates.iter().copied(),
        );
        figures.singles(format!("{case}: a container"), "ms", entrant, ms);
        self.health.add_to(figures, case, entrant);
    }

    /// Tells how many containers of a case failed, and why.
    pub(crate) fn failures(&self, case: &str) -> String {
        match &self.reason {
            Some(reason) => format!("{case}: {} failed: {reason}\n", self.failed),
            None => String::new(),
        }
    }
}

/// The load of an entrant with this many containers in flight.
#[derive(Debug, Serialize)]
struct Row<'a> {
    width: usize,
    runtime: &'a str,
    #[serde(flatten)]
    load: Load,
}

impl Experiment for Burst {
    /// Returns all runtimes without a limit of starts in flight, and each dayfly also with each limit.
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let mut entrants = all(common)?;
        let own = entrants.iter().filter(|entrant| entrant.runtime.is_dayfly());
        let limited = |entrant: &Entrant, limit: u16| Entrant {
            limit: Some(limit),
            ..entrant.called(format!("{}, {limit} at once", entrant.name))
        };
        let limited: Vec<_> =
            own.flat_map(|own| self.start_limit.iter().map(|&limit| limited(own, limit))).collect();
        entrants.extend(limited);
        if self.placements { placement::placed(entrants) } else { Ok(entrants) }
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        if entrants.iter().any(|entrant| entrant.limit.is_some()) {
            sys::ns::unshare(CloneFlags::NEWIPC)
                .map_err(|errno| report::Error::system("unshare", "the IPC namespace", errno))?;
        }
        let idle = idle();
        warm_up(stand, entrants, &[])?;
        let mut rows = Vec::new();
        let mut figures = Figures::default();
        for &width in &self.width {
            let loads = bursts(stand, entrants, [width, self.count, self.rounds])?;
            for (entrant, load) in entrants.iter().zip(loads).filter(|(_, load)| !load.is_empty()) {
                load.add_to(&mut figures, &format!("{width} in flight"), &entrant.name);
                rows.push(Row { width, runtime: &entrant.name, load });
            }
        }
        idle.add_to(&mut figures, "an idle host", "(idle)");
        let mut outcome = figures.outcome(first(entrants));
        outcome.pictures = pictures(&rows);
        for Row { width, runtime, load } in &rows {
            outcome.text += &load.failures(&format!("{runtime}, {width} in flight"));
        }
        outcome.with("idle", &idle)?.with("rows", &rows)
    }
}

/// Probes the host while it has nothing to do.
pub(crate) fn idle() -> Health {
    probe::watch(|| thread::sleep(Duration::from_secs(1))).1
}

/// Runs one uncounted container of each entrant, with this program or the bundle's. An entrant that fails is excluded.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(crate) fn warm_up(stand: &Stand, entrants: &[Entrant], program: &[&str]) -> Result<(), Error> {
    let once = Rounds { warm_up: 1, ..Rounds::default() };
    let run = |at: usize| Container::new(stand, &entrants[at], program)?.run();
    in_turns(entrants, once, "warm-up", run).map(drop)
}

/// Runs `rounds` bursts of `count` containers, `width` at a time, of each entrant. An entrant of whose containers half
/// have failed is excluded.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(crate) fn bursts(
    stand: &Stand,
    entrants: &[Entrant],
    [width, count, rounds]: [usize; 3],
) -> Result<Vec<Load>, Error> {
    let mut loads: Vec<Load> = entrants.iter().map(|_| Load::default()).collect();
    let title = format!("{width} in flight");
    in_turns(entrants, Rounds { timed: rounds, ..Rounds::default() }, &title, |at| {
        burst(stand, &entrants[at], width, count, &mut loads[at])?;
        match &loads[at].reason {
            Some(reason) if loads[at].failed > count * rounds / 2 => {
                Err(Error::Out(reason.clone()))
            }
            _ => Ok(()),
        }
    })?;
    Ok(loads)
}

/// Runs `count` containers, `width` at a time, and adds the results to `load`.
pub(crate) fn burst(
    stand: &Stand,
    racer: &Entrant,
    width: usize,
    count: usize,
    load: &mut Load,
) -> Result<(), Error> {
    // Bundles are written before the clock starts, and removed after it stops.
    let waiting = (0..count).map(|_| Container::new(stand, racer, &[]));
    let mut waiting: Vec<_> = waiting.collect::<Result<_, _>>()?;
    let _limited = racer.limit.map(Limited::to).transpose()?;
    let run = |(): &mut (), container: &mut Container<'_>| container.run();
    let work = || concurrent::work(vec![(); width], waiting.iter_mut(), run);
    let ((time, done), health) = probe::watch(work);
    interrupt::check()?;
    let before = load.latencies_us.len();
    for result in &done {
        match result {
            Ok(sample) => load.latencies_us.push(sample.wall.as_secs_f64() * 1e6),
            Err(fault) => {
                load.failed += 1;
                load.reason.get_or_insert_with(|| fault.to_string());
            }
        }
    }
    load.rates.push((load.latencies_us.len() - before) as f64 / time.as_secs_f64());
    load.health.extend(health);
    Ok(())
}

/// Draws the latency, the failures, the rate and the host's responsiveness as functions of the number of containers in
/// flight.
fn pictures(rows: &[Row<'_>]) -> Vec<Picture> {
    let curves = |title: &str, unit: Axis, figure: &dyn Fn(&Load) -> Option<f64>| {
        let rows = rows.iter().map(|row| (row.runtime.to_owned(), row.width, figure(&row.load)));
        results::over_width(title, unit, rows)
    };
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let share = |load: &Load| {
        let all = load.failed + load.latencies_us.len();
        (all > 0).then(|| load.failed as f64 / all as f64 * 100.0)
    };
    let middle = |samples: &[f64]| Summary::of(samples).map(|all| all.median);
    let p99 = |samples: &[f64]| Summary::of(samples).map(|all| all.p99);
    let mut pictures = vec![
        curves("A container, median", Axis::logarithmic("ms"), &|load| {
            ms(middle(&load.latencies_us))
        }),
        curves("A container, p99", Axis::logarithmic("ms"), &|load| ms(p99(&load.latencies_us))),
        curves("Containers a second", Axis::linear("containers/s"), &|load| middle(&load.rates)),
        curves("A health check meanwhile, p99", Axis::logarithmic("ms"), &|load| {
            ms(p99(&load.health.spawn_us))
        }),
    ];
    if rows.iter().any(|row| row.load.failed > 0) {
        pictures.push(curves("Containers that fail", Axis::linear("%"), &share));
    }
    pictures
}
