//! The format: valid files, invalid files, and arbitrary bytes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt::Write;

const INVOCATIONS: &str = include_str!("../sample/invocations_per_function_md.anon.sample.csv");
const TIMES: &str = include_str!("../sample/function_durations_percentiles.anon.sample.csv");

/// Writes a file with these functions.
fn written(functions: &[Counted]) -> String {
    let minutes = functions.first().map_or(1, |function| function.counts.len());
    let mut text = KEYS.join(",");
    for minute in 1..=minutes {
        let _ = write!(text, ",{minute}");
    }
    for Counted { key, counts } in functions {
        let _ = write!(text, "\n{},http", key.join(","));
        counts.iter().for_each(|count| _ = write!(text, ",{count}"));
    }
    text + "\n"
}

fn refused(text: &str) -> String {
    busiest(text.as_bytes(), "f.csv", None, 5).expect_err("refused").to_string()
}

#[test]
fn the_sample_is_read() {
    let all = busiest(INVOCATIONS.as_bytes(), "s", None, 100).expect("sample");
    assert!(all.len() >= 5, "{all:?}");
    let sums: Vec<u64> =
        all.iter().map(|of| of.counts.iter().map(|&count| u64::from(count)).sum()).collect();
    assert!(sums.is_sorted_by(|one, next| one >= next) && sums.iter().all(|&sum| sum > 0));
    let two = busiest(INVOCATIONS.as_bytes(), "s", None, 2).expect("sample");
    assert_eq!(two, all[..2]);
    let minute = busiest(INVOCATIONS.as_bytes(), "s", Some(&(2..=2)), 100).expect("sample");
    assert!(minute.iter().all(|of| of.counts.len() == 1));
    let times = durations(TIMES.as_bytes(), "t", &all).expect("sample");
    assert_eq!(times.len(), all.len(), "each of them has its durations");
    assert!(durations(TIMES.as_bytes(), "t", &two).expect("sample").len() == 2);
}

#[test]
fn errors_name_line_and_column() {
    let head = "HashOwner,HashApp,HashFunction,Trigger,1,2\n";
    for (text, parts) in [
        (String::new(), ["f.csv: column 1: ", "\"HashOwner\" is expected"]),
        (
            "HashOwner,HashApp,Function\n".to_owned(),
            ["f.csv: column 3: ", "\"Function\" where \"HashFunction\" is expected"],
        ),
        (KEYS.join(","), ["f.csv: column 5: ", "\"1\" is expected"]),
        (format!("{},1,3", KEYS.join(",")), ["f.csv: column 6: ", "\"3\" where \"2\" is"]),
        (format!("{head}a,b,c,d,1\n"), ["line: 2", "found record with 5 fields"]),
        (format!("{head}a,b,c,d,1,2,3\n"), ["line: 2", "found record with 7 fields"]),
        (format!("{head}\r\na,b,c,d,1,x\n"), ["record 1", "field 5: invalid digit"]),
        (format!("{head}a,b,c,d,-1,0\n"), ["line: 2", "field 4: invalid digit"]),
        (format!("{head}{}", "x".repeat(70_000)), ["line: 2", "found record with 1 fields"]),
    ] {
        let error = refused(&text);
        assert!(
            error.starts_with("f.csv: ") && parts.iter().all(|it| error.contains(it)),
            "{error}"
        );
    }
    let bytes = [head.as_bytes(), b"a,b,\xff,d,1,1\n"].concat();
    let error = busiest(bytes.as_slice(), "f.csv", None, 5).expect_err("no text").to_string();
    assert!(error.contains("line 2, field: 2") && error.contains("invalid utf-8"), "{error}");
    let late = busiest(head.as_bytes(), "f.csv", Some(&(1..=3)), 5).expect_err("too late");
    assert_eq!(late.to_string(), "f.csv: the minutes end at 2, 3 was asked for");
}

