//! Runs `first-use`, `memory`, `density` and `bulk` briefly, with real containers.

mod common;

use common::{bench, ready};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "nothing but the result is written");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn rows<'a>(report: &'a Value, key: &str, value: &str) -> Vec<&'a Value> {
    let rows = report["rows"].as_array().expect("rows").iter();
    rows.filter(|row| row[key] == value).collect()
}

/// Returns the option that selects the program `dayfly` as the runtime, under the name `ours`.
fn runtime(dayfly: &Path) -> String {
    format!("--runtime=ours={}", dayfly.display())
}

#[test]
fn first_use_meets_no_cache_and_the_next_does() {
    let Some(dayfly) = ready() else { return };
    let host = Path::new("/run/dayfly-cache/seccomp");
    let names = || -> BTreeSet<PathBuf> {
        host.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let before = names();
    let arguments = ["--rounds=6", "--warm-up=1", "--pause=0", "--format=json"];
    let second = format!("--runtime=broken={}", "/bin/false");
    let report =
        json(&bench(&[&["first-use", &runtime(&dayfly), &second], &arguments[..]].concat()));
    // Eight profiles were used; concurrent tests that start containers use one or two.
    let new = names().difference(&before).count();
    assert!(new < 8, "the host's cache is left alone, but has {new} more");
    for step in ["run, profile never seen", "run, profile seen once"] {
        let rows = rows(&report, "step", step);
        assert_eq!(rows.len(), 1, "{report}");
        assert_eq!(rows[0]["rounds_us"].as_array().map(Vec::len), Some(6));
        assert!(rows[0]["cpu_us"].as_f64().is_some_and(|us| us > 100.0), "{report}");
    }
    assert_eq!(report["kept"][0]["place"], "/run/dayfly-cache/seccomp");
    assert!(report["costs"][0]["ratio"]["value"].as_f64().is_some());
    assert_eq!(report["failures"][0]["runtime"], "broken");
    let without = bench(&["first-use", "--profile=plain", &runtime(&dayfly)]);
    assert!(String::from_utf8_lossy(&without.stderr).contains("no seccomp profile"));
}

#[test]
fn memory_has_its_figures() {
    let Some(dayfly) = ready() else { return };
    let options = ["--rounds=2", "--operation=run", "--tries=1", "--precision=256"];
    let runtime = runtime(&dayfly);
    let arguments = [&["memory", "--format=json", &runtime], &options[..]].concat();
    let report = json(&bench(&arguments));
    let value = |report: &Value, figure: &str| {
        let rows = rows(report, "figure", figure);
        assert_eq!(rows.len(), 1, "{figure}: {report}");
        rows[0]["rounds"][1].as_f64().expect("a number")
    };
    assert!(value(&report, "peak of run") > 300.0);
    assert!(value(&report, "idle: processes beside the container's") < 1.0);
    assert!(value(&report, "idle: files of state") > 0.0);
    // On some hosts this view has no memory controller, because v1 has it; the report says so.
    if report["missing"] != "" {
        assert!(
            report["missing"].as_str().is_some_and(|text| text.contains("no controller memory"))
        );
        if !Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists() {
            return;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"));
        command.args(arguments).args(["--figure=limit"]);
        let report = json(&command.stdin(Stdio::null()).output().expect("run dayfly-bench"));
        assert_eq!(report["missing"], "");
        assert!(value(&report, "smallest limit that starts") < 65_536.0);
    } else {
        assert!(value(&report, "smallest limit that starts") < 65_536.0);
    }
}

/// Returns the JSON of `density` with these options.
fn density(dayfly: &Path, options: &[&str]) -> Value {
    json(&bench(&[&["density", "--json", "--rounds=12", &runtime(dayfly)], options].concat()))
}

#[test]
fn density_shows_what_an_idle_container_holds() {
    let Some(dayfly) = ready() else { return };
    let report = density(&dayfly, &["--count=2,60", "--host-network=3", "--runtime=/bin/false"]);
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(1), "the other runtime");
    assert_eq!(report["ends"], Value::Array(Vec::new()));
    let rows = rows(&report, "runtime", "ours");
    let counts: Vec<_> = rows.iter().map(|row| row["count"].as_u64().expect("count")).collect();
    assert_eq!(counts, [2, 60, 3]);
    for (row, networks) in rows.iter().zip([1.0, 1.0, 0.0]) {
        assert_eq!(row["wall_ms"].as_array().map(Vec::len), Some(12));
        let share = &row["share"];
        let number = |name: &str| share[name].as_f64().expect("number");
        assert_eq!(
            (number("processes beside"), number("network namespaces")),
            (0.0, networks),
            "{share}"
        );
        assert!(
            number("PSS") > 0.0 && number("PSS") < 100.0 && number("cgroups") >= 1.0,
            "{share}"
        );
        assert!(row["weight"]["system_calls"].as_f64().is_some_and(|calls| calls > 100.0));
    }
    assert_eq!(rows[1]["share"]["mounts outside"], 0.0, "mounts in the host's table");
    let stack = rows[1]["share"]["stacks"].as_f64().expect("number");
    assert!(stack > 1.0, "{report}");
    assert_eq!(rows[0]["share"]["kernel"], Value::Null, "too few");
    let growth = &report["growth"];
    assert_eq!((growth[0]["base"].as_u64(), growth[0]["count"].as_u64()), (Some(2), Some(60)));
    assert!(growth[0]["wall"]["value"].as_f64().is_some() && growth[1].is_null(), "{growth}");
}

#[test]
fn density_ends_before_memory_does() {
    let Some(dayfly) = ready() else { return };
    // With a quarter of a MiB for each container, a thousand would need more than is left.
    let free = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let free = free.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = free.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let leave = format!("--leave={}k", free.expect("a number") - (16 << 10));
    let report = density(&dayfly, &["--count=1,5000", "--host-network=0", &leave]);
    let end = report["ends"][0].as_str().expect("an end");
    assert!(end.starts_with("own network: ours ends at "), "{end}");
    assert!(end.contains(" MiB of memory are available, less than "), "{end}");
}

#[test]
fn bulk_starts_what_was_created() {
    let Some(dayfly) = ready() else { return };
    let options = ["--count=5", "--width=1,3", "--rounds=2", "--format=csv"];
    let output = bench(&[&["bulk", &runtime(&dayfly)], &options[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let rounds = |figure: &str| {
        let start = format!("{figure},s,ours,");
        text.lines().filter(|line| line.starts_with(&start)).count()
    };
    assert_eq!(text.lines().next(), Some("figure,unit,entrant,round,value"));
    assert_eq!(["1", "3"].map(|width| rounds(&format!("{width} at a time: start all"))), [2, 2]);
    let options = ["--count=5", "--width=2", "--rounds=1", "--json"];
    let report = json(&bench(&[&["bulk", &runtime(&dayfly)], &options[..]].concat()));
    assert_eq!(report["rows"][0]["starts_us"][0].as_array().map(Vec::len), Some(5));
    // Either the limits work, or the error gives the reason why they do not.
    let limited =
        bench(&["bulk", &runtime(&dayfly), "--count=2", "--rounds=1", "--width=1", "--limits"]);
    let errors = String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success() || errors.contains("no controller "), "{errors}");
}
