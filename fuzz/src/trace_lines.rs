//! Trace files of JSON lines, and all output formats.

use trace::{Format, Timeline};

/// Checks that a trace that can be parsed can be written in every format, and that JSON Lines parse to the same trace
/// again.
pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(timeline) = Timeline::from_lines(text) else { return };
    for format in Format::ALL {
        let out = format.text(&timeline);
        if matches!(format, Format::Lines) {
            let again = Timeline::from_lines(&out).expect("lines that were written");
            assert_eq!(out, format.text(&again));
        }
    }
}