#[test]
fn errors_of_durations_name_their_place() {
    let head = DURATIONS;
    let refused =
        |text: String| durations(text.as_bytes(), "d.csv", &[]).expect_err("refused").to_string();
    assert_eq!(
        refused(head.replace("Count", "count")),
        "d.csv: column 5: \"count\" where \"Count\" is expected"
    );
    for (ms, shown) in [("NaN", "NaN"), ("1e12", "1000000000000"), ("-1", "-1")] {
        assert_eq!(
            refused(format!("{head}\na,b,c,1,1,1,1,1,1,1,{ms},1,1,1")),
            format!("d.csv: c: an invocation of {shown} ms, not from 0 to a day")
        );
    }
    let error = refused(format!("{head}\na,b,c,1,1,1,1,1,1,1,x,1,1,1"));
    assert!(error.contains("line: 2") && error.contains("field 10: invalid float"), "{error}");
}

#[test]
fn percentiles_are_joined_by_lines() {
    let of = Percentiles([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 100.0]);
    let ms = |share| of.at(share).as_secs_f64() * 1e3;
    for (share, expected) in [
        (0.0, 10.0),
        (0.005, 15.0),
        (0.25, 30.0),
        (0.375, 35.0),
        (0.5, 40.0),
        (0.995, 80.0),
        (1.0, 100.0),
    ] {
        assert!((ms(share) - expected).abs() < 1e-6, "{share}: {}", ms(share));
    }
}

fn function() -> impl Strategy<Value = Counted> {
    let hash = "[0-9a-f]{1,64}";
    let counts = vec(prop_oneof![4 => Just(0_u32), 4 => 0_u32..500, 1 => any::<u32>()], 7);
    ([hash, hash, hash], counts).prop_map(|(key, counts)| Counted { key, counts })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..400), most in 0_usize..3) {
        let _ = busiest(bytes.as_slice(), "f", None, most);
        let _ = durations(bytes.as_slice(), "f", &[]);
        // Arbitrary bytes after valid headings must not cause a panic either.
        for head in [format!("{},1,2\n", KEYS.join(",")), format!("{DURATIONS}\n")] {
            let whole = [head.as_bytes(), &bytes].concat();
            let _ = busiest(whole.as_slice(), "f", Some(&(1..=2)), most);
            let _ = durations(whole.as_slice(), "f", &[]);
        }
    }

    #[test]
    fn one_byte_elsewhere_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for text in [INVOCATIONS, TIMES] {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let results = [
                busiest(bytes.as_slice(), "f", None, 3).err(),
                durations(bytes.as_slice(), "f", &[]).err(),
            ];
            for error in results.into_iter().flatten() {
                prop_assert!(error.to_string().starts_with("f:"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_written_reads_back(functions in vec(function(), 0..20), most in 1_usize..25) {
        let text = written(&functions);
        let read = busiest(text.as_bytes(), "f", None, most).expect("of the format");
        // The expected result comes from a stable sort of all functions.
        let sum = |of: &Counted| of.counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        let mut expected: Vec<Counted> =
            functions.into_iter().filter(|of| sum(of) > 0).collect();
        expected.sort_by_key(|of| Reverse(sum(of)));
        expected.truncate(most);
        if text.lines().count() > 1 {
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn minutes_are_a_part_of_all(functions in vec(function(), 1..10), first in 1_usize..=7, more in 0_usize..7) {
        let last = (first + more).min(7);
        let read = busiest(written(&functions).as_bytes(), "f", Some(&(first..=last)), 50).expect("of the format");
        for of in &read {
            prop_assert!(functions.iter().any(|it| it.key == of.key && it.counts[first - 1..last] == of.counts));
        }
        let busy = functions.iter().filter(|it| it.counts[first - 1..last].iter().any(|&count| count > 0));
        prop_assert_eq!(read.len(), busy.count());
    }

    #[test]
    fn times_lie_between_percentiles(mut ms in vec(0.0_f64..1e6, 7), share in 0.0_f64..=1.0) {
        ms.sort_by(f64::total_cmp);
        let of = Percentiles(ms.clone().try_into().expect("seven"));
        let time = of.at(share).as_secs_f64() * 1e3;
        prop_assert!(ms[0] - 1e-3 <= time && time <= ms[6] + 1e-3);
    }
}
