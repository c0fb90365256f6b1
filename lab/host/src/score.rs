//! `dayfly host score`: how well a host handles many concurrent starts, as a JSON document for schedulers.
//!
//! The article on mount lock contention concludes that workloads should be routed to suitable hardware. A scheduler
//! could do so with this document: it contains the verdicts of `host check`, the curves of `host locks`, and a number
//! derived from both.
//!
//! *Carried* is the largest number of concurrent starts that still reaches nine tenths of the maximum throughput on all
//! CPUs, times the fraction of that maximum that remains with a start on every CPU. The fraction is 1 if the curve is
//! flat, and less if it declines. The score is 100 × log₂(1 + carried) ÷ log₂(1 + 64), at most 100, and 0 if a verdict
//! is an error.
//!
//! So each doubling of *carried* is worth about 16 points: 1 start scores 17, 8 starts score 53, and 64 or more score
//! 100.
//!
//! At least one start is carried. The quickest round of each number of threads counts, and a busy host is refused:
//! what else a host does would be taken for its lock's.
//!
//! The score comes from the curve of mounts. Users other than root can't measure that curve, so their score comes from
//! the curve of the lock. A single thread never waits for the lock, so the maximum of the lock's curve is taken over
//! two threads or more.

mod recorded;

use crate::check::look;
use crate::check::verdict::{Level, Section, Verdict, worst};
use crate::facts::Facts;
use crate::locks::{self, Advice, Curve, ENOUGH, PLACEMENTS, Point, advise};
use crate::measure::idle;
use crate::options::{Locks, Score as Options, Work};
use crate::output;
use report::Error;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use topology::Topology;

/// The version of the document, incremented when a field changes its meaning or is removed. New fields do not change
/// the version.
pub const VERSION: u32 = 1;

/// The number of concurrent starts with the full score.
const FULL: f64 = 64.0;

/// The time to measure each number of threads with `--quick`.
const QUICK: Duration = Duration::from_millis(160);

/// The time for which the host is watched before it is measured.
const WATCH: Duration = Duration::from_millis(400);

/// The placement that applies to schedulers which do not pin containers to CPUs: all CPUs.
const ANYWHERE: &str = PLACEMENTS[0];

/// The formula, for readers of the document.
const FORMULA: &str = "carried = the largest number of concurrent starts that reaches nine tenths of the maximum throughput on \
     all CPUs, times the fraction of that maximum that remains with a start on every CPU, but at least 1. score = 100 * log2(1 + carried) \
     / log2(1 + 64), at most 100, and 0 if a verdict is an error.";

/// The document.
#[derive(Debug, Clone, Serialize)]
pub struct Document {
    /// The version of the document: [`VERSION`].
    pub version: u32,
    /// The figures derived from the curve.
    #[serde(flatten)]
    pub mark: Mark,
    /// The number of concurrent starts that `host locks` advises.
    pub width: usize,
    /// The CPUs to start containers from, if a subset is clearly better than all CPUs.
    pub start_cpus: Option<String>,
    /// The worst verdict.
    pub verdict: Level,
    /// The host.
    pub machine: Machine,
    /// The verdicts of `host check`, by id.
    pub verdicts: BTreeMap<&'static str, Said>,
    /// The curve that the score was derived from.
    pub curve: Curve,
    /// All curves.
    pub curves: Vec<Curve>,
    /// The source of the curves: `measured`, `measured quickly`, `file`.
    pub source: &'static str,
    /// The formula of the score.
    pub formula: &'static str,
}

/// The properties of a host that matter for placement.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The host's kernel release.
    pub release: String,
    /// The number of online CPUs.
    pub cpus: usize,
    /// The online CPUs as a list.
    pub online: String,
    /// The number of cores of the online CPUs.
    pub cores: usize,
    /// The number of sockets.
    pub sockets: usize,
    /// The number of memory nodes with CPUs.
    pub nodes: usize,
    /// The number of groups of CPUs with their own level 3 cache.
    pub l3_groups: usize,
    /// Whether cores have more than one online CPU.
    pub smt: bool,
}

/// A verdict without its id, which is the verdict's key in [`Document::verdicts`].
#[derive(Debug, Clone, Serialize)]
pub struct Said {
    /// The level of the verdict.
    pub level: Level,
    /// The observed fact.
    pub fact: String,
    /// The fact's figures.
    pub data: Map<String, Value>,
}

