//! Formats every sample as a line of CSV.

use crate::race::Series;
use report::csv::quoted;
use std::fmt::Write;
use std::time::Duration;

/// Formats the samples of all series, with a heading.
#[must_use]
pub fn csv(series: &[Series]) -> String {
    let mut text = String::from(
        "step,pause_ms,runtime,round,wall_us,cpu_us,user_us,system_us,minor_faults,major_faults,\
         voluntary_switches,involuntary_switches\n",
    );
    for of in series {
        // Empty if the kernel can't separate user and system time.
        let split = |time: Duration| match of.is_split {
            true => time.as_micros().to_string(),
            false => String::new(),
        };
        for (round, sample) in of.samples.iter().enumerate() {
            let usage = sample.usage;
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "{},{},{},{round},{:.1},{},{},{},{},{},{},{}",
                of.step,
                of.pause.as_secs_f64() * 1e3,
                quoted(&of.runtime),
                sample.wall.as_secs_f64() * 1e6,
                usage.cpu().as_micros(),
                split(usage.user),
                split(usage.system),
                usage.minor_faults,
                usage.major_faults,
                usage.voluntary_switches,
                usage.involuntary_switches,
            );
        }
    }
    text
}
