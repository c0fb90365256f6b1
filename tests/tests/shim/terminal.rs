//! Terminals, whose output is copied to a client's terminal: their settings are the kernel's own, as under containerd's
//! shim with runc.

use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Pipes, Shim, creation};
use dayfly_tests::{case, leak, rootfs, wait};
use proto::messages::any::Any;
use proto::messages::specs;
use proto::messages::task::{
    CloseIORequest, CreateTaskRequest, CreateTaskResponse, ExecProcessRequest, Method,
    ShutdownRequest,
};
use proto::messages::time::Empty;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::process::Command;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(newlines_return_the_cursor).unlike_runc(),
    case!(settings_are_the_kernels).unlike_runc(),
    case!(many_execs_under_one_id).unlike_runc(),
    case!(exec_without_a_terminal_of_its_own).unlike_runc(),
    case!(create_that_contradicts_the_configuration).unlike_runc(),
    case!(one_descriptor_for_both_directions).unlike_runc(),
    case!(shell_ends_with_its_client).unlike_runc(),
];

/// Returns a task whose program has a terminal.
fn with_terminal<'a>(container: Container<'a>, pipes: &Pipes) -> Task<'a> {
    let shim = Shim::start(&container);
    let request = CreateTaskRequest {
        stdin: pipes.path("stdin"),
        stderr: String::new(),
        terminal: true,
        ..creation(&container, Some(pipes))
    };
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let task = Task { container, shim };
    task.start("");
    task
}

/// Prepares an exec: `terminal` is the call's value, and the process document has `in_document`.
fn prepare(task: &Task<'_>, script: &str, pipes: &Pipes, terminal: bool, in_document: bool) {
    let process = json!({
        "args": ["/bin/sh", "-c", script], "cwd": "/", "env": ["PATH=/bin"],
        "user": { "uid": 7, "gid": 8 }, "terminal": in_document,
    });
    let value = process.to_string().into_bytes();
    let request = ExecProcessRequest {
        id: task.id(),
        exec_id: "e".into(),
        stdin: pipes.path("stdin"),
        stdout: pipes.path("stdout"),
        terminal,
        spec: Some(Any { type_url: specs::PROCESS.into(), value }),
        ..ExecProcessRequest::default()
    };
    task.shim.call::<Empty>(Method::Exec, &request).expect("exec");
}

/// Runs a script on a terminal, as an exec; returns its output.
fn on_terminal(task: &Task<'_>, script: &str, pipes: &Pipes) -> String {
    prepare(task, script, pipes, true, true);
    run(task, pipes)
}

/// Runs the prepared exec as containerd's client does: reads the output to its end, and only then deletes the process.
fn run(task: &Task<'_>, pipes: &Pipes) -> String {
    let out = pipes.reader("stdout");
    task.start("e");
    assert_eq!(task.wait("e"), 0);
    let out = String::from_utf8(out.join().expect("stdout")).expect("UTF-8");
    task.delete("e");
    out
}

/// Opens a FIFO without waiting for the other end.
fn open(pipes: &Pipes, name: &str) -> File {
    File::options().read(true).write(true).open(pipes.path(name)).expect("open a FIFO")
}

/// Reads until the output ends with `end`.
fn read_to(mut output: File, end: &str) -> String {
    rustix::io::ioctl_fionbio(&output, true).expect("ioctl FIONBIO");
    let mut text = String::new();
    wait::until_true("the output", || {
        let mut bytes = [0; 256];
        let length = output.read(&mut bytes).unwrap_or_default();
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        text.ends_with(end)
    });
    text
}

/// A client puts its own terminal into raw mode, so the container's terminal must return the cursor.
fn newlines_return_the_cursor(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let script = "printf 'a\\nb\\n'; exec sleep 1000";
    let container = bed.bundle().set("/process/terminal", json!(true)).sh(script).make();
    let pipes = Pipes::new(&container, "init");
    let out = open(&pipes, "stdout");
    let task = with_terminal(container, &pipes);
    assert_eq!(read_to(out, "b\r\n"), "a\r\nb\r\n");
    let pipes = Pipes::new(&task.container, "exec");
    assert_eq!(on_terminal(&task, "printf 'a\\nb\\n'", &pipes), "a\r\nb\r\n");
    task.finish();
}

