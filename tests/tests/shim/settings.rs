//! `/etc/dayfly/shim.toml`: the settings of a host.

use super::{Task, is_missing, root_at};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Line, program};
use proto::messages::task::{Method, ShutdownRequest};
use proto::messages::time::Empty;
use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] =
    &[case!(root_filesystem_on_the_host).unlike_runc(), case!(invalid).unlike_runc()];

/// Writes the settings, and returns the variable that names them.
fn settings(container: &Container<'_>, text: &str) -> String {
    let path = container.bundle.join("shim.toml");
    fs::write(&path, text).expect("write settings");
    format!("DAYFLY_SHIM_SETTINGS={}", path.display())
}

fn is_mounted(container: &Container<'_>) -> bool {
    let place = format!(" {} ", container.bundle.join("rootfs").display());
    fs::read_to_string("/proc/self/mountinfo").expect("mountinfo").contains(&place)
}

fn root_filesystem_on_the_host(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    for (text, on_host) in [("HostRootfs = true\n", true), ("# none\n", false)] {
        let rootfs = vec![root_at(&bed.bundle().rootfs())];
        let container = bed.bundle().args(&["sleep", "1000"]).make();
        let variable = settings(&container, text);
        let task = Task::created_by(&["env", &variable], container, rootfs);
        assert_eq!(is_mounted(&task.container), on_host, "{text}");
        task.start("");
        task.kill(9);
        assert_eq!(task.wait(""), 137);
        task.delete("");
        assert!(!is_mounted(&task.container), "{text}");
        task.shut_down();
    }
}

/// A shim with invalid settings does not start, and leaves nothing behind. A shim that is already running continues.
fn invalid(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().make();
    let program = program(bed).expect("shim");
    let output = |container: &Container<'_>, variable: &str| {
        let (name, path) = variable.split_once('=').expect("variable");
        let mut command = Command::new(&program);
        command.args([
            "-namespace",
            "tests",
            "-id",
            &container.id,
            "-address",
            "/nowhere",
            "start",
        ]);
        command.current_dir(&container.bundle).env(name, path).stdin(Stdio::null());
        command.output().expect("execute the shim")
    };
    let start = |variable: &str| {
        let (_, path) = variable.split_once('=').expect("variable");
        let output = output(&container, variable);
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).replace(path, "FILE")
    };
    let fails = |variable: &str, fault: &str| {
        let said = start(variable);
        assert_eq!(said.trim_end(), format!("io.containerd.dayfly.v2: {fault}"));
    };
    let unknown = settings(&container, "\nRootfs = \"host\"\n");
    fails(&unknown, "settings FILE, line 2: unknown key Rootfs (known: HostRootfs)");
    let running = bed.bundle().make();
    let first = output(&running, &settings(&running, ""));
    assert!(first.status.success(), "{first:?}");
    let again = output(&running, &unknown);
    assert!(again.status.success() && again.stderr.is_empty(), "{again:?}");
    assert_eq!(again.stdout, first.stdout);
    let shim = Line::to(String::from_utf8_lossy(&first.stdout).trim());
    let request = ShutdownRequest { id: running.id.clone(), now: false };
    shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
    shim.wait_for_its_end();
    let other_type = settings(&container, "HostRootfs = 1\n");
    fails(&other_type, "settings FILE, line 1: HostRootfs must be true or false");
    chown(container.bundle.join("shim.toml"), Some(5), Some(5)).expect("chown");
    fails(&other_type, "settings FILE: belongs to user 5, not to root");
    fs::remove_file(container.bundle.join("shim.toml")).expect("remove settings");
    fails(&other_type, "read settings FILE: no such file or directory");
}
