//! The workload to replay: the invocations of functions, with their due times and durations.

use super::azure::{self, Counted};
use super::{Arrivals, Faas, Regular};
use crate::harness::*;
use host::measure::random::Random;

/// Table II of "Opportunities for Optimizing the Container Runtime": a function of the Azure trace, the interval of its
/// invocations, and their duration.
const TABLE: [(&str, u64, u64); 3] =
    [("5e0db5fd7898", 500, 629), ("f9dd89047700", 385, 306), ("c8c0dc2ebb78", 88, 545)];

/// The default duration of a replay of these functions.
const MINUTE: Duration = Duration::from_secs(60);

/// The maximum number of invocations of a replay, which are kept in memory.
const MOST: usize = 1_000_000;

/// The number of characters of a hash in a function's name.
const SHORT: usize = 12;

/// The maximum duration of an invocation, for which the container's shell waits.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A function.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Function {
    pub(super) name: String,
    /// The time between two invocations, if it is constant.
    pub(super) every_ms: Option<f64>,
    /// The average duration of the function's invocations.
    pub(super) takes_ms: f64,
    pub(super) invocations: usize,
}

/// An invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Invocation {
    /// The time when the invocation is due, from the beginning.
    pub(super) due: Duration,
    /// The index of the invocation's function.
    pub(super) function: usize,
    /// The duration of the invocation.
    pub(super) takes: Duration,
}

/// The workload to replay.
#[derive(Debug)]
pub struct Workload {
    pub(super) functions: Vec<Function>,
    /// All invocations, in the order in which they are due.
    pub(super) invocations: Vec<Invocation>,
    /// The duration of the replay.
    pub(super) duration: Duration,
}

impl Workload {
    /// Builds the workload that the options describe.
    ///
    /// # Errors
    /// A file that can't be read or is invalid; no invocations, or too many.
    pub fn of(options: &Faas) -> Result<Self, Error> {
        let mut random = Random::new(options.seed);
        let workload = match &options.trace {
            Some(file) => traced(options, file, &mut random)?,
            None => regular(options, &mut random)?,
        };
        if workload.invocations.is_empty() {
            bail!("no invocation is due in that time");
        }
        Ok(workload)
    }

    /// Sorts invocations, scales them to the requested speed, and drops invocations that are due at `duration` or
    /// later.
    fn new(
        mut functions: Vec<Function>,
        mut invocations: Vec<Invocation>,
        duration: Duration,
        speed: f64,
    ) -> Self {
        for invocation in &mut invocations {
            invocation.due = invocation.due.div_f64(speed);
            invocation.takes = invocation.takes.div_f64(speed).min(LONGEST);
        }
        invocations.retain(|invocation| invocation.due < duration);
        invocations.sort_by_key(|invocation| invocation.due);
        for (at, function) in functions.iter_mut().enumerate() {
            let own = || invocations.iter().filter(|invocation| invocation.function == at);
            function.invocations = own().count();
            let sum: Duration = own().map(|invocation| invocation.takes).sum();
            function.takes_ms = sum.as_secs_f64() * 1e3 / function.invocations.max(1) as f64;
            function.every_ms = function.every_ms.map(|ms| ms / speed);
        }
        Self { functions, invocations, duration }
    }
}

fn regular(options: &Faas, random: &mut Random) -> Result<Workload, Error> {
    let table = TABLE.map(|(name, every, takes)| Regular {
        name: name.to_owned(),
        every: Duration::from_millis(every),
        takes: Duration::from_millis(takes),
    });
    let all = if options.regular.is_empty() { &table[..] } else { &options.regular };
    let duration = options.duration.unwrap_or(MINUTE);
    // The end of the replay, in seconds of the workload's own time, before `speed` is applied.
    let end = duration.as_secs_f64() * options.speed;
    let (mut functions, mut invocations) = (Vec::new(), Vec::new());
    for (at, of) in all.iter().enumerate() {
        let every = of.every.as_secs_f64();
        let mut due = match options.arrivals {
            Arrivals::Even => 0.0,
            Arrivals::Random => random.gap() * every,
        };
        let (mut number, begin) = (0_u32, due);
        while due < end {
            push(&mut invocations, due, at, of.takes)?;
            number += 1;
            due = match options.arrivals {
                Arrivals::Even => begin + f64::from(number) * every,
                Arrivals::Random => due + random.gap() * every,
            };
        }
        let even = (options.arrivals == Arrivals::Even).then_some(every * 1e3);
        functions.push(function(of.name.clone(), even));
    }
    Ok(Workload::new(functions, invocations, duration, options.speed))
}

fn function(name: String, every_ms: Option<f64>) -> Function {
    Function { name, every_ms, takes_ms: 0.0, invocations: 0 }
}

fn push(
    invocations: &mut Vec<Invocation>,
    due: f64,
    function: usize,
    takes: Duration,
) -> Result<(), Error> {
    if invocations.len() >= MOST {
        bail!(
            "more than {MOST} invocations: take fewer --functions, --minutes or a shorter --duration"
        );
    }
    let due = Duration::try_from_secs_f64(due)
        .map_err(|error| unfit!("an invocation is due at {due} s: {error}"))?;
    invocations.push(Invocation { due, function, takes });
    Ok(())
}

