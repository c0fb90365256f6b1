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
#[must_use]
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
        true => about_cpus(all, best, widest, knee),
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

/// Returns the placement with the best throughput if it is clearly better than all CPUs; if not, returns all CPUs. For
/// mounts, throughputs with the advised numbers of threads are compared; for the lock, those with a thread on every
/// CPU.
fn best<'a>(curves: &[&'a Curve]) -> Option<&'a Curve> {
    let done = |curve: &Curve| match curve.work {
        "mounts" => width(curve).map_or(0.0, |point| point.per_second),
        _ => curve.points.last().map_or(0.0, |point| point.per_second),
    };
    let first = curves.first()?;
    // A placement with a single CPU has no contention, but a single CPU is not enough to start containers from.
    let others = curves.iter().skip(1).filter(|curve| curve.cpus.len() > 1);
    let best = others.max_by(|one, other| done(one).total_cmp(&done(other)));
    Some(best.filter(|curve| done(curve) > done(first) * BETTER).unwrap_or(first))
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

fn about_cpus(all: &Curve, best: &Curve, widest: Point, knee: Point) -> (Option<String>, String) {
    let done = |curve: &Curve, knee: Point| match curve.work {
        "mounts" => knee.per_second,
        _ => curve.points.last().map_or(knee.per_second, |point| point.per_second),
    };
    let times = done(best, knee) / done(all, widest);
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
        work: &'static str,
        placement: &'static str,
        cpus: &str,
        turns: &[(usize, f64)],
    ) -> Curve {
        let points = turns.iter().map(|&(threads, us)| Point::of(threads, us)).collect();
        Curve { work, placement, cpus: List::parse(cpus).unwrap(), points }
    }

    #[test]
    fn two_sockets_start_from_one() {
        let curves = [
            curve("lock", "all CPUs", "0-3", &[(1, 0.01), (2, 0.1), (4, 0.2)]),
            curve("mounts", "all CPUs", "0-95", &[(1, 10.0), (8, 20.0), (32, 120.0), (96, 900.0)]),
            curve(
                "mounts",
                "one node",
                "0-23,48-71",
                &[(1, 10.0), (8, 16.0), (16, 30.0), (48, 96.0)],
            ),
        ];
        let advice = advise(&curves);
        assert_eq!(advice[0].starts, Some(8));
        assert_eq!(advice[1].cpus.as_deref(), Some("0-23,48-71"));
        assert!(advice[1].text.contains("--start-cpus 0-23,48-71"), "{}", advice[1].text);
    }

    #[test]
    fn chiplets_start_from_anywhere() {
        let curves = [
            curve("mounts", "all CPUs", "0-95", &[(1, 10.0), (48, 40.0), (96, 78.0)]),
            curve("mounts", "one level 3 cache", "0-7", &[(1, 10.0), (8, 11.0)]),
        ];
        let advice = advise(&curves);
        assert_eq!(advice[0].starts, Some(48));
        assert_eq!(advice[1].cpus, None);
    }

    #[test]
    fn one_start_at_a_time_is_never_best() {
        let two = advise(&[curve("mounts", "all CPUs", "0-1", &[(1, 7.5), (2, 27.4)])]);
        assert_eq!(two[0].starts, Some(2));
        assert!(two[0].text.contains("only a small part"), "{}", two[0].text);
        let four = advise(&[curve("mounts", "all CPUs", "0-3", &[(1, 7.5), (2, 27.4), (4, 80.0)])]);
        assert_eq!(four[0].starts, Some(2));
        assert!(four[0].text.starts_with("have at most 2 starts in flight"), "{}", four[0].text);
        let one = advise(&[curve("mounts", "all CPUs", "0", &[(1, 7.5)])]);
        assert_eq!(one[0].starts, Some(1));
    }

    #[test]
    fn a_lock_alone() {
        let cpus = "0-15";
        let curves = [curve(
            "lock",
            "all CPUs",
            cpus,
            &[(1, 0.01), (2, 0.1), (4, 0.2), (8, 0.5), (16, 3.0)],
        )];
        let advice = advise(&curves);
        assert_eq!(advice[0].starts, Some(8));
        assert!(advise(&[]).is_empty());
    }
}
