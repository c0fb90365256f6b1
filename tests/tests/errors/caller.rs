//! Unusual callers: the signals they ignore, the cgroups they are in, the files they leave behind.

use dayfly_tests::bed::Bed;
use dayfly_tests::console::FdSocket;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::view::View;
use dayfly_tests::{case, cgroups};
use serde_json::json;
use std::fs::{self, File};
use std::io::{IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(children_are_ignored),
    case!(cgroup_was_killed).on(&[View::V2]).unlike_runc(),
    case!(cgroup_was_killed_beside_sockets).on(&[View::V2]).unlike_runc(),
    case!(link_beside_the_pid_file),
    case!(leftover_beside_the_pid_file).unlike_runc(),
    case!(pid_file_that_the_caller_has).unlike_runc(),
    case!(pid_file_that_is_no_file).unlike_runc(),
];

/// Returns a call of the runtime by way of another program: `through` is the command line that executes the runtime.
pub fn through<'a>(c: &Container<'a>, through: &[&str], verb: &str, words: &[&str]) -> Call {
    let (root, bundle) = (c.bed.root(), c.bundle.to_string_lossy());
    let (root, runtime) = (root.to_string_lossy(), c.bed.runtime().to_string_lossy());
    let command = [through, &[&runtime, "--root", &root, verb], words].concat();
    let command = match verb {
        "create" | "run" => [&command[..], &["--bundle", &bundle, &c.id]].concat(),
        _ => command,
    };
    c.bed.program("/usr/bin/env", &command)
}

/// If a process ignores SIGCHLD, the kernel reaps its children and reports no exit status.
fn children_are_ignored(bed: &Bed) {
    let ignoring = ["--ignore-signal=CHLD"];
    let hook = json!([{ "path": "/bin/sh", "args": ["sh", "-c", "exit 0"] }]);
    let hooks = ["prestart", "createRuntime", "poststart", "poststop"];
    let hooks: serde_json::Map<_, _> =
        hooks.iter().map(|kind| ((*kind).to_owned(), hook.clone())).collect();
    for bundle in [bed.bundle(), bed.bundle().set("/hooks", json!(hooks))] {
        let c = bundle.sh("exit 7").make();
        through(&c, &ignoring, "run", &[]).run().exits(7);
        c.assert_gone("run");
        through(&c, &ignoring, "create", &[]).run().ok();
        through(&c, &ignoring, "start", &[&c.id]).run().ok();
        c.wait_status("stopped");
        through(&c, &ignoring, "delete", &[&c.id]).run().ok();
    }
    let c = bed.bundle().make().detached();
    through(&c, &ignoring, "exec", &[&c.id, "sh", "-c", "exit 8"]).run().exits(8);
    // With --detach, the command does not wait for the process, which may exit before its pid is known.
    for _ in 0..20 {
        let outcome =
            through(&c, &ignoring, "exec", &["--detach", &c.id, "/no/such/program"]).run();
        assert_eq!(outcome.code(), 255, "{outcome}");
        assert!(outcome.stderr.contains("no such file or directory"), "{outcome}");
    }
    through(&c, &ignoring, "delete", &["--force", &c.id]).run().ok();
}

/// A supervisor has killed all processes of its cgroup through cgroup.kill, and the command runs in that cgroup. Linux
/// 6.14 and newer then kill children that are cloned from there into another cgroup.
fn cgroup_was_killed(bed: &Bed) {
    let own = killed_cgroup(bed);
    let inside = inside(&own);
    let c = bed.bundle().sh("exit 7").make();
    through(&c, &inside, "run", &[]).run().exits(7);
    c.assert_gone("run");
    let c = bed.bundle().make();
    let pid_file = bed.dir.join("pid");
    let pid_path = pid_file.to_str().expect("path");
    through(&c, &inside, "create", &["--pid-file", pid_path]).run().ok();
    assert_eq!(fs::read_to_string(&pid_file).expect("pid file"), c.pid().to_string());
    let place = cgroups::dir(bed.view, "", &cgroups::path_of(&c.id));
    let processes = fs::read_to_string(place.join("cgroup.procs")).expect("processes");
    assert_eq!(processes.trim(), c.pid().to_string());
    c.start().ok();
    through(&c, &inside, "exec", &[&c.id, "sh", "-c", "exit 8"]).run().exits(8);
    through(&c, &inside, "delete", &["--force", &c.id]).run().ok();
    // SIGCHLD must be ignored last, because shells reset it even if it was ignored.
    let ignoring = [&inside[..], &["env", "--ignore-signal=CHLD"]].concat();
    for through_what in [&inside[..], &ignoring] {
        through(&c, through_what, "run", &["--detach"]).run().ok();
        assert_eq!(c.status(), "running");
        c.delete_force().ok();
    }
    fs::remove_dir(&own).expect("remove");
}

