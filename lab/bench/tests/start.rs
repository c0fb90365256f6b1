//! Tests the program: a short race with a runtime that works, one that fails and one that hangs.

mod common;

use common::{bench, ready};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the directories and cgroups that a run has left behind.
fn leftovers(pid: u32) -> Vec<PathBuf> {
    let name = format!("dayfly-bench-{pid}");
    let tops = ["/tmp", "/run", "/dev/shm", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    tops.iter().map(|top| Path::new(top).join(&name)).filter(|path| path.exists()).collect()
}

#[test]
fn those_who_fail_or_hang_are_left_out_and_the_rest_goes_on() {
    let Some(dayfly) = ready() else { return };
    let directory = std::env::temp_dir().join(format!("bench-test-{}", std::process::id()));
    fs::create_dir(&directory).expect("make directory");
    let hanging = directory.join("hanging");
    fs::write(&hanging, "#!/bin/sh\n[ \"$1\" = --version ] || sleep 100\n").expect("write script");
    fs::set_permissions(&hanging, fs::Permissions::from_mode(0o755)).expect("chmod");

    let child = bench(&[
        "start",
        &format!("--runtime=ours={}", dayfly.display()),
        "--runtime=broken=/bin/false",
        &format!("--runtime={}", hanging.display()),
        "--profile=plain",
        "--rounds=3",
        "--warm-up=1",
        "--pause=0",
        "--deadline=500ms",
        "--json",
    ]);
    fs::remove_dir_all(&directory).expect("remove directory");
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{errors}");
    assert_eq!(errors, "", "nothing but the result is written");

    let report: Value = serde_json::from_slice(&child.stdout).expect("JSON");
    let out: Vec<&str> = report["failures"]
        .as_array()
        .expect("failures")
        .iter()
        .filter_map(|out| out["runtime"].as_str())
        .collect();
    assert_eq!(out, ["broken", "hanging"]);
    assert!(report["failures"][1]["reason"].as_str().expect("reason").contains("no end after"));
    let rows = report["rows"].as_array().expect("rows");
    let steps: Vec<&str> = rows.iter().filter_map(|row| row["step"].as_str()).collect();
    assert_eq!(
        steps,
        ["run", "create", "start", "exit", "delete", "create+start+exit+delete", "kill", "exec"]
    );
    for row in rows {
        assert_eq!(row["runtime"], "ours");
        assert_eq!(row["rounds_us"].as_array().expect("rounds").len(), 3);
        assert!(row["wall_us"]["median"].as_f64().expect("median") > 0.0);
    }
}

/// Starts a long experiment, and interrupts it once it has begun.
fn interrupt(dayfly: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"));
    command.args(arguments).arg("--profile=seccomp");
    command.arg(format!("--runtime={}", dayfly.display()));
    if Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists() {
        command.args(["--view", "v2"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("run dayfly-bench");
    let pid = child.id();
    while leftovers(pid).is_empty() && child.try_wait().expect("wait").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let handle = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(handle, rustix::process::Signal::TERM).expect("signal");
    assert!(!child.wait().expect("wait").success(), "{arguments:?}");
    assert_eq!(leftovers(pid), Vec::<PathBuf>::new(), "{arguments:?}");
}

#[test]
fn nothing_stays_after_an_interrupt() {
    let Some(dayfly) = ready() else { return };
    for experiment in [
        ["start", "--rounds=100000", "--pause=0", "--operation=exec"].as_slice(),
        &["first-use", "--rounds=100000", "--pause=0"],
        &["memory", "--rounds=100000", "--figure=idle"],
        &["staircase", "--rounds=100000", "--pause=0"],
        &["density", "--count=1,100000"],
        &["bulk", "--rounds=100000", "--count=30", "--width=4"],
    ] {
        interrupt(&dayfly, experiment);
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(" /run/dayfly-cache tmpfs "), "{mounts}");
    assert!(!mounts.lines().any(|line| line.contains(" /run/dayfly-cache rw,nosuid,nodev,noexec")));
}

#[test]
fn a_bundle_is_written() {
    if !rustix::process::geteuid().is_root() || !Path::new("/bin/busybox").exists() {
        eprintln!("skipped: needs root and busybox");
        return;
    }
    let directory = std::env::temp_dir().join(format!("bench-bundle-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"))
        .args(["bundle", "--profile", "plain"])
        .arg(&directory)
        .output()
        .expect("run dayfly-bench");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(directory.join("config.json")).expect("config.json");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(config["root"]["path"], "rootfs");
    assert!(directory.join("rootfs/bin/true").exists());
    fs::remove_dir_all(&directory).expect("remove bundle");
}

#[test]
fn errors_of_the_system_have_the_words_of_the_runtime() {
    let output = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"))
        .args(["report", "--from", "/proc/none"])
        .output()
        .expect("run dayfly-bench");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "error: read /proc/none: no such file or directory\n");
}

#[test]
fn namespaces_are_made_in_a_row() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"))
        .args(["unshare", "--count", "20", "--rounds", "3", "--json"])
        .output()
        .expect("run dayfly-bench");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &report["rows"][0];
    assert_eq!((row["kind"].as_str(), row["count"].as_u64()), (Some("ipc"), Some(20)));
    for figure in ["wall_s", "cpu_s"] {
        let times = row[figure].as_array().expect("samples");
        assert!(times.len() == 3 && times.iter().all(|time| time.as_f64() > Some(0.0)), "{row}");
    }
}
