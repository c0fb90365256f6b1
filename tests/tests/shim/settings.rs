//! `/etc/dayfly/shim.toml`: the settings of a host.

use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Shim, creation, program};
use proto::messages::mount::Mount;
use proto::messages::options::Options;
use proto::messages::task::{CreateTaskResponse, Method};
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
        let source = bed.bundle().rootfs().display().to_string();
        let container = bed.bundle().args(&["sleep", "1000"]).make();
        let program = program(bed).expect("shim");
        let variable = settings(&container, text);
        let shim = Shim::start_by(program, &container, Options::default(), &["env", &variable]);
        let mut request = creation(&container, None);
        request.rootfs = vec![Mount {
            kind: "bind".into(),
            source,
            options: vec!["rbind".into(), "rw".into()],
            ..Mount::default()
        }];
        shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
        let task = Task { container, shim };
        assert_eq!(is_mounted(&task.container), on_host, "{text}");
        task.start("");
        task.kill(9);
        assert_eq!(task.wait(""), 137);
        task.delete("");
        assert!(!is_mounted(&task.container), "{text}");
        task.shut_down();
    }
}

/// A shim with invalid settings does not start, and leaves nothing behind.
fn invalid(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().make();
    let program = program(bed).expect("shim");
    let start = |variable: &str| {
        let (name, path) = variable.split_once('=').expect("variable");
        let mut command = Command::new(&program);
        command.args(["-namespace", "tests", "-id", &container.id, "-address", "/nowhere", "start"]);
        command.current_dir(&container.bundle).env(name, path).stdin(Stdio::null());
        let output = command.output().expect("execute the shim");
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).replace(path, "FILE")
    };
    let fails = |variable: &str, fault: &str| {
        let said = start(variable);
        assert_eq!(said.trim_end(), format!("io.containerd.dayfly.v2: {fault}"));
    };
    let unknown = settings(&container, "\nRootfs = \"host\"\n");
    fails(&unknown, "settings FILE, line 2: unknown key Rootfs (known: HostRootfs)");
    let other_type = settings(&container, "HostRootfs = 1\n");
    fails(&other_type, "settings FILE, line 1: HostRootfs must be true or false");
    chown(container.bundle.join("shim.toml"), Some(5), Some(5)).expect("chown");
    fails(&other_type, "settings FILE: belongs to user 5, not to root");
    fs::remove_file(container.bundle.join("shim.toml")).expect("remove settings");
    fails(&other_type, "read settings FILE: no such file or directory");
}