/// Like conmon, the receiver accepts only one connection, and only one descriptor on this
/// connection.
fn cgroup_was_killed_beside_sockets(bed: &Bed) {
    let own = killed_cgroup(bed);
    let inside = inside(&own);
    let bundle = || bed.bundle().set("/process/terminal", json!(true));
    for verb in ["create", "run"] {
        let c = bundle().make();
        let (console, pidfd) = (FdSocket::new(&bed.dir, verb), FdSocket::new(&bed.dir, "pidfd"));
        let console_flags = ["--console-socket", &console.arg()];
        let detach: &[&str] = if verb == "run" { &["--detach"] } else { &[] };
        through(&c, &inside, verb, &[detach, &console_flags].concat()).run().ok();
        assert!(console.receive().0.is_terminal(), "{verb}");
        c.delete_force().ok();
        let c = bed.bundle().make();
        let pidfd_flags = ["--pidfd-socket", &pidfd.arg()];
        through(&c, &inside, verb, &[detach, &pidfd_flags].concat()).run().ok();
        let (fd, _) = pidfd.receive();
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
        let info = info.expect("fdinfo");
        assert!(info.contains(&format!("\nPid:\t{}\n", c.pid())), "{verb}: {info}");
        c.delete_force().ok();
        fs::remove_file(pidfd.arg()).expect("remove");
    }
    let c = bed.bundle().make().detached();
    let console = FdSocket::new(&bed.dir, "exec");
    let flags = ["--detach", "--tty", "--console-socket", &console.arg(), &c.id, "true"];
    through(&c, &inside, "exec", &flags).run().ok();
    assert!(console.receive().0.is_terminal());
    c.delete_force().ok();
    fs::remove_dir(&own).expect("remove");
}

/// Makes a cgroup and writes to its cgroup.kill.
fn killed_cgroup(bed: &Bed) -> PathBuf {
    let own = cgroups::dir(bed.view, "", &cgroups::path_of(&bed.id()));
    fs::create_dir_all(&own).expect("make");
    fs::write(own.join("cgroup.kill"), "1").expect("kill");
    own
}

/// Returns the command line that runs a command in the cgroup.
fn inside(own: &Path) -> [&str; 4] {
    let path = own.to_str().expect("path");
    ["sh", "-c", "echo 0 >\"$0/cgroup.procs\" && exec \"$@\"", path]
}

/// The temporary file for the pid file is always a new file; an existing file of that name is never reused.
fn link_beside_the_pid_file(bed: &Bed) {
    let precious = bed.dir.join("precious");
    fs::write(&precious, "precious").expect("write");
    symlink(&precious, bed.dir.join(".pid")).expect("link");
    let c = bed.bundle().make();
    let pid_file = bed.dir.join("pid");
    let _ = c.create_with(&["--pid-file", pid_file.to_str().expect("path")]);
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious");
}

/// A killed command may leave its temporary file behind.
fn leftover_beside_the_pid_file(bed: &Bed) {
    fs::write(bed.dir.join(".pid"), "12345678").expect("write");
    let c = bed.bundle().make();
    let pid_file = bed.dir.join("pid");
    c.create_with(&["--pid-file", pid_file.to_str().expect("path")]).ok();
    assert_eq!(fs::read_to_string(&pid_file).expect("read"), c.pid().to_string());
    assert!(!bed.dir.join(".pid").exists());
}

/// A failed command removes the pid file that it has written, but keeps a pid file that existed before.
fn pid_file_that_the_caller_has(bed: &Bed) {
    let pid_file = bed.dir.join("pid");
    let path = pid_file.to_str().expect("path");
    let kept = || assert_eq!(fs::read_to_string(&pid_file).expect("read"), "1234");
    fs::write(&pid_file, "1234").expect("write");
    // Fails before the process exists.
    let c = bed.bundle().set("/root/path", json!("nowhere")).make();
    let _ = c.create_with(&["--pid-file", path]).exits(1);
    kept();
    // Fails after the pid file was written.
    let c = bed.bundle().args(&["/no/such"]).make();
    let _ = c.run_with(&["--pid-file", path]).exits(1);
    assert!(!pid_file.exists());
    let c = bed.bundle().make().detached();
    fs::write(&pid_file, "1234").expect("write");
    let _ = c.exec_with(&["-u", "nobody", "--pid-file", path], &["true"]).exits(255);
    kept();
    let _ = c.exec_with(&["-d", "--pid-file", path], &["/no/such"]).exits(255);
    assert!(!pid_file.exists());
}

/// A special file is not replaced, whether the command succeeds or fails.
fn pid_file_that_is_no_file(bed: &Bed) {
    let path = |name: &str| bed.dir.join(name).to_string_lossy().into_owned();
    bed.program("mkfifo", &[&path("fifo")]).run().ok();
    bed.program("mknod", &[&*path("null"), "c", "1", "3"]).run().ok();
    let fails = bed.bundle().args(&["/no/such"]).make();
    let none = bed.bundle().set("/root/path", json!("nowhere")).make();
    for name in ["fifo", "null"] {
        let kind = || fs::symlink_metadata(path(name)).expect("stat").file_type();
        let before = kind();
        for c in [&fails, &none] {
            let _ = c.run_with(&["--pid-file", &path(name)]).exits(1);
            c.assert_gone(name);
            assert_eq!(kind(), before, "{name}");
        }
    }
    let c = bed.bundle().make();
    c.create_with(&["--pid-file", &path("null")]).ok();
    c.delete_force().ok();
    // The FIFO is opened for reading and writing, so that open(2) does not block.
    let mut reader = File::options().read(true).write(true).open(path("fifo")).expect("open");
    c.create_with(&["--pid-file", &path("fifo")]).ok();
    let mut bytes = [0; 16];
    let length = reader.read(&mut bytes).expect("read");
    assert_eq!(str::from_utf8(&bytes[..length]), Ok(&*c.pid().to_string()));
    assert!(!bed.dir.join(".fifo").exists() && !bed.dir.join(".null").exists());
}