/// All settings are those of a new terminal. Its size is that of the configuration, if there is one. It belongs to the
/// process's user, and its group and mode are those of devpts.
fn settings_are_the_kernels(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let script = "stty -g; stty size 2>/dev/null | grep . || echo 0 0; stat -L -c '%u %g %a %t %T' /proc/self/fd/0";
    let stty = {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("open a terminal");
        unlockpt(&master).expect("unlock the terminal");
        let slave = ioctl_tiocgptpeer(&master, flags).expect("open the terminal's other end");
        let mut command = Command::new(rootfs::busybox().expect("busybox"));
        let output = command.args(["stty", "-g"]).stdin(slave).output().expect("stty");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    let bundle = bed.bundle().set("/process/terminal", json!(true));
    let bundle = bundle.set("/process/consoleSize", json!({ "height": 33, "width": 77 }));
    let bundle = bundle.set("/process/user", json!({ "uid": 5, "gid": 6 }));
    let container = bundle.sh(&format!("{script}; echo; exec sleep 1000")).make();
    let pipes = Pipes::new(&container, "init");
    let out = open(&pipes, "stdout");
    let task = with_terminal(container, &pipes);
    let text = read_to(out, "\r\n\r\n");
    let wanted = |size: &str, owner: &str| format!("{stty}\r\n{size}\r\n{owner} 5 620 88 0\r\n");
    assert_eq!(text, wanted("33 77", "5") + "\r\n");
    let pipes = Pipes::new(&task.container, "exec");
    let said = on_terminal(&task, script, &pipes);
    assert_eq!(said, wanted("0 0", "7").replace(" 88 0\r", " 88 1\r"));
    task.finish();
}

/// containerd's client asks for a terminal in the call, but not in the process document (its test
/// TestContainerExecLargeOutputWithTTY). It waits for the exit, then for the end of the output, and deletes the process
/// only then.
fn many_execs_under_one_id(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pipes = Pipes::new(&task.container, "exec");
    for round in 0..20 {
        prepare(&task, "test -t 1 && seq -s ' ' 100000", &pipes, true, false);
        // The client closes its standard input at once, because it has no input.
        drop(open(&pipes, "stdin"));
        let said = run(&task, &pipes);
        assert!(said.ends_with(" 99999 100000\r\n"), "{round}: {} bytes", said.len());
    }
    task.finish();
}

/// As with a terminal: the call decides.
fn exec_without_a_terminal_of_its_own(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pipes = Pipes::new(&task.container, "exec");
    prepare(&task, "test -t 1 || echo none", &pipes, false, true);
    assert_eq!(run(&task, &pipes), "none\n");
    task.finish();
}

/// Create does not change the bundle's configuration. As under containerd's shim, the runtime refuses a terminal that
/// nobody receives, and a receiver of no terminal: a client would wait for the end of its output forever.
fn create_that_contradicts_the_configuration(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let refusals =
        [(false, "cannot use console socket"), (true, "detach without setting console socket")];
    for (configured, text) in refusals {
        let bundle = bed.bundle().set("/process/terminal", json!(configured));
        let container = bundle.args(&["true"]).make();
        let pipes = Pipes::new(&container, "init");
        let shim = Shim::start(&container);
        let request = CreateTaskRequest {
            stderr: String::new(),
            terminal: !configured,
            ..creation(&container, Some(&pipes))
        };
        let refused = shim.call::<CreateTaskResponse>(Method::Create, &request).unwrap_err();
        assert!(refused.message.contains(text), "{refused}");
        let request = ShutdownRequest { id: container.id.clone(), now: false };
        shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
        shim.wait_for_its_end();
    }
}

/// If the connection of `kubectl exec -it` breaks, the CRI closes the FIFO and calls CloseIO: the terminal hangs up
/// (k3s #13749, Kubernetes #89031).
fn shell_ends_with_its_client(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pipes = Pipes::new(&task.container, "exec");
    prepare(&task, "echo ready; while :; do sleep 1000; done", &pipes, true, true);
    let out = open(&pipes, "stdout");
    task.start("e");
    let client = open(&pipes, "stdin");
    read_to(out, "ready\r\n");
    drop(client);
    let request = CloseIORequest { id: task.id(), exec_id: "e".into(), stdin: true };
    task.shim.call::<Empty>(Method::CloseIO, &request).expect("close");
    assert_eq!(task.wait("e"), 129);
    task.delete("e");
    task.finish();
}

/// containerd's test TestContainerTTYLeakAfterExit counts the descriptors of a shim's terminals.
fn one_descriptor_for_both_directions(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let bundle = bed.bundle().set("/process/terminal", json!(true));
    let container = bundle.args(&["sleep", "1000"]).make();
    let pipes = Pipes::new(&container, "init");
    let task = with_terminal(container, &pipes);
    let pid = task.shim.pid() as i32;
    let open = || leak::descriptors(pid).iter().filter(|link| link.contains("ptmx")).count();
    assert_eq!(open(), 1, "{:?}", leak::descriptors(pid));
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    wait::until_true("the terminal to be closed", || open() == 0);
    task.finish();
}
