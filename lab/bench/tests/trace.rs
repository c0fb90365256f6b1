//! Runs `trace` and `trace-overhead` with real containers.

mod common;

use common::{bench, ready};
use serde_json::Value;

fn sum(parts: &Value, figure: impl Fn(&Value) -> f64) -> f64 {
    parts.as_array().expect("an array").iter().map(figure).sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Asserts that the parts of a command's time add up to the whole.
fn adds_up(command: &Value) {
    let mean = |part: &Value| number(&part["time_us"]["mean"]);
    let time = sum(&command["phases"], mean) + mean(&command["between"]) + mean(&command["waits"]);
    let all = number(&command["processes_us"]["mean"]);
    assert!((time - all).abs() < all * 1e-6, "{time} of {all}: {command:#}");
    let on_path = |part: &Value| number(&part["path_us"]);
    let path = sum(&command["phases"], on_path)
        + on_path(&command["between"])
        + on_path(&command["waits"]);
    let wall = number(&command["wall_us"]["mean"]);
    assert!((path - wall).abs() < wall * 1e-6, "{path} of {wall}: {command:#}");
}

fn calls(command: &Value, phase: &str) -> f64 {
    let phases = command["phases"].as_array().expect("phases");
    let part = phases.iter().find(|part| part["name"] == phase).expect("phase");
    number(&part["calls"])
}

#[test]
fn a_runtime_is_followed_and_one_that_fails_is_left_out() {
    let Some(dayfly) = ready() else { return };
    let child = bench(&[
        "trace",
        "--profile=seccomp",
        "--no-device-rules",
        &format!("--runtime=ours={}", dayfly.display()),
        "--runtime=broken=/bin/false",
        "--outside",
        "--operation=run,lifecycle",
        "-n2",
        "--warm-up=0",
        "--interval=0",
        "--json",
    ]);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{errors}");
    assert_eq!(errors, "", "nothing but the result is written");
    let report: Value = serde_json::from_slice(&child.stdout).expect("JSON");
    assert_eq!(report["failures"][0]["runtime"], "broken (followed)");
    let commands = report["commands"].as_array().expect("commands");
    let names: Vec<&str> = commands.iter().filter_map(|one| one["command"].as_str()).collect();
    assert_eq!(names, ["run", "create", "start", "delete"]);
    for command in commands {
        adds_up(command);
        assert!(number(&command["times"]) > 0.0);
    }
    let run = &commands[0];
    for phase in ["security", "mounts", "platform", "cgroups", "bootstrap", "shutdown"] {
        assert!(calls(run, phase) > 1.0, "{phase}: {run:#}");
    }
    assert_eq!(calls(run, "program"), 1.0);
    assert!(number(&report["calibration"]["call_us"]) > 0.0);
}

#[test]
fn one_start_is_written_as_a_file() {
    let Some(dayfly) = ready() else { return };
    let file = std::env::temp_dir().join(format!("bench-trace-{}.json", std::process::id()));
    let child = bench(&[
        "trace",
        "--profile=plain",
        &format!("--runtime={}", dayfly.display()),
        "--outside",
        "-n1",
        "--warm-up=0",
        "--format=chrome",
        "-o",
        file.to_str().expect("UTF-8"),
    ]);
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(child.stdout.is_empty());
    let trace: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let named = |name: &str| events.iter().any(|event| event["name"] == name);
    assert!(named("clone3") && named("execveat") | named("execve") && named("program"));
    std::fs::remove_file(&file).expect("remove");
}

#[test]
fn dayfly_tells_by_itself() {
    let Some(dayfly) = ready() else { return };
    let runtime = format!("--runtime={}", dayfly.display());
    let child = bench(&[
        "trace",
        "--profile=plain",
        &runtime,
        "--operation=run,lifecycle,exec,kill",
        "-n3",
        "--warm-up=1",
        "--interval=0",
        "--format=json",
    ]);
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let report: Value = serde_json::from_slice(&child.stdout).expect("JSON");
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    let commands = report["commands"].as_array().expect("commands");
    let names: Vec<&str> = commands.iter().filter_map(|one| one["command"].as_str()).collect();
    assert_eq!(names, ["run", "create", "start", "delete", "exec", "kill"]);
    for command in commands {
        adds_up(command);
        assert_eq!(command["outside"], Value::Null);
        // Only the caller can measure these steps: the spawn, and the exit of the process.
        let steps = command["slowest"].as_array().expect("steps");
        assert!(steps.iter().any(|step| step["name"] == "exit"), "{command:#}");
    }
    assert!(calls(&commands[0], "mounts") > 5.0 && calls(&commands[0], "shutdown") > 1.0);
}

#[test]
fn what_tracing_costs_is_told() {
    let Some(dayfly) = ready() else { return };
    let child = bench(&[
        "trace-overhead",
        "--profile=plain",
        &format!("--runtime={}", dayfly.display()),
        "--rounds=6",
        "--warm-up=0",
        "--pause=0",
        "--json",
    ]);
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let report: Value = serde_json::from_slice(&child.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "three ways, measured two ways: {report:#}");
    for row in rows {
        assert_eq!(row["rounds_us"].as_array().expect("rounds").len(), 6);
        assert_eq!(row["ratio"].is_null(), row["runtime"] == "untraced");
    }
}
