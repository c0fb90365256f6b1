//! `run`: exit codes, signals, standard streams, --detach, --keep.

use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::console::FdSocket;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::{case, wait};
use host::follow::{Event, call_name};
use rustix::process::Signal;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(exit_codes),
    case!(killed_by_signal_is_128_and_n),
    case!(stdin_reaches_the_program),
    case!(stdout_and_stderr_are_separate),
    case!(large_output_is_whole),
    case!(nothing_left_after_run),
    case!(keep),
    case!(detach),
    case!(detach_program_ends),
    case!(pid_file_of_run),
    case!(signals_are_forwarded),
    case!(default_bundle_is_the_working_directory),
    case!(relative_bundle),
    case!(missing_program),
    case!(orphans_do_not_keep_run_waiting),
    case!(preserve_fds),
    case!(preserve_fds_missing),
    case!(listen_fds),
    case!(listen_fds_of_create),
    case!(listen_fds_of_another_process),
    case!(pidfd_socket),
    case!(pidfd_socket_missing),
    case!(no_pivot),
    case!(no_new_keyring),
    case!(init_reaps_nothing_but_runs_alone),
    case!(closed_stdin),
    case!(exists_once_its_program_runs).unlike_runc(),
];

fn exit_codes(bed: &Bed) {
    for code in [0, 1, 7, 126, 127, 255] {
        bed.bundle().sh(&format!("exit {code}")).make().run().exits(code);
    }
}

fn killed_by_signal_is_128_and_n(bed: &Bed) {
    // PID 1 of a PID namespace can't kill itself with a signal, so the container uses the host's PID namespace.
    for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("USR1", 10)] {
        let c =
            bed.bundle().without_namespace("pid").sh(&format!("kill -{name} $$; sleep 5")).make();
        c.run().exits(128 + number);
    }
}

fn stdin_reaches_the_program(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/cat"]).make();
    let path = bed.dir.join("input");
    fs::write(&path, "from outside\n").expect("write input");
    let outcome = c.bundle_call("run", &[]).stdin(File::open(&path).expect("open")).run().ok();
    assert_eq!(outcome.stdout, "from outside\n");

    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("pipe");
    let c = bed.bundle().args(&["/bin/cat"]).make();
    let running = c.bundle_call("run", &[]).stdin(File::from(read)).spawn();
    File::from(write).write_all(b"through a pipe\n").expect("write");
    assert_eq!(running.wait().ok().stdout, "through a pipe\n");
}

fn stdout_and_stderr_are_separate(bed: &Bed) {
    let outcome = bed.bundle().sh("echo out; echo err >&2").make().run().ok();
    assert_eq!(outcome.stdout, "out\n");
    assert_eq!(outcome.stderr, "err\n");
}

fn large_output_is_whole(bed: &Bed) {
    let outcome = bed.bundle().sh("seq 1 200000").make().run().ok();
    assert_eq!(outcome.lines().len(), 200_000);
    assert_eq!(outcome.lines().last(), Some(&"200000"));
}

fn nothing_left_after_run(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.run().ok();
    assert!(!c.exists());
    c.run().ok();
}

fn keep(bed: &Bed) {
    let c = bed.bundle().sh("exit 4").make();
    c.run_with(&["--keep"]).exits(4);
    assert_eq!(c.status(), "stopped");
    c.run().fails("container with given ID already exists");
    c.delete().ok();
}

fn detach(bed: &Bed) {
    let c = bed.bundle().sh("echo hello; sleep 1000").make();
    let run = c.run_with(&["-d"]).ok();
    assert_eq!(c.status(), "running");
    run.wait_output("hello\n");
    c.delete_force().ok();
}

fn detach_program_ends(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.run_with(&["--detach"]).ok();
    c.wait_status("stopped");
    c.delete().ok();
}

fn pid_file_of_run(bed: &Bed) {
    let file = bed.dir.join("pid");
    let c = bed.bundle().make();
    c.run_with(&["--detach", "--pid-file", file.to_str().expect("path")]).ok();
    assert_eq!(fs::read_to_string(&file).expect("pid file"), c.pid().to_string());

    // A relative path is relative to the caller's working directory, not to the bundle.
    let c = bed.bundle().make();
    c.bundle_call("run", &["--detach", "--pid-file", "here"]).dir(&bed.dir).run().ok();
    assert_eq!(fs::read_to_string(bed.dir.join("here")).expect("pid file"), c.pid().to_string());
}

