//! Tests of a program on a terminal.

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};

use super::*;

/// Returns streams with a terminal, and the program's side of it, which is in raw mode and non-blocking.
fn with_terminal(stdout: &str) -> (Rig, File) {
    let mut rig = Rig::new();
    let (stdin, stdout) = (rig.path("in"), stdout.replace("DIR", rig.dir.to_str().unwrap()));
    let ends = rig.open([&stdin, &stdout, ""], true);
    assert!(ends.stdin.is_none() && ends.stdout.is_none() && ends.stderr.is_none());
    assert!(!rig.streams.is_drained());
    let (master, slave) = terminal();
    rig.streams.take_terminal(&rig.poller, master).unwrap();
    (rig, slave)
}

pub(super) fn terminal() -> (OwnedFd, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut modes = tcgetattr(&slave).unwrap();
    modes.make_raw();
    tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();
    (master, impatient(Some(slave)))
}

#[test]
fn both_ways() {
    let (mut rig, mut slave) = with_terminal("DIR/out");
    let (out, mut client) = (reader(rig.path("out")), writer(rig.path("in")));
    slave.write_all(b"prompt> ").unwrap();
    let mut seen = Vec::new();
    rig.run_until(|_| {
        seen.extend(read_now(&out).0);
        seen == b"prompt> "
    });
    client.write_all(b"ls\n").unwrap();
    let mut seen = Vec::new();
    rig.run_until(|_| {
        seen.extend(read_now(&slave).0);
        seen == b"ls\n"
    });
    // When a client exits, the terminal does not hang up.
    drop(client);
    rig.run_out();
    slave.write_all(b"bye").unwrap();
    drop(slave);
    rig.streams.ended(&rig.poller);
    rig.drain();
    assert_eq!(read_now(&out), (b"bye".to_vec(), true));
    rig.run_out();
}

#[test]
fn size() {
    let (rig, slave) = with_terminal("");
    rig.streams.resize(132, 50).unwrap();
    let size = tcgetwinsize(&slave.0).unwrap();
    assert_eq!((size.ws_col, size.ws_row), (132, 50));
    drop(rig);
    let (rig, _ends) = Rig::with_fifos();
    rig.streams.resize(1, 1).unwrap();
}

#[test]
fn output_nobody_reads_stops_the_program() {
    let (mut rig, mut slave) = with_terminal("DIR/out");
    let data = noise(1 << 20);
    let written = rig.fill_terminal(1, &mut slave, &data);
    assert!(written < 200_000, "{written}");
    assert!(rig.events < 1000, "{}", rig.events);
    // The process exits. A child of it keeps the terminal open, and data that was already written arrives.
    rig.streams.ended(&rig.poller);
    rig.run_out();
    assert!(!rig.streams.is_drained());
    let out = reader(rig.path("out"));
    let seen = rig.read_all(&out);
    assert!(seen == data[..written], "{} of {written}", seen.len());
    assert!(rig.streams.is_drained());
}

#[test]
fn input_nobody_reads_waits() {
    let (mut rig, slave) = with_terminal("");
    let mut client = writer(rig.path("in"));
    let data = noise(1 << 20);
    let written = rig.fill_terminal(0, &mut client, &data);
    assert!(rig.events < 1000, "{}", rig.events);
    let mut seen = Vec::new();
    rig.run_until(|_| {
        seen.extend(read_now(&slave).0);
        seen.len() == written
    });
    assert!(seen == data[..written]);
}

#[test]
fn a_terminal_may_be_closed_and_opened_again() {
    let mut rig = Rig::new();
    let out = rig.path("out");
    rig.open(["", &out, ""], true);
    let (master, slave) = terminal();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let spare = rustix::io::fcntl_dupfd_cloexec(&master, 3).unwrap();
    rig.streams.take_terminal(&rig.poller, master).unwrap();
    drop(slave);
    rig.run_out();
    assert!(!rig.streams.is_drained());
    let out = reader(out);
    for word in ["one", "two"] {
        File::from(ioctl_tiocgptpeer(&spare, flags).unwrap()).write_all(word.as_bytes()).unwrap();
        let mut seen = Vec::new();
        rig.run_until(|_| {
            seen.extend(read_now(&out).0);
            seen == word.as_bytes()
        });
        rig.run_out();
    }
    rig.streams.ended(&rig.poller);
    assert!(rig.streams.is_drained());
    assert_eq!(read_now(&out), (vec![], true));
}

#[test]
fn close_io_hangs_up() {
    let (mut rig, mut slave) = with_terminal("DIR/out");
    let out = reader(rig.path("out"));
    slave.write_all(b"last").unwrap();
    rig.streams.close_stdin(&rig.poller);
    rig.drain();
    assert_eq!(read_now(&out), (b"last".to_vec(), true));
    assert_eq!(read_now(&slave), (vec![], true));
}

#[test]
fn a_terminal_that_comes_after_the_end() {
    let mut rig = Rig::new();
    let out = rig.path("out");
    rig.open(["", &out, ""], true);
    let (master, mut slave) = terminal();
    slave.write_all(b"quick").unwrap();
    drop(slave);
    rig.streams.ended(&rig.poller);
    assert!(!rig.streams.is_drained());
    rig.streams.take_terminal(&rig.poller, master).unwrap();
    let out = reader(out);
    rig.drain();
    rig.run_out();
    assert_eq!(read_now(&out), (b"quick".to_vec(), true));
}

#[test]
fn a_terminal_s_output_in_a_file() {
    let (mut rig, mut slave) = with_terminal("file://DIR/log");
    slave.write_all(b"logged").unwrap();
    rig.streams.ended(&rig.poller);
    assert!(rig.streams.is_drained());
    assert_eq!(fs::read(rig.path("log")).unwrap(), b"logged");
    drop(slave);
    rig.run_out();
}

#[test]
fn without_anywhere_to_go_it_is_thrown_away() {
    let (mut rig, mut slave) = with_terminal("");
    let data = noise(200_000);
    let mut written = 0;
    while written < data.len() {
        match slave.write(&data[written..]) {
            Ok(bytes) => written += bytes,
            Err(_) => assert!(rig.turn(&EVER)),
        }
    }
    rig.run_out();
}
