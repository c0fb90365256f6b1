//! The arguments of `faas`.

use crate::config::Profile;
use crate::harness::*;
use std::ops::RangeInclusive;

/// The number of minutes of a day: a trace has a column for each.
pub const MINUTES: usize = 1440;

/// `faas`.
#[derive(Debug, Args)]
pub struct Faas {
    /// A function: the time between two invocations, and their duration; may be given several times [default: the three
    /// of Table II of "Opportunities for Optimizing the Container Runtime"]
    #[arg(long = "function", value_name = "[NAME=]EVERY/TIME", value_parser = regular, conflicts_with = "trace")]
    pub regular: Vec<Regular>,
    /// Invocations per minute in the format of the Azure Functions trace of 2019:
    /// HashOwner,HashApp,HashFunction,Trigger,1,2,…
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The durations of the trace's invocations, in the format of function_durations_percentiles of
    /// the Azure Functions trace
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub durations: Option<PathBuf>,
    /// The minutes of the trace to replay [default: all]
    #[arg(long, value_name = "A..B", value_parser = minutes, requires = "trace")]
    pub minutes: Option<RangeInclusive<usize>>,
    /// The number of functions, the most invoked in these minutes of the trace
    #[arg(long, value_name = "N", value_parser = some, default_value = "10", requires = "trace")]
    pub functions: usize,
    /// The duration of invocations that --durations does not contain
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms", requires = "trace")]
    pub work: Duration,
    /// End the replay after this time [default: 60s, or the end of the trace]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Replay X times as fast: invocations come closer together and take less time
    #[arg(long, value_name = "X", value_parser = factor, default_value = "1")]
    pub speed: f64,
    /// The program criu [default: peers/bin/criu of the build directory, or criu in $PATH]
    #[arg(long, value_name = "PATH")]
    pub criu: Option<PathBuf>,
    /// The distribution of invocations over time
    #[arg(long, value_enum, default_value_t = Arrivals::Even)]
    pub arrivals: Arrivals,
    /// The seed of random numbers; the same seed gives the same invocations
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Policies of keeping containers ready
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "cold,keep-alive,warm,histogram"
    )]
    pub policy: Vec<Policy>,
    /// The time for which keep-alive keeps an idle container; platforms use about 10 minutes
    #[arg(long, value_name = "TIME", value_parser = above_zero, default_value = "10s")]
    pub keep: Duration,
    /// Number of started containers in the stock of the policy warm
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100), default_value_t = 8)]
    pub pool: u16,
    /// Maximum number of containers; further invocations wait, and idle containers of other
    /// functions make room. Each container uses up to five of the 1024 descriptors of a process
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=180), default_value_t = 128)]
    pub most: u16,
    /// The least time from when a container is started until it serves: a start that is quicker is held back
    #[arg(long, value_name = "TIME,…", value_parser = time, value_delimiter = ',', default_value = "0")]
    pub start_time: Vec<Duration>,
    /// Replays of each runtime with each policy
    #[arg(long, value_name = "N", value_parser = some, default_value = "1")]
    pub rounds: usize,
}

/// A function that is invoked at an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regular {
    /// The function's name in reports.
    pub name: String,
    /// The time between two invocations.
    pub every: Duration,
    /// The duration of an invocation.
    pub takes: Duration,
}

/// The distribution of invocations over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    /// At equal intervals
    Even,
    /// At random, independently of each other (a Poisson process)
    Random,
}

/// A policy of keeping containers ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// A new container for each invocation, removed after it
    #[default]
    Cold,
    /// A container is kept for a fixed time after an invocation, and serves the next invocation of
    /// its function
    KeepAlive,
    /// A stock of containers is started in advance, for any function; each serves one invocation,
    /// and is then replaced
    Warm,
    /// A container is kept, or started in advance, according to a histogram of its function's idle
    /// times (Serverless in the Wild, ATC '20)
    Histogram,
    /// A new container for each invocation, whose program is forked by a template of its function. The templates are
    /// kept for the whole replay. With this policy, the program of all containers is Python with 26 imports, and they
    /// have a user namespace. Only dayfly has templates; they need Linux 6.15
    Template,
    /// A new container for each invocation, which criu restores from a checkpoint of a program that was ready. With this
    /// policy, too, the program is Python with 26 imports
    Restored,
}

