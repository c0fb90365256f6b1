//! `dayfly bench templates`, and the policy `template` of `dayfly bench faas`.

use super::{bench, bench_and_criu, left, measured};
use crate::templates;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(ways_are_compared).needs(lacking).unlike_runc(),
    case!(restored_functions_answer).needs(bench_and_criu).unlike_runc(),
    case!(templates_from_disk).needs(|| lacking().and_then(|()| criu::lacking())).unlike_runc(),
    case!(invocations_are_restored).needs(bench_and_criu).unlike_runc(),
    case!(functions_are_forked).needs(lacking).unlike_runc(),
];

fn lacking() -> Result<(), String> {
    bench().and_then(|()| templates::lacking())
}

/// Checks that nothing of the experiments below the bed's directory is left.
fn nothing_left(bed: &Bed) {
    let left = left(bed);
    assert!(left.iter().all(|path| !path.contains(&bed.dir.display().to_string())), "{left:?}");
}

fn count(values: &Value) -> Option<usize> {
    values.as_array().map(Vec::len)
}

fn row<'a>(rows: &'a Value, key: &str, name: &str) -> &'a Value {
    let mut all = rows.as_array().expect("rows").iter();
    all.find(|row| row[key] == name).unwrap_or_else(|| panic!("no {name}: {rows:#}"))
}

fn ways_are_compared(bed: &Bed) {
    let runtime = bed.runtime().to_str().expect("path");
    let words = ["templates", "--runtime", runtime, "--criu", "/none", "--touched", "0,5"];
    let fewest = ["--rounds", "1", "--warm-up", "0", "--bursts", "1", "--width", "2"];
    let result = measured(bed, &[&words[..], &fewest].concat());
    for figure in ["answers", "memory", "bursts"] {
        let rows = &result[figure];
        assert_eq!(count(rows), Some(4), "{rows:#}");
        let reason = row(rows, "way", "restored")["reason"].as_str().expect("reason");
        assert!(reason.contains("/none"), "{reason}");
        for name in ["cold", "warm", "template"] {
            assert_eq!(row(rows, "way", name)["reason"], Value::Null, "{rows:#}");
        }
    }
    let us = |figure: &str, way: &str| {
        let latencies = &row(&result[figure], "way", way)["latencies_us"];
        let expected = if figure == "bursts" { 2 } else { 1 };
        assert_eq!(count(latencies), Some(expected), "{figure}, {way}");
        latencies[0].as_f64().expect("a number")
    };
    for way in ["warm", "template"] {
        assert!(us("answers", way) < us("answers", "cold"), "{}", result["answers"]);
        assert!(us("bursts", way) > 0.0);
    }
    let kib = |way: &str, figure: &str| {
        let kib = row(&result["memory"], "way", way)[figure].as_f64();
        kib.unwrap_or_else(|| panic!("{way}, {figure}: {}", result["memory"]))
    };
    assert_eq!(kib("cold", "idle_pss_kib"), 0.0);
    assert!(kib("warm", "idle_pss_kib") > 1000.0 && kib("template", "idle_pss_kib") > 1000.0);
    // A forked program shares with its template what an executed one has for itself.
    assert!(kib("template", "running_private_kib") < kib("cold", "running_private_kib"));
    let forks = &result["forks"];
    let touched: Vec<&Value> =
        forks.as_array().expect("forks").iter().map(|fork| &fork["touched_mib"]).collect();
    assert_eq!(touched, [&Value::Null, &json!(0), &json!(5)]);
    for fork in forks.as_array().expect("forks") {
        assert_eq!((count(&fork["rounds_us"]), &fork["reason"]), (Some(1), &Value::Null), "{fork}");
        let steps = fork["steps"].as_array().expect("steps");
        let verifies = steps.iter().any(|step| step["name"] == "verify forked program");
        assert_eq!(verifies, fork["touched_mib"].is_u64(), "{fork}");
    }
    nothing_left(bed);
}

fn restored_functions_answer(bed: &Bed) {
    let (runtime, criu) = (bed.runtime().to_str().expect("path"), criu::program());
    let words = ["templates", "--runtime", runtime, "--criu", &criu, "--ways", "restored"];
    let fewest = ["--rounds", "1", "--warm-up", "0", "--bursts", "1", "--width", "2"];
    let figures = ["--figure", "answer,memory,burst"];
    let result = measured(bed, &[&words[..], &fewest, &figures].concat());
    assert_eq!(result["failures"], json!([]), "{result:#}");
    assert_eq!(count(&result["answers"][0]["latencies_us"]), Some(1));
    assert_eq!(count(&result["bursts"][0]["latencies_us"]), Some(2));
    assert_eq!(result["memory"][0]["idle_pss_kib"], 0.0);
    assert!(result["memory"][0]["running_pss_kib"].as_f64() > Some(1000.0), "{result:#}");
    nothing_left(bed);
}

/// A template from disk forks the function, and is ready without its warm-up.
fn templates_from_disk(bed: &Bed) {
    let (runtime, criu) = (bed.runtime().to_str().expect("path"), criu::program());
    let words = ["templates", "--runtime", runtime, "--criu", &criu, "--ways", "template,disk"];
    let fewest = ["--rounds", "1", "--warm-up", "0", "--figure", "answer,ready,memory"];
    let result = measured(bed, &[&words[..], &fewest].concat());
    assert_eq!(result["failures"], json!([]), "{result:#}");
    assert_eq!(count(&row(&result["answers"], "way", "disk")["latencies_us"]), Some(1));
    assert!(row(&result["memory"], "way", "disk")["made_ms"].is_f64(), "{result:#}");
    nothing_left(bed);
}

/// Each invocation gets a container of its own from the checkpoint.
fn invocations_are_restored(bed: &Bed) {
    let (runtime, criu) = (bed.runtime().to_str().expect("path"), criu::program());
    let words = ["faas", "--runtime", runtime, "--criu", &criu, "--policy", "cold,restored"];
    let result =
        measured(bed, &[&words[..], &["--function", "a=300ms/20ms", "--duration", "1s"]].concat());
    assert_eq!(result["failures"], json!([]), "{result:#}");
    let restored = row(&result["rows"], "policy", "restored");
    let served = (count(&restored["latencies_us"]), &restored["failed"], &restored["started"]);
    assert_eq!(served, (Some(4), &json!(0), &json!(4)), "{restored}");
    nothing_left(bed);
}

/// Templates serve all invocations, and their time and memory are counted.
fn functions_are_forked(bed: &Bed) {
    let runtime = bed.runtime().to_str().expect("path");
    let words = ["faas", "--runtime", runtime, "--policy", "keep-alive,template"];
    let functions = ["--function", "a=200ms/0", "--function", "b=500ms/20ms", "--duration", "1s"];
    let result = measured(bed, &[&words[..], &functions].concat());
    assert_eq!(result["failures"], json!([]), "{result:#}");
    for policy in ["keep-alive", "template"] {
        let row = row(&result["rows"], "policy", policy);
        assert_eq!((count(&row["latencies_us"]), &row["failed"]), (Some(7), &json!(0)), "{row}");
    }
    let forked = row(&result["rows"], "policy", "template");
    assert_eq!(forked["started"], 7, "{forked}");
    // Two templates for a second.
    assert!(forked["container_s"].as_f64() > Some(2.0), "{forked}");
    assert!(forked["memory_mib_s"].as_f64() > Some(2.0), "{forked}");
    nothing_left(bed);
}
