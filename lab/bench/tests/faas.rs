//! Runs `faas` briefly, with real containers.

mod common;

use common::{bench, ready};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "nothing but the result is written");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn ours(dayfly: &Path) -> String {
    format!("--runtime=ours={}", dayfly.display())
}

fn row<'a>(report: &'a Value, policy: &str) -> &'a Value {
    let mut rows = report["rows"].as_array().expect("rows").iter();
    rows.find(|row| row["policy"] == policy).unwrap_or_else(|| panic!("no {policy}: {report}"))
}

/// Returns the samples of a row.
fn samples(row: &Value, key: &str) -> Vec<f64> {
    row[key].as_array().expect(key).iter().map(|us| us.as_f64().expect("a number")).collect()
}

#[test]
fn every_policy_serves_all_invocations() {
    let Some(dayfly) = ready() else { return };
    let options =
        ["--function=a=50ms/120ms", "--function=b=300ms/0", "--duration=900ms", "--pool=3"];
    let report = json(&bench(&[&["faas", &ours(&dayfly), "--json"], &options[..]].concat()));
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    for policy in ["cold", "keep-alive", "warm", "histogram"] {
        let row = row(&report, policy);
        assert_eq!(row["failed"], 0, "{row}");
        let (latencies, totals) = (samples(row, "latencies_us"), samples(row, "totals_us"));
        assert_eq!(latencies.len(), 18 + 3, "{row}");
        // An invocation's total time exceeds its latency by its duration: 120 ms for the 18 invocations of `a`.
        let long = totals.iter().zip(&latencies).filter(|(total, us)| *total - *us >= 119_000.0);
        assert_eq!(long.count(), 18, "{row}");
        assert!(latencies.iter().all(|us| *us > 0.0), "{row}");
        // Invocations of 120 ms every 50 ms need at least two containers at a time, which use memory over some time.
        assert!(row["most"].as_u64().is_some_and(|most| (2..=128).contains(&most)), "{row}");
        assert!(row["container_s"].as_f64().is_some_and(|sum| sum > 18.0 * 0.11), "{row}");
        assert!(row["memory_mib_s"].as_f64().is_some_and(|sum| sum > 0.01), "{row}");
    }
    assert_eq!(row(&report, "cold")["cold"], 21);
    // Two functions start cold; after that, kept containers serve.
    let kept = row(&report, "keep-alive")["cold"].as_u64().expect("a number");
    assert!((2..21).contains(&kept), "{kept}");
    let functions = report["functions"].as_array().expect("functions");
    let of_b = functions.iter().find(|of| of["function"] == "b" && of["policy"] == "cold");
    assert_eq!(of_b.expect("b")["latencies_us"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_trace_is_replayed_and_peers_fail_alone() {
    let Some(dayfly) = ready() else { return };
    let sample = |name: &str| {
        format!("{}/src/faas/sample/{name}.anon.sample.csv", env!("CARGO_MANIFEST_DIR"))
    };
    let trace = format!("--trace={}", sample("invocations_per_function_md"));
    let durations = format!("--durations={}", sample("function_durations_percentiles"));
    let options = [
        "--minutes=4..4",
        "--speed=60",
        "--functions=2",
        "--policy=keep-alive",
        "--runtime=broken=/bin/false",
        "--csv=-",
        "--arrivals=random",
    ];
    let runtime = ours(&dayfly);
    let words = [&["faas", &runtime, &trace, &durations], &options[..]].concat();
    let output = bench(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 1 + 120 + 43, "{text}");
    assert!(text.lines().skip(1).all(|line| line.starts_with("ours,keep-alive,")), "{text}");
    let report = json(&bench(&[&words[..], &["--json"]].concat()));
    assert_eq!(report["failures"][0]["runtime"], "broken");
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(1));
}

/// If more invocations are due at a time than containers are allowed, some are served later, and idle containers make
/// room.
#[test]
fn invocations_wait_for_room() {
    let Some(dayfly) = ready() else { return };
    let functions = ["--function=a=30ms/100ms", "--function=b=100ms/10ms", "--duration=600ms"];
    let options = ["--most=2", "--keep=5s", "--json"];
    let report = json(&bench(&[&["faas", &ours(&dayfly)], &functions[..], &options].concat()));
    for policy in ["cold", "keep-alive", "warm", "histogram"] {
        let row = row(&report, policy);
        assert_eq!((&row["failed"], &row["most"]), (&Value::from(0), &Value::from(2)), "{row}");
        assert_eq!(samples(row, "latencies_us").len(), 20 + 6, "{row}");
        // Two containers can't do 2.06 s of work within 0.6 s, so the last invocations are late.
        let latest = samples(row, "latencies_us").into_iter().fold(0.0, f64::max);
        assert!(latest > 300_000.0, "{row}");
        if policy == "keep-alive" {
            // Waiting for a kept container is not a cold start.
            assert_eq!(row["cold"], row["started"], "{row}");
        }
    }
}

/// Regular idle times are predicted: the idle container is removed, and another container is ready before the next
/// invocation.
#[test]
fn regular_functions_are_foreseen() {
    let Some(dayfly) = ready() else { return };
    let options = ["--function=300ms/1ms", "--duration=5s", "--keep=600ms", "--json"];
    let policies = "--policy=keep-alive,histogram";
    // A host that stalls for a quarter of a second makes a regular function irregular, so the test is repeated.
    let foreseen = (0..3).any(|_| {
        let report = json(&bench(&[&["faas", &ours(&dayfly), policies], &options[..]].concat()));
        let [kept, foreseen] = ["keep-alive", "histogram"].map(|policy| row(&report, policy));
        let count = |row: &Value, key: &str| row[key].as_u64().expect("a number");
        for row in [kept, foreseen] {
            assert_eq!((count(row, "failed"), samples(row, "latencies_us").len()), (0, 17));
        }
        // With keep-alive, containers are started only by cold invocations.
        assert_eq!(count(kept, "started"), count(kept, "cold"), "{kept}");
        // Predictions need ten idle times.
        count(foreseen, "started") >= count(foreseen, "cold") + 3
    });
    assert!(foreseen);
}

/// A runtime that hangs is killed with all its processes, and excluded.
#[test]
fn what_hangs_is_given_up() {
    let Some(dayfly) = ready() else { return };
    let place = std::env::temp_dir().join(format!("bench-faas-hangs-{}", std::process::id()));
    fs::create_dir(&place).expect("mkdir");
    let script = place.join("hangs");
    // Behaves like dayfly, except that --detach starts a process that hangs.
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *--detach*) sleep 4711.25 & wait;; esac\nexec {} \"$@\"\n",
        dayfly.display()
    );
    let made = fs::write(&script, text)
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
    let hangs = format!("--runtime=hangs={}", script.display());
    let words = ["faas", "--function=100ms/0", "--duration=1s", "--deadline=300ms"];
    let output = bench(&[&words[..], &["--policy=cold", &hangs]].concat());
    fs::remove_dir_all(&place).expect("remove");
    made.expect("script");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("hangs is out: cold: run: no end after 300ms, killed"), "{text}");
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    assert_eq!(lines.filter(|line| line.ends_with(b"\x004711.25\0")).count(), 0);
}