fn signals_are_forwarded(bed: &Bed) {
    let c = bed
        .bundle()
        .sh("trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.02; done")
        .make();
    let running = c.bundle_call("run", &[]).spawn();
    wait::until_true("the program to be ready", || running.stdout().contains("ready"));
    running.signal(Signal::TERM);
    let outcome = running.wait().exits(5);
    assert!(outcome.stdout.contains("got"));
    assert!(!c.exists());
}

fn default_bundle_is_the_working_directory(bed: &Bed) {
    let c = bed.bundle().sh("echo here").make();
    let outcome = bed.call(&["run", &c.id]).dir(&c.bundle).run().ok();
    assert_eq!(outcome.stdout, "here\n");
}

fn relative_bundle(bed: &Bed) {
    let c = bed.bundle().make();
    let name = c.bundle.file_name().and_then(|name| name.to_str()).expect("name");
    bed.call(&["run", "-d", "-b", name, &c.id]).dir(&bed.dir).run().ok();
    assert_eq!(c.state()["bundle"], c.bundle.to_str().expect("path"));
}

fn missing_program(bed: &Bed) {
    let c = bed.bundle().args(&["/no/such/program"]).make();
    c.run().fails("no such file or directory");
    assert!(!c.exists());
}

fn orphans_do_not_keep_run_waiting(bed: &Bed) {
    let c = bed
        .bundle()
        .without_namespace("pid")
        .sh("sleep 1000 </dev/null >/dev/null 2>&1 & exit 6")
        .make();
    c.run().exits(6);
}

fn preserve_fds(bed: &Bed) {
    let c = bed.bundle().sh("cat <&3; ls /proc/self/fd").make();
    let path = bed.dir.join("third");
    fs::write(&path, "third\n").expect("write");
    let script = format!("exec 3<{} 4</dev/null; exec \"$@\"", path.display());
    let root = bed.root();
    let bundle = c.bundle.to_string_lossy();
    let outcome = bed
        .program(
            "/bin/sh",
            &[
                "-c",
                &script,
                "sh",
                &bed.runtime().to_string_lossy(),
                "--root",
                &root.to_string_lossy(),
                "run",
                "--preserve-fds",
                "1",
                "--bundle",
                &bundle,
                &c.id,
            ],
        )
        .run()
        .ok();
    let lines = outcome.lines();
    assert_eq!(lines.first(), Some(&"third"));
    // Descriptor 3 is passed on, and the caller's descriptor 4 is not. The 4 in the output is the directory that ls
    // itself opens.
    assert_eq!(lines[1..], ["0", "1", "2", "3", "4"]);
}

fn preserve_fds_missing(bed: &Bed) {
    let c = bed.bundle().make();
    c.create_with(&["--preserve-fds", "60"]).fails("unable to stat preserved-fd");
    assert!(!c.exists());
}

