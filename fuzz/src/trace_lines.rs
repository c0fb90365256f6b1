//! Trace files of JSON lines, and all output formats.

use trace::{Format, Timeline};

/// Checks that a trace that can be parsed can be written in every format, and that JSON Lines parse to the same trace
/// again.
pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(timeline) = Timeline::from_lines(text) else { return };
    for format in Format::ALL {
        let mut out = String::new();
        let _ = format.write(&mut out, &timeline);
        if matches!(format, Format::Lines) {
            let again = Timeline::from_lines(&out).expect("lines that were written");
            let mut twice = String::new();
            format.write(&mut twice, &again).expect("text");
            assert_eq!(out, twice);
        }
    }
}