impl Faas {
    /// Gives the containers a user namespace if a policy needs it.
    pub(super) fn settle_namespace(&self, common: &mut Common) {
        if self.has_templates() && common.profile == Profile::Seccomp {
            common.profile = Profile::Userns;
        }
    }

    /// Returns whether templates fork containers with one of the policies.
    pub(super) fn has_templates(&self) -> bool {
        self.policy.contains(&Policy::Template)
    }

    /// Returns whether criu restores containers with one of the policies.
    pub(super) fn has_checkpoints(&self) -> bool {
        self.policy.contains(&Policy::Restored)
    }
}

/// Parses `100ms/1s` or `name=100ms/1s`.
fn regular(text: &str) -> Result<Regular, String> {
    let (name, times) = text.split_once('=').unwrap_or((text, text));
    let looks = || "a function is EVERY/TIME, such as 100ms/1s, with NAME= before it".to_owned();
    let (every, takes) = times.split_once('/').ok_or_else(looks)?;
    Ok(Regular { name: name.to_owned(), every: above_zero(every)?, takes: time(takes)? })
}

/// Parses a time above 0.
fn above_zero(text: &str) -> Result<Duration, String> {
    let read = time(text)?;
    if read.is_zero() { Err("a time above 0".to_owned()) } else { Ok(read) }
}

/// Parses `1..60`, minutes of a day from 1 on, both included.
fn minutes(text: &str) -> Result<RangeInclusive<usize>, String> {
    let range = text.split_once("..").and_then(|(first, last)| {
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (1 <= first && first <= last && last <= MINUTES).then_some(first..=last)
    });
    range.ok_or_else(|| format!("minutes are A..B within 1..{MINUTES}, both included"))
}

/// Parses the factor by which time is compressed.
fn factor(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|factor| (0.001..=100_000.0).contains(factor));
    number.ok_or_else(|| "a number from 0.001 to 100000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;
    use crate::session::With;

    #[test]
    fn functions_are_read() {
        let name = |text| regular(text).map(|of| (of.name, of.every.as_millis(), of.takes));
        assert_eq!(name("100ms/1s"), Ok(("100ms/1s".into(), 100, Duration::from_secs(1))));
        assert_eq!(name("a=2s/0"), Ok(("a".into(), 2000, Duration::ZERO)));
        for bad in ["", "1s", "0/1s", "a=1s", "1s/", "x/y"] {
            assert!(regular(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn templates_need_user_namespaces() {
        let profile = |words: &[&str]| {
            let mut with = parse::<With<Faas>>(words).expect("good");
            with.experiment.settle_namespace(&mut with.common);
            with.common.profile
        };
        assert_eq!(profile(&[]), Profile::Seccomp);
        assert_eq!(profile(&["--policy", "cold,template"]), Profile::Userns);
        assert_eq!(profile(&["--policy", "template", "--profile", "plain"]), Profile::Plain);
    }

    #[test]
    fn a_trace_has_minutes() {
        assert_eq!(minutes("2..5"), Ok(2..=5));
        assert!(["0..5", "5..2", "1..1441", "3", ""].into_iter().all(|bad| minutes(bad).is_err()));
        assert!(parse::<Faas>(&["--minutes", "1..2"]).is_err(), "of nothing");
        assert!(parse::<Faas>(&["--trace", "x", "--function", "1s/1s"]).is_err());
        assert_eq!(factor("60"), Ok(60.0));
        assert!(["0", "-1", "NaN", "inf"].into_iter().all(|bad| factor(bad).is_err()));
    }
}