fn listen_fds(bed: &Bed) {
    let c = bed.bundle().sh("echo $LISTEN_FDS $LISTEN_PID; cat <&3").make();
    let path = bed.dir.join("socket");
    fs::write(&path, "activated\n").expect("write");
    let script =
        format!("exec 3<{}; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"", path.display());
    let root = bed.root();
    let bundle = c.bundle.to_string_lossy();
    let runtime = bed.runtime().to_string_lossy();
    let outcome = bed
        .program(
            "/bin/sh",
            &[
                "-c",
                &script,
                "sh",
                &runtime,
                "--root",
                &root.to_string_lossy(),
                "run",
                "--bundle",
                &bundle,
                &c.id,
            ],
        )
        .run()
        .ok();
    assert_eq!(outcome.stdout, "1 1\nactivated\n");
}

/// Returns a call with `path` as descriptor 3, and with LISTEN_PID set to `pid`.
fn activated(c: &Container<'_>, verb: &[&str], path: &Path, pid: &str) -> Call {
    let script =
        format!("exec 3<{}; export LISTEN_FDS=1 LISTEN_PID={pid}; exec \"$@\"", path.display());
    let (runtime, root) = (c.bed.runtime().to_string_lossy(), c.bed.root());
    let (root, bundle) = (root.to_string_lossy(), c.bundle.to_string_lossy());
    let head = ["-c", &script, "sh", &runtime, "--root", &root];
    c.bed.program("/bin/sh", &[&head[..], verb, &["--bundle", &bundle, &c.id]].concat())
}

fn listen_fds_of_create(bed: &Bed) {
    let c = bed.bundle().sh("echo $LISTEN_FDS $LISTEN_PID; cat <&3; exit 3").make();
    let path = bed.dir.join("socket");
    fs::write(&path, "activated\n").expect("write");
    let created = activated(&c, &["create"], &path, "$$").run().ok();
    c.start().ok();
    created.wait_output("1 1\nactivated\n");
}

/// If LISTEN_PID names another process, the descriptors are not passed to the container.
fn listen_fds_of_another_process(bed: &Bed) {
    let c = bed.bundle().sh("echo [$LISTEN_FDS]; ls /proc/self/fd | wc -l").make();
    let path = bed.dir.join("socket");
    fs::write(&path, "activated\n").expect("write");
    let outcome = activated(&c, &["run"], &path, "1").run().ok();
    assert_eq!(outcome.stdout, "[]\n4\n");
}

fn pidfd_socket(bed: &Bed) {
    for verb in [&["create"][..], &["run", "--detach"]] {
        let socket = FdSocket::new(&bed.dir, verb[0]);
        let c = bed.bundle().make();
        let path = socket.arg();
        let flags = [&verb[1..], &["--pidfd-socket", &path]].concat();
        c.bundle_call(verb[0], &flags).run().ok();
        let (pidfd, kind) = socket.receive();
        assert_eq!(kind, "standard");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
        let line = format!("Pid:\t{}", c.pid());
        assert!(info.expect("fdinfo").lines().any(|found| found == line), "{verb:?}");
        c.delete_force().ok();
    }
}

fn pidfd_socket_missing(bed: &Bed) {
    let c = bed.bundle().make();
    c.create_with(&["--pidfd-socket", "/no/such/socket"]).fails("no such file or directory");
    c.run_with(&["--pidfd-socket", "/no/such/socket"]).fails("no such file or directory");
    assert!(!c.exists());
}

fn no_pivot(bed: &Bed) {
    let c = bed.bundle().sh("ls /; cat /proc/self/mountinfo | wc -l").make();
    c.run_with(&["--no-pivot"]).ok();
}

fn no_new_keyring(bed: &Bed) {
    let keys = |flags: &[&str]| {
        let c = bed.bundle().unset("/linux/maskedPaths").sh("cat /proc/keys; sleep 1000").make();
        let run = c.run_with(&[&["--detach"], flags].concat()).ok();
        let text = run.wait_output("\n");
        let own = format!("_ses.{}", c.id);
        // A process that exec adds later has the same session keyring, if there is one.
        let joined = c.exec(&["cat", "/proc/keys"]).ok().stdout;
        c.delete_force().ok();
        (text.contains(&own), joined.contains(&own))
    };
    assert_eq!(keys(&[]), (true, true));
    assert_eq!(keys(&["--no-new-keyring"]), (false, false));
}

fn init_reaps_nothing_but_runs_alone(bed: &Bed) {
    // The program itself is PID 1, and there is no process of the runtime beside it.
    let outcome = bed.bundle().sh("echo $$; ls -d /proc/[0-9]*").make().run().ok();
    assert_eq!(outcome.lines(), ["1", "/proc/1"]);
}

fn closed_stdin(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/cat"]).make();
    assert_eq!(c.run().ok().stdout, "");
}

/// As soon as the command knows that init has executed the program, every other command must find the container.
fn exists_once_its_program_runs(bed: &Bed) {
    let pod = bed.bundle().make().detached();
    let pid = format!("/proc/{}/ns/pid", pod.pid());
    let trace = bed.dir.join("trace").to_string_lossy().into_owned();
    let hook = json!([{ "path": "/bin/true" }]);
    for (bundle, flags) in [
        (bed.bundle(), &["--detach"][..]),
        (bed.bundle(), &["--trace", &trace]),
        (bed.bundle().set("/hooks/poststart", hook), &[]),
        (bed.bundle().join_namespace("pid", &pid), &["--detach"]),
        (mapped(bed), &["--detach"]),
    ] {
        let c = bundle.make();
        let (mut main, mut socket, mut seen) = (None, None, Vec::new());
        let outcome = c.bundle_call("run", flags).follow(&mut |pid, event| match event {
            _ if *main.get_or_insert(pid) != pid || !seen.is_empty() => {}
            Event::Entered { number, args, .. } if call_name(number) == "read" => {
                let descriptor = format!("/proc/{}/fd/{}", pid.as_raw_pid(), args[0]);
                let file = fs::read_link(descriptor).unwrap_or_default();
                socket = file.to_string_lossy().starts_with("socket:").then_some(number);
            }
            Event::Left { number, result } if socket == Some(number) && result == Ok(0) => {
                wait::until_true("the container", || c.exists());
                seen.extend([c.exec(&["true"]), c.kill("KILL")]);
            }
            _ => {}
        });
        assert!([0, 137].contains(&outcome.code()), "{flags:?}: {outcome}");
        assert_eq!(seen.len(), 2, "{flags:?}");
        for outcome in seen {
            outcome.ok();
        }
        c.delete_force().ok();
    }
}
