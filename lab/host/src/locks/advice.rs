//! The advice that follows from the curves: how many starts to run concurrently, and on which CPUs.

use super::{Curve, Point};
use report::count::counted;
use serde::Serialize;

/// The fraction of a placement's maximum throughput that counts as good enough.
pub const ENOUGH: f64 = 0.9;
/// The factor by which the throughput of a placement must exceed that of all CPUs for the placement to be recommended.
const BETTER: f64 = 1.1;
/// The maximum factor by which the time of a turn, divided by the number of threads, may exceed the same quotient for
/// two threads.
const DEAR: f64 = 2.0;
/// The minimum number of starts that is advised on hosts with at least this number of CPUs. One thread often makes the
/// most mounts, but a start makes mounts for less than a fifth of its time (docs/report: on two CPUs, 4 starts at a
/// time have one and a half times the throughput of one start at a time).
const FEWEST: usize = 2;

/// A piece of advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The subject of the advice: `width`, `cpus`.
    pub about: &'static str,
    /// The number of starts, for `width`.
    pub starts: Option<usize>,
    /// The CPUs, for `cpus`.
    pub cpus: Option<String>,
    /// The advice in words.
    pub text: String,
}

/// Returns the advice from the curves of mounts if there are any, else from those of the lock.
pub fn advise(curves: &[Curve]) -> Vec<Advice> {
    let of = |work: &str| curves.iter().filter(|curve| curve.work == work).collect::<Vec<_>>();
    let mounts = of("mounts");
    let decisive = if mounts.is_empty() { of("lock") } else { mounts };
    let Some(all) = decisive.first() else { return Vec::new() };
    let (Some(widest), Some(best)) = (width(all), best(&decisive)) else { return Vec::new() };
    let placed = best.placement != all.placement;
    let knee = if placed { width(best).unwrap_or(widest) } else { widest };
    let any = |why: &str| (None, format!("start from any CPU: {why}"));
    let (cpus, text) = match placed {
        true => about_cpus(all, best),
        false if decisive.len() == 1 => any("all CPUs of this host are equally close"),
        false => any("no placement has a higher throughput than all CPUs"),
    };
    let starts = Some(knee.threads);
    let width = Advice { about: "width", starts, cpus: None, text: about_width(best, knee) };
    vec![width, Advice { about: "cpus", starts: None, cpus, text }]
}

/// Returns the point with the advised number of threads. For mounts, this is the smallest number with nearly the best
/// throughput ([`ENOUGH`]), but at least [`FEWEST`]. For the lock, the time of a turn is divided by the number of
/// threads. The advised number is the largest up to which this quotient is at most [`DEAR`] times the quotient for two
/// threads.
fn width(curve: &Curve) -> Option<Point> {
    if curve.work == "mounts" {
        let most = curve.points.iter().map(|point| point.per_second).fold(0.0, f64::max);
        let enough = curve.points.iter().position(|point| point.per_second >= most * ENOUGH)?;
        let fewest = curve.points.iter().position(|point| point.threads >= FEWEST).unwrap_or(0);
        return curve.points.get(enough.max(fewest)).copied();
    }
    let each = |point: &Point| point.turn_us / point.threads as f64;
    let two = curve.points.iter().find(|point| point.threads >= 2).or(curve.points.first())?;
    let cheap = |point: &&Point| each(point) <= each(two) * DEAR;
    curve.points.iter().take_while(cheap).last().copied()
}

/// Returns the placement with the best throughput if it is clearly better than all CPUs; if not, returns all CPUs.
fn best<'a>(curves: &[&'a Curve]) -> Option<&'a Curve> {
    let first = curves.first()?;
    // A placement with a single CPU has no contention, but a single CPU is not enough to start containers from.
    let others = curves.iter().skip(1).filter(|curve| curve.cpus.len() > 1);
    let best = others.max_by(|one, other| done(one).total_cmp(&done(other)));
    Some(best.filter(|curve| done(curve) > done(first) * BETTER).unwrap_or(first))
}

/// Returns the throughput by which placements are compared: for mounts, with the advised number of threads; for the
/// lock, with a thread on every CPU.
fn done(curve: &Curve) -> f64 {
    let point = if curve.work == "mounts" { width(curve) } else { curve.points.last().copied() };
    point.map_or(0.0, |point| point.per_second)
}