/// A container whose program exits is reported, and its runtime excluded.
#[test]
fn what_goes_wrong_in_containers_is_told() {
    let Some(dayfly) = ready() else { return };
    let place = std::env::temp_dir().join(format!("bench-faas-{}", std::process::id()));
    fs::create_dir(&place).expect("mkdir");
    let bundle = place.join("bundle");
    let mut making = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"));
    let made = making.arg("bundle").arg(&bundle).output().expect("run dayfly-bench");
    // The program that usually waits for invocations exits at once here.
    let shell = bundle.join("rootfs/bin/sh");
    let replaced = fs::remove_file(&shell)
        .and_then(|()| fs::write(&shell, "#!/bin/busybox true\n"))
        .and_then(|()| fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)));
    let words = ["faas", "--bundle", bundle.to_str().expect("path"), "--duration=300ms"];
    let output = bench(&[&words[..], &[&ours(&dayfly)]].concat());
    fs::remove_dir_all(&place).expect("remove");
    assert!(made.status.success() && replaced.is_ok(), "{made:?} {replaced:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}{errors}");
    let why = "ours is out: cold: the container's program ended by itself: Exited(0)";
    assert!(text.contains(why), "{text}{errors}");
    assert!(errors.contains("no runtime got through"), "{errors}");
}
