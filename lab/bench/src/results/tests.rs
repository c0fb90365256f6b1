//! Compares reports of known samples literally.

use super::{compare, csv, resources, weights};
use crate::accounting;
use crate::process::Sample;
use crate::race::Series;
use crate::start::Weighed;
use crate::weight::Weight;
use std::time::Duration;
use sys::rusage::Usage;

fn series(runtime: &str, step: &str, pause_ms: u64, milliseconds: [u64; 6]) -> Series {
    let usage = Usage {
        user: Duration::from_millis(1),
        system: Duration::from_micros(1500),
        minor_faults: 210,
        voluntary_switches: 7,
        ..Usage::default()
    };
    let sample = |ms| Sample { wall: Duration::from_millis(ms), usage, ..Sample::default() };
    Series {
        step: step.to_owned(),
        pause: Duration::from_millis(pause_ms),
        runtime: runtime.to_owned(),
        samples: milliseconds.map(sample).to_vec(),
        is_split: true,
    }
}

fn some() -> Vec<Series> {
    vec![
        series("dayfly", "run", 0, [2, 2, 2, 2, 2, 2]),
        series("crun", "run", 0, [8, 8, 8, 8, 8, 8]),
        series("twin", "run", 0, [1, 3, 1, 3, 2, 2]),
        series("dayfly", "exec", 60, [1, 1, 1, 1, 1, 1]),
        series("crun", "exec", 60, [4, 4, 4, 4, 4, 4]),
    ]
}

#[test]
fn tables_of_resources() {
    let expected = "\
median                     CPU ms  user  system  page faults  switches
run, back-to-back  dayfly    2.50  1.00    1.50          210         7
";
    let text = resources(&compare(&some()[..1], "dayfly")).expect("a row");
    assert_eq!(text.strip_suffix(accounting::note(true)), Some(expected));
    let by_tick = Series { is_split: false, ..some().swap_remove(0) };
    let text = resources(&compare(&[by_tick], "dayfly")).expect("a row");
    let expected = expected.replace("1.00    1.50", "   -       -");
    assert_eq!(text.strip_suffix(accounting::note(false)), Some(expected.as_str()));
}

#[test]
fn table_of_weights() {
    let weighed =
        |runtime: &str, weight| Weighed { step: "run", runtime: runtime.to_owned(), weight };
    let weight = Weight { system_calls: 214.0, peak_kib: 512.0, instructions: Some(48_000.0) };
    let expected = "\
followed  runtime       system calls  instructions  peak MiB
run        dayfly                214         48000      0.50
run          crun                214             -      0.50
run         youki  can't be followed
";
    let uncounted = Weight { instructions: None, ..weight };
    let all =
        [weighed("dayfly", Some(weight)), weighed("crun", Some(uncounted)), weighed("youki", None)];
    assert_eq!(weights(&all), expected);
}

#[test]
fn samples_as_csv() {
    let text = csv(&[series("a \"quoted\", name", "run", 60, [2, 3, 2, 2, 2, 2])]);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "step,pause_ms,runtime,round,wall_us,cpu_us,user_us,system_us,minor_faults,major_faults,voluntary_switches,involuntary_switches"
        )
    );
    assert_eq!(
        lines.next(),
        Some("run,60.0,\"a \"\"quoted\"\", name\",0,2000.0,2500,1000,1500,210,0,7,0")
    );
    assert_eq!(lines.count(), 5);
    let by_tick = Series { is_split: false, ..some().swap_remove(0) };
    assert_eq!(csv(&[by_tick]).lines().nth(1), Some("run,0.0,dayfly,0,2000.0,2500,,,210,0,7,0"));
}
