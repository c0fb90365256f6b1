//! Trace files of JSON lines, and every format they can be written in.

use trace::{Format, Timeline};

/// What can be read can be written in every format; and as lines again, from which the same is read.
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
