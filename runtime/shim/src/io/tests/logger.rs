//! Tests with shell scripts as loggers.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Returns streams whose logger is `script`. In the script, DIR is replaced by the path of the rig's directory.
fn with_logger(scheme: &str, script: &str, terminal: bool) -> (Rig, Ends) {
    let mut rig = Rig::alone();
    let path = rig.path("logger");
    let script = script.replace("DIR", rig.dir.to_str().unwrap());
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let ends = rig.open(["", &format!("{scheme}://{path}?key=a+value&flag"), ""], terminal);
    (rig, ends)
}

/// A script that copies both of its inputs, and records its arguments.
const COPIES: &str = "\
    printf '%s|' \"$@\" \"$CONTAINER_ID\" \"$CONTAINER_NAMESPACE\" > DIR/given
    ls /proc/$$/fd | sort -n | tr '\\n' ' ' > DIR/fds
    printf x >&5; exec 5>&-
    cat <&4 > DIR/stderr &
    cat <&3 > DIR/stdout
    wait";

#[test]
fn copies_both_streams() {
    for scheme in ["binary", "binary-v2"] {
        let (mut rig, ends) = with_logger(scheme, COPIES, false);
        rig.run_until(|rig| rig.streams.may_begin().unwrap());
        let data = noise(300_000);
        File::from(ends.stdout.unwrap()).write_all(&data).unwrap();
        File::from(ends.stderr.unwrap()).write_all(b"worse").unwrap();
        rig.streams.ended(&rig.poller);
        rig.streams.settle(&rig.poller);
        rig.drain();
        assert!(fs::read(rig.path("stdout")).unwrap() == data);
        assert_eq!(fs::read(rig.path("stderr")).unwrap(), b"worse");
        assert_eq!(fs::read_to_string(rig.path("given")).unwrap(), "key|a value|flag||c1|k8s.io|");
        let fds = fs::read_to_string(rig.path("fds")).unwrap();
        assert!(fds.starts_with("0 1 2 3 4 5 "), "{fds}");
        rig.run_out();
    }
}

#[test]
fn is_waited_for() {
    let (mut rig, _ends) = with_logger("binary", "read line < DIR/in; exec 5>&-; cat <&3", false);
    assert_eq!(rig.streams.may_begin(), Ok(false));
    // The logger becomes ready when it reads a line from this FIFO, which no process has opened so far.
    fs::write(rig.path("in"), "go\n").unwrap();
    rig.run_until(|rig| rig.streams.may_begin().unwrap());
}

#[test]
fn can_t_be_executed() {
    let mut rig = Rig::alone();
    let path = rig.path("missing");
    let _ends = rig.open(["", &format!("binary://{path}"), ""], false);
    rig.run_until(|rig| rig.streams.may_begin() != Ok(false));
    let error = rig.streams.may_begin().unwrap_err().to_string();
    assert!(error.contains(&path) && error.contains("execve"), "{error}");
    rig.drain();
}

#[test]
fn ends_before_it_is_ready() {
    let (mut rig, _ends) = with_logger("binary-v2", "exit 0", false);
    rig.run_until(|rig| rig.streams.may_begin() != Ok(false));
    assert!(matches!(rig.streams.may_begin(), Err(Error::Logger { .. })));
    drop(rig);
    // A logger of the scheme `binary` need not report that it is ready.
    let (mut rig, _ends) = with_logger("binary", "exit 0", false);
    rig.run_until(|rig| rig.streams.may_begin().unwrap());
}

#[test]
fn is_asked_to_end() {
    let script =
        "trap 'echo asked > DIR/asked; exit' TERM; exec 5>&-; while :; do read x < DIR/in; done";
    let (mut rig, ends) = with_logger("binary", script, false);
    rig.run_until(|rig| rig.streams.may_begin().unwrap());
    drop(ends);
    rig.streams.ended(&rig.poller);
    rig.streams.settle(&rig.poller);
    assert!(!rig.streams.is_drained());
    rig.drain();
    assert_eq!(fs::read_to_string(rig.path("asked")).unwrap(), "asked\n");
}

#[test]
fn has_a_terminal_s_output() {
    let (mut rig, ends) = with_logger("binary", COPIES, true);
    assert!(ends.stdout.is_none());
    rig.run_until(|rig| rig.streams.may_begin().unwrap());
    let (master, mut slave) = terminal::terminal();
    rig.streams.take_terminal(&rig.poller, master).unwrap();
    slave.write_all(b"typed").unwrap();
    drop(slave);
    rig.streams.ended(&rig.poller);
    rig.drain();
    assert_eq!(fs::read(rig.path("stdout")).unwrap(), b"typed");
    assert_eq!(fs::read(rig.path("stderr")).unwrap(), b"");
}

#[test]
fn of_a_terminal_may_die() {
    let (mut rig, _ends) = with_logger("binary", "exit 1", true);
    rig.run_until(|rig| rig.streams.logger.as_ref().is_some_and(Logger::has_ended));
    let (master, mut slave) = terminal::terminal();
    rig.streams.take_terminal(&rig.poller, master).unwrap();
    let data = noise(100_000);
    let mut written = 0;
    while written < data.len() {
        match slave.write(&data[written..]) {
            Ok(bytes) => written += bytes,
            Err(_) => assert!(rig.turn(&EVER)),
        }
    }
}