/// The figures derived from a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mark {
    /// The score from 0 to 100.
    pub score: u32,
    /// The number of concurrent starts that the host handles; 0 if a verdict is an error.
    pub carried: f64,
    /// The fraction of the maximum throughput that remains with a start on every CPU, from 0 to 1.
    pub kept: f64,
}

/// Examines the host, measures, and writes the document.
///
/// # Errors
/// The host cannot be examined; curves cannot be measured or read; a file cannot be written; SIGINT.
pub fn command(options: &Options) -> Result<(), Error> {
    let facts = Facts::of(options.sysroot.as_deref())?;
    let topology = Topology::read(facts.root_text()?)?;
    // An invalid file is reported before anything is measured.
    let recorded = options.locks.as_deref().map(|file| recorded::read(file, &topology.online()));
    let recorded = recorded.transpose()?;
    if recorded.is_none() && facts.is_live() && !options.busy {
        refuse_if_busy()?;
    }
    let sections = look(&facts, facts.is_live() && !options.quick)?;
    let (curves, source) = match (recorded, facts.is_live()) {
        (Some(curves), _) => (curves, "file"),
        (None, true) if options.quick => (measure(QUICK)?, "measured quickly"),
        (None, true) => (measure(Locks::TIME)?, "measured"),
        (None, false) => {
            let reason = "the locks of another host can't be measured here";
            let advice =
                "run \"dayfly host locks --format json\" there, and pass its output with --locks";
            return Err(Error::refused(reason).advise(advice));
        }
    };
    let document = document(&facts, &topology, &sections, curves, source)?;
    let text = serde_json::to_string_pretty(&document);
    let text = text.map_err(|error| Error::refused(error.to_string()))?;
    output::write(options.output.as_deref(), &format!("{text}\n"))
}

/// Refuses a host whose CPUs have something else to do.
fn refuse_if_busy() -> Result<(), Error> {
    let share = idle::share(WATCH);
    match share < idle::ENOUGH {
        true => Err(refused!("this host is busy: {:.0} % of its CPU time is idle", share * 100.0)
            .advise("measure when it is idle, or with --busy, or pass curves with --locks")),
        false => Ok(()),
    }
}

/// Measures the curve of mounts, or the curve of the lock if the user may not mount.
fn measure(time: Duration) -> Result<Vec<Curve>, Error> {
    let work = if rustix::process::geteuid().is_root() { Work::Mounts } else { Work::Lock };
    locks::measure(&[work], time).map(|(curves, _)| curves)
}

fn document(
    facts: &Facts,
    topology: &Topology,
    sections: &[Section],
    curves: Vec<Curve>,
    source: &'static str,
) -> Result<Document, Error> {
    let curve = decisive(&curves).map(Curve::undisturbed);
    let curve = curve.ok_or_else(|| refused!("no curve of {ANYWHERE:?}"))?;
    let verdict = worst(sections);
    let advice = advise(&curves);
    let about = |what: &str| advice.iter().find(|advice: &&Advice| advice.about == what);
    let said = |it: &Verdict| {
        let (level, fact, data) = (it.level, it.fact.clone(), it.data.clone());
        (it.id, Said { level, fact, data })
    };
    Ok(Document {
        version: VERSION,
        mark: mark(&curve, verdict),
        width: about("width").and_then(|advice| advice.starts).unwrap_or(1),
        start_cpus: about("cpus").and_then(|advice| advice.cpus.clone()),
        verdict,
        machine: Machine {
            release: facts.release.clone(),
            cpus: topology.cpus.len(),
            online: topology.online().to_string(),
            cores: topology.cores().len(),
            sockets: topology.packages().len(),
            nodes: topology.nodes.iter().filter(|node| !node.cpus.is_empty()).count(),
            l3_groups: topology.ccxs().len(),
            smt: topology.has_smt(),
        },
        verdicts: sections.iter().flat_map(|section| &section.verdicts).map(said).collect(),
        curve,
        curves,
        source,
        formula: FORMULA,
    })
}

/// Returns the curve of the threads on all CPUs: the curve of mounts if there is one, otherwise the curve of the lock.
fn decisive(curves: &[Curve]) -> Option<&Curve> {
    let of =
        |work: &str| curves.iter().find(|curve| curve.work == work && curve.placement == ANYWHERE);
    of("mounts").or_else(|| of("lock"))
}

