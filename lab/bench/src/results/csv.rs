//! Samples as CSV.

use crate::race::Series;
use serde::Serialize;
use std::time::Duration;

/// Formats the samples of all series, with a heading.
pub fn csv(all: &[Series]) -> String {
    let headings = "step,pause_ms,runtime,round,wall_us,cpu_us,user_us,system_us,minor_faults,major_faults,\
         voluntary_switches,involuntary_switches";
    let lines = all.iter().flat_map(|of| {
        // Empty if the kernel can't separate user and system time.
        let split = |time: Duration| of.is_split.then_some(time.as_micros());
        let pause_ms = of.pause.as_secs_f64() * 1e3;
        of.samples.iter().enumerate().map(move |(round, sample)| {
            let usage = sample.usage;
            (
                (&of.step, pause_ms, &of.runtime, round, sample.wall.as_secs_f64() * 1e6),
                (usage.cpu().as_micros(), split(usage.user), split(usage.system)),
                (usage.minor_faults, usage.major_faults),
                (usage.voluntary_switches, usage.involuntary_switches),
            )
        })
    });
    lines_of(headings, lines)
}

/// Formats lines of CSV; `headings` are separated by commas.
pub(crate) fn lines_of(headings: &str, lines: impl IntoIterator<Item = impl Serialize>) -> String {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    // Writing to memory can't fail.
    let _ = writer.write_record(headings.split(','));
    for line in lines {
        let _ = writer.serialize(line);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
