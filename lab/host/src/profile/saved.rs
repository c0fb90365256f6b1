//! The costs of a profile, and a comparison with those of another profile.

use crate::measure::statistics::Summary;
use crate::profile::narrow::{allowed, compile};
use report::{Error, Table};
use serde_json::Value;
use std::hint::black_box;
use std::time::Instant;

/// The number of timed compilations.
const COMPILATIONS: usize = 51;

/// The costs of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The number of allowed calls, with or without conditions; `None` if the profile allows all calls by default.
    pub calls: Option<usize>,
    /// The number of instructions of the profile's filter.
    pub instructions: usize,
    /// The median time of a compilation in microseconds. A start that finds no cached filter has to compile the
    /// profile.
    pub compile_us: f64,
    /// The median time to load the filter, in microseconds, if loads were traced.
    pub load_us: Option<f64>,
}

impl Cost {
    /// Returns the costs of `profile`, whose loads took `loads`, in microseconds.
    ///
    /// # Errors
    /// The profile is invalid.
    pub fn of(profile: &Value, loads: &[f64]) -> Result<Self, Error> {
        let text = profile.to_string();
        let program = compile(profile, "the profile")?;
        let times: Vec<f64> = (0..COMPILATIONS)
            .map(|_| {
                let start = Instant::now();
                let parsed = seccomp::Profile::parse(black_box(&text));
                let support = seccomp::Support::default();
                let _ = black_box(parsed.and_then(|profile| seccomp::compile(&profile, &support)));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        let refuses =
            !matches!(profile["defaultAction"].as_str(), Some("SCMP_ACT_ALLOW" | "SCMP_ACT_LOG"));
        Ok(Self {
            calls: refuses.then(|| allowed(profile).len()),
            instructions: program.filter.len(),
            compile_us: Summary::of(&times).map_or(0.0, |all| all.median),
            load_us: Summary::of(loads).map(|all| all.median),
        })
    }
}

/// Returns the duration of the filter load in each start of a trace (JSON Lines), in microseconds.
pub fn loads(trace: &str) -> Vec<f64> {
    let spans = trace.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let loads = spans.filter(|span| span["kind"] == "span" && span["name"] == "load seccomp");
    loads.filter_map(|span| Some((span["end"].as_f64()? - span["start"].as_f64()?) / 1e3)).collect()
}

/// Formats the costs of both profiles side by side. `before` is `None` if the bundle has no profile.
pub fn text(before: Option<&Cost>, after: &Cost) -> String {
    let mut table = Table::new(&["", "before", "learned"]);
    let mut row = |name: &str, figure: &dyn Fn(&Cost) -> String| {
        let before = before.map_or_else(|| "no filter".to_owned(), figure);
        table.row(vec![name.to_owned(), before, figure(after)]);
    };
    row("system calls allowed", &|of| {
        of.calls.map_or_else(|| "all".to_owned(), |calls| calls.to_string())
    });
    row("filter, instructions", &|of| of.instructions.to_string());
    row("filter, bytes", &|of| (8 * of.instructions).to_string());
    row("compile, µs", &|of| format!("{:.0}", of.compile_us));
    if after.load_us.is_some() {
        row("load, µs", &|of| of.load_us.map_or_else(|| "?".to_owned(), |us| format!("{us:.0}")));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_found_in_a_trace() {
        let trace = concat!(
            r#"{"kind":"timeline","command":"dayfly run"}"#,
            "\n",
            r#"{"kind":"span","name":"load seccomp","start":1000,"end":41000}"#,
            "\n",
            r#"{"kind":"span","name":"mount","start":0,"end":9}"#,
            "\n"
        );
        assert_eq!(loads(trace), [40.0]);
        assert!(loads("no trace").is_empty());
    }
}