/// Derives the figures of `curve` on a host whose worst verdict is `worst`, with the formula in the module's
/// documentation. A curve without points means that the host handles no starts.
pub fn mark(curve: &Curve, worst: Level) -> Mark {
    let alone =
        |point: &&Point| curve.work == "lock" && point.threads < 2 && curve.points.len() > 1;
    let points: Vec<Point> = curve.points.iter().skip_while(alone).copied().collect();
    let most = points.iter().map(|point| point.per_second).fold(0.0, f64::max);
    let kept = match points.last() {
        Some(last) if most > 0.0 => (last.per_second / most).clamp(0.0, 1.0),
        _ => 0.0,
    };
    // The points from the best one on, as long as the throughput is at least nine tenths of the best.
    let best = points.iter().skip_while(|point| point.per_second < most);
    let widest = best.take_while(|point| point.per_second >= most * ENOUGH).last();
    let carried = match (worst, widest) {
        (Level::Error, _) | (_, None) => 0.0,
        (_, Some(point)) => (point.threads as f64 * kept).max(1.0),
    };
    let score = 100.0 * (1.0 + carried).log2() / (1.0 + FULL).log2();
    Mark { score: score.clamp(0.0, 100.0).round() as u32, carried, kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::List;

    /// Returns a curve of mounts. `turns` contains the number of threads, and the microseconds of a turn.
    fn curve(cpus: &str, turns: &[(usize, f64)]) -> Curve {
        let points = turns.iter().map(|&(threads, us)| Point::of(threads, us)).collect();
        let cpus = List::parse(cpus).unwrap();
        Curve { work: "mounts", placement: ANYWHERE, cpus, points, rounds_us: Vec::new() }
    }

    #[test]
    fn marks_of_curves() {
        let flat = |cpus: usize| {
            let numbers = [1, 2, 4, 8, 16, 32, 64, 96, 128, 256].into_iter();
            numbers.filter(|it| *it <= cpus).map(|threads| (threads, 10.0)).collect::<Vec<_>>()
        };
        // All work takes a single lock, so the throughput is the same for any number of threads.
        let one_lock = [1, 2, 4, 8, 16, 32, 64, 96].map(|it| (it, it as f64 * 10.0));
        for (turns, score, carried, kept) in [
            (&flat(2)[..], 26, 2.0, 1.0),
            (&flat(8), 53, 8.0, 1.0),
            (&flat(32), 84, 32.0, 1.0),
            (&flat(64), 100, 64.0, 1.0),
            (&flat(256), 100, 256.0, 1.0),
            (&one_lock, 100, 96.0, 1.0),
            // The throughput is highest with 8 threads; with 96 it is a quarter of that.
            (&[(1, 10.0), (8, 20.0), (32, 120.0), (96, 960.0)], 26, 2.0, 0.25),
            (&[(1, 10.0)], 17, 1.0, 1.0),
            // A host with two CPUs gets no less than one with a single CPU.
            (&[(1, 10.0), (2, 80.0)], 17, 1.0, 0.25),
            (&[], 0, 0.0, 0.0),
        ] {
            let mark = mark(&curve("0-255", turns), Level::Warning);
            assert_eq!(mark, Mark { score, carried, kept }, "{turns:?}");
        }
        let broken = mark(&curve("0-255", &flat(96)), Level::Error);
        assert_eq!(broken, Mark { score: 0, carried: 0.0, kept: 1.0 });
    }

    #[test]
    fn a_lock_is_compared_with_two_that_want_it() {
        let lock = |points: &[(usize, f64)]| {
            mark(&Curve { work: "lock", ..curve("0-15", points) }, Level::Good)
        };
        // With 16 threads, a thread waits for fifteen others. Its wait for each of them is no longer than its wait for
        // the only other thread when there are two.
        let fair = lock(&[(1, 0.01), (2, 0.2), (16, 1.6)]);
        assert!((fair.kept - 1.0).abs() < 1e-9 && fair.score > 65, "{fair:?}");
        assert_eq!(lock(&[(1, 0.01), (2, 0.2), (16, 16.0)]).score, 17);
        assert_eq!(lock(&[(1, 10.0)]).score, 17);
    }
}