fn about_width(curve: &Curve, knee: Point) -> String {
    let starts = knee.threads;
    let last = curve.points.last().copied().unwrap_or(knee);
    match (last.threads > starts, curve.work) {
        (true, "mounts") => format!(
            "have at most {} in flight: {} {} {:.0} mounts a second done, {} {} {:.0}",
            counted(starts, "start"),
            counted(starts, "thread"),
            get(starts),
            knee.per_second,
            last.threads,
            get(last.threads),
            last.per_second
        ),
        (true, _) => format!(
            "have at most {} in flight: a turn takes {:.2} µs with {starts}, {:.2} µs with {}",
            counted(starts, "start"),
            knee.turn_us,
            last.turn_us,
            last.threads
        ),
        (false, "mounts")
            if curve.points.iter().any(|point| point.per_second > knee.per_second) =>
        {
            format!(
                "keep {} in flight, one per CPU: fewer threads complete more mounts, but mounts \
                 are only a small part of a start",
                counted(starts, "start")
            )
        }
        (false, _) => format!(
            "keep {} in flight, one per CPU: the throughput increases up to this number",
            counted(starts, "start")
        ),
    }
}

fn about_cpus(all: &Curve, best: &Curve) -> (Option<String>, String) {
    let times = done(best) / done(all);
    let (cpus, name) = (best.cpus.to_string(), best.placement);
    let text = format!(
        "start from CPUs {cpus} ({name}), with {times:.1} times the throughput of all CPUs: \
         dayfly run --start-cpus {cpus} …"
    );
    (Some(cpus), text)
}

fn get(threads: usize) -> &'static str {
    if threads == 1 { "gets" } else { "get" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::List;

    fn curve(
        (work, placement, cpus): (&'static str, &'static str, &str),
        turns: &[(usize, f64)],
    ) -> Curve {
        let points = turns.iter().map(|&(threads, us)| Point::of(threads, us)).collect();
        Curve { work, placement, cpus: List::parse(cpus).unwrap(), points, rounds_us: Vec::new() }
    }

    #[test]
    fn advice_of_curves() {
        let two_sockets = [
            curve(("lock", "all CPUs", "0-3"), &[(1, 0.01), (2, 0.1), (4, 0.2)]),
            curve(
                ("mounts", "all CPUs", "0-95"),
                &[(1, 10.0), (8, 20.0), (32, 120.0), (96, 900.0)],
            ),
            curve(("mounts", "one node", "0-47"), &[(1, 10.0), (8, 16.0), (16, 30.0), (48, 96.0)]),
        ];
        let chiplets = [
            curve(("mounts", "all CPUs", "0-95"), &[(1, 10.0), (48, 40.0), (96, 78.0)]),
            curve(("mounts", "one level 3 cache", "0-7"), &[(1, 10.0), (8, 11.0)]),
        ];
        let all = |cpus, turns: &[(usize, f64)]| [curve(("mounts", "all CPUs", cpus), turns)];
        let lock = [(1, 0.01), (2, 0.1), (4, 0.2), (8, 0.5), (16, 3.0)];
        for (curves, starts, cpus, says) in [
            (&two_sockets[..], 8, Some("0-47"), "dayfly run --start-cpus 0-47 …"),
            (&chiplets, 48, None, "no placement has a higher throughput"),
            // One start at a time is never best.
            (&all("0-1", &[(1, 7.5), (2, 27.4)]), 2, None, "only a small part"),
            (
                &all("0-3", &[(1, 7.5), (2, 27.4), (4, 80.0)]),
                2,
                None,
                "have at most 2 starts in flight",
            ),
            (&all("0", &[(1, 7.5)]), 1, None, "equally close"),
            (&[curve(("lock", "all CPUs", "0-15"), &lock)], 8, None, "have at most 8 starts"),
        ] {
            let advice = advise(curves);
            assert_eq!((advice[0].starts, advice[1].cpus.as_deref()), (Some(starts), cpus));
            let text = format!("{}; {}", advice[0].text, advice[1].text);
            assert!(text.contains(says), "{text}");
        }
        assert!(advise(&[]).is_empty());
    }
}
