//! Every sample as a line of CSV.

use crate::race::Series;
use report::csv::quoted;
use std::fmt::Write;

/// The samples of all series, with a heading.
#[must_use]
pub fn csv(series: &[Series]) -> String {
    let mut text = String::from(
        "step,pause_ms,runtime,round,wall_us,user_us,system_us,minor_faults,major_faults,\
         voluntary_switches,involuntary_switches\n",
    );
    for of in series {
        for (round, sample) in of.samples.iter().enumerate() {
            let usage = sample.usage;
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "{},{},{},{round},{:.1},{},{},{},{},{},{}",
                of.step,
                of.pause.as_secs_f64() * 1e3,
                quoted(&of.runtime),
                sample.wall.as_secs_f64() * 1e6,
                usage.user.as_micros(),
                usage.system.as_micros(),
                usage.minor_faults,
                usage.major_faults,
                usage.voluntary_switches,
                usage.involuntary_switches,
            );
        }
    }
    text
}