fn traced(options: &Faas, file: &Path, random: &mut Random) -> Result<Workload, Error> {
    let open = |file: &Path| File::open(file).map_err(Error::at("open", file));
    let name = file.display().to_string();
    let counted = azure::busiest(open(file)?, &name, options.minutes.as_ref(), options.functions)?;
    let times = match &options.durations {
        Some(file) => azure::durations(open(file)?, &file.display().to_string(), &counted)?,
        None => HashMap::new(),
    };
    let minutes = counted.first().map_or(0, |of| of.counts.len());
    let mut invocations = Vec::new();
    for (at, of) in counted.iter().enumerate() {
        let times = times.get(&of.key);
        for (minute, &count) in of.counts.iter().enumerate() {
            for number in 0..count {
                // "Even" means the middle of each interval, so that functions do not all begin together.
                let place = match options.arrivals {
                    Arrivals::Even => (f64::from(number) + 0.5) / f64::from(count),
                    Arrivals::Random => random.share(),
                };
                let takes = times.map_or(options.work, |times| times.at(random.share()));
                push(&mut invocations, (minute as f64 + place) * 60.0, at, takes)?;
            }
        }
    }
    let seconds = minutes as f64 * 60.0 / options.speed;
    let all = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let duration = options.duration.map_or(all, |asked| asked.min(all));
    let functions = counted.iter().map(|of| function(short(of), None)).collect();
    Ok(Workload::new(functions, invocations, duration, options.speed))
}

/// Returns the short name of a function of a trace.
fn short(of: &Counted) -> String {
    let [.., hash] = &of.key;
    hash.chars().take(SHORT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    fn workload(words: &[&str]) -> Result<Workload, Error> {
        Workload::of(&parse(words).expect("options"))
    }

    fn sample(name: &str) -> String {
        format!("{}/src/faas/sample/{name}.anon.sample.csv", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn the_papers_functions_are_the_default() {
        let workload = workload(&[]).expect("table");
        let counts: Vec<usize> = workload.functions.iter().map(|of| of.invocations).collect();
        assert_eq!(counts, [120, 156, 682]);
        assert_eq!(workload.duration, MINUTE);
        assert!(workload.invocations.is_sorted_by_key(|of| of.due));
        assert_eq!(workload.functions[2].takes_ms, 545.0);
        assert_eq!(workload.functions[0].every_ms, Some(500.0));
    }

    #[test]
    fn requests_come_at_their_interval() {
        let of = workload(&["--function", "100ms/1s", "--duration", "10s"]).expect("regular");
        let due: Vec<u128> = of.invocations.iter().map(|of| of.due.as_micros()).collect();
        assert_eq!(due.len(), 100);
        assert!((0..100).zip(&due).all(|(at, &due)| due == at * 100_000), "{due:?}");
    }

    #[test]
    fn chance_can_be_repeated() {
        let of = |seed: &str| {
            workload(&["--arrivals", "random", "--seed", seed]).expect("table").invocations
        };
        assert_eq!(of("3"), of("3"));
        assert_ne!(of("3"), of("4"));
        let count = of("3").len() as f64;
        assert!((count - 958.0).abs() < 150.0, "{count}");
    }

    #[test]
    fn a_trace_is_replayed_at_speed() {
        let (trace, times) =
            (sample("invocations_per_function_md"), sample("function_durations_percentiles"));
        let words =
            ["--trace", &trace, "--durations", &times, "--minutes", "2..3", "--speed", "30"];
        let of = workload(&[&words[..], &["--functions", "2"]].concat()).expect("sample");
        assert_eq!(of.duration, Duration::from_secs(4));
        let counts: Vec<usize> = of.functions.iter().map(|of| of.invocations).collect();
        assert_eq!(counts, [240, 114]);
        assert!(of.functions.iter().all(|of| of.name.len() == SHORT));
        assert!(of.invocations.last().is_some_and(|last| last.due < of.duration));
        // The shortest invocation takes at least four milliseconds in the trace. With the speed of
        // this test, it takes a thirtieth of that time.
        let busiest = of.invocations.iter().filter(|of| of.function == 0);
        let least = busiest.map(|of| of.takes).min().expect("some");
        assert!(least >= Duration::from_micros(133) && least < Duration::from_millis(1));
        let all = workload(&["--trace", &trace, "--functions", "100"]).expect("sample");
        assert!(all.functions.len() == 6 && all.functions[0].takes_ms == 100.0);
    }

    #[test]
    fn what_can_not_be_is_told() {
        let error = |words: &[&str]| workload(words).expect_err("refused").to_string();
        assert!(error(&["--trace", "/no/such"]).starts_with("open /no/such: "));
        assert!(error(&["--function", "1us/1s"]).starts_with("more than 1000000 invocations"));
        assert!(error(&["--duration", "0"]).contains("no invocation is due"));
    }
}
