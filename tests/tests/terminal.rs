//! The container's terminal: pseudoterminal, console socket, sizes.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::console::{FdSocket, read_all};
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(create_sends_the_master),
    case!(run_detached_sends_the_master),
    case!(input_reaches_the_program),
    case!(controlling_terminal),
    case!(console_device),
    case!(console_size),
    case!(size_set_from_outside),
    case!(create_without_socket),
    case!(socket_without_terminal),
    case!(socket_missing),
    case!(foreground_in_the_callers_terminal),
    case!(on_a_devpts_that_is_read_only),
    case!(size_of_a_terminal_that_is_not_standard_input),
    case!(size_before_the_program_begins).unlike_runc(),
    case!(input_of_the_foreground_ends),
    case!(foreground_without_a_terminal_of_the_caller),
    case!(owner_of_the_terminal),
    case!(exec_tty_size),
    case!(exec_it).unlike_runc(),
];

fn create_sends_the_master(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .sh("tty; test -t 0 && test -t 1 && test -t 2")
        .make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.create_with(&["--console-socket", &socket.arg()]).ok();
    let (master, name) = socket.receive();
    assert_eq!(name, "/dev/pts/ptmx");
    c.start().ok();
    assert_eq!(read_all(master), "/dev/pts/0\r\n");
}

fn run_detached_sends_the_master(bed: &Bed) {
    let c = bed.bundle().set("/process/terminal", json!(true)).sh("echo hello").make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["--detach", "--console-socket", &socket.arg()]).ok();
    assert_eq!(read_all(socket.receive().0), "hello\r\n");
}

fn input_reaches_the_program(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .sh("stty -echo; echo ready; read x; echo got $x")
        .make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["-d", "--console-socket", &socket.arg()]).ok();
    let (master, _) = socket.receive();
    let mut writer = File::from(master.as_fd().try_clone_to_owned().expect("dup"));
    writer.write_all(b"word\n").expect("write");
    let text = read_all(master);
    assert!(text.ends_with("got word\r\n"), "{text:?}");
}

fn controlling_terminal(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .sh("echo to the terminal >/dev/tty; cut -d' ' -f6-8 /proc/self/stat")
        .make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["-d", "--console-socket", &socket.arg()]).ok();
    let text = read_all(socket.receive().0);
    assert!(text.starts_with("to the terminal\r\n"), "{text:?}");
    assert!(text.contains("1 34816 "), "session 1 on pts 0: {text:?}");
}

fn console_device(bed: &Bed) {
    let script = "echo on the console >/dev/console; grep -c /dev/console /proc/self/mounts; stat -c %t:%T /dev/console";
    let c = bed.bundle().set("/process/terminal", json!(true)).sh(script).make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["-d", "--console-socket", &socket.arg()]).ok();
    assert_eq!(read_all(socket.receive().0), "on the console\r\n1\r\n88:0\r\n");
}

fn console_size(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .set("/process/consoleSize", json!({ "height": 33, "width": 101 }))
        .sh("stty size")
        .make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["-d", "--console-socket", &socket.arg()]).ok();
    assert_eq!(read_all(socket.receive().0), "33 101\r\n");
}

fn size_set_from_outside(bed: &Bed) {
    let c = bed.bundle().set("/process/terminal", json!(true)).sh("stty size").make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.create_with(&["--console-socket", &socket.arg()]).ok();
    let (master, _) = socket.receive();
    let size = rustix::termios::Winsize { ws_row: 20, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size).expect("set size");
    c.start().ok();
    assert_eq!(read_all(master), "20 77\r\n");
}

fn create_without_socket(bed: &Bed) {
    let c = bed.bundle().set("/process/terminal", json!(true)).make();
    c.create().fails("cannot allocate tty if dayfly will detach without setting console socket");
    c.run_with(&["-d"])
        .fails("cannot allocate tty if dayfly will detach without setting console socket");
    assert!(!c.exists());
}

fn socket_without_terminal(bed: &Bed) {
    let c = bed.bundle().make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.create_with(&["--console-socket", &socket.arg()])
        .fails("cannot use console socket if dayfly will not detach or allocate tty");
    assert!(!c.exists());
}

fn socket_missing(bed: &Bed) {
    let c = bed.bundle().set("/process/terminal", json!(true)).make();
    c.create_with(&["--console-socket", "/no/such.sock"]).fails("no such file or directory");
    assert!(!c.exists());
}

/// Runs `script` in a session whose terminal has 30 rows and 60 columns. The script's `"$@"` is the command line of
/// `run`, and the script's standard output is not the terminal.
fn in_a_terminal(c: &Container<'_>, script: &str) -> Outcome {
    let bundle = c.bundle.to_string_lossy();
    session(c.bed, script, &["run", "--bundle", &*bundle, &*c.id])
}

/// Runs `script` like `in_a_terminal`, with another command line of the runtime.
fn session(bed: &Bed, script: &str, args: &[&str]) -> Outcome {
    let master =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)
            .expect("openpt");
    rustix::pty::unlockpt(&master).expect("unlock");
    let size = rustix::termios::Winsize { ws_row: 30, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size).expect("set size");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("name");
    let terminal = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().expect("path"))
        .expect("open terminal");
    let (runtime, root) = (bed.runtime().to_string_lossy(), bed.root());
    let session = ["--ctty", "--wait", "sh", "-c", script, "sh"];
    let call = [&*runtime, "--root", &*root.to_string_lossy()];
    let words = [&session[..], &call, args].concat();
    bed.program("setsid", &words).stdin(terminal).run().ok()
}

fn foreground_in_the_callers_terminal(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .sh("test -t 1 && echo a terminal; stty size")
        .make();
    let outcome = in_a_terminal(&c, "exec \"$@\"");
    assert!(outcome.stdout.starts_with("a terminal\n"), "line ends are made by ours: {outcome:?}");
}

fn on_a_devpts_that_is_read_only(bed: &Bed) {
    let devpts = json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts",
        "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "ro"] });
    let bundle = bed.bundle().set("/process/terminal", json!(true)).remount("/dev/pts", devpts);
    let outcome = in_a_terminal(&bundle.sh("test -t 1 && echo a terminal").make(), "exec \"$@\"");
    assert!(outcome.stdout.starts_with("a terminal\n"), "{outcome:?}");
}

fn size_of_a_terminal_that_is_not_standard_input(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        // runc sets the size when the program may already be running.
        .sh("until stty size 2>/dev/null | grep -q 60; do :; done; stty size")
        .make();
    let outcome = in_a_terminal(&c, "exec timeout 20 \"$@\" </dev/null");
    assert_eq!(outcome.stdout, "30 60\n");
}

/// The program's first look shows the caller's size, and no SIGWINCH follows (moby #35407, runc #1269): init sets the
/// size before the program begins. runc sets it from outside, so most programs see 0 0.
fn size_before_the_program_begins(bed: &Bed) {
    let show = "trap 'echo winch' WINCH; stty size; stty size";
    let of_run = bed.bundle().set("/process/terminal", json!(true)).sh(show).make();
    for _ in 0..50 {
        assert_eq!(in_a_terminal(&of_run, "exec \"$@\"").stdout, "30 60\n30 60\n");
    }
    let c = bed.bundle().make().detached();
    for _ in 0..50 {
        let outcome = session(bed, "exec \"$@\"", &["exec", "-t", &c.id, "sh", "-c", show]);
        assert_eq!(outcome.stdout, "30 60\n30 60\n");
    }
    // The caller's terminal takes precedence over the configuration's size.
    let sized = bed.bundle().set("/process/consoleSize", json!({ "height": 5, "width": 6 }));
    let sized = sized.set("/process/terminal", json!(true)).sh(show).make();
    assert_eq!(in_a_terminal(&sized, "exec \"$@\"").stdout, "30 60\n30 60\n");
    let socket = FdSocket::new(&bed.dir, "console.sock");
    sized.create_with(&["--console-socket", &socket.arg()]).ok();
    let (master, _) = socket.receive();
    sized.start().ok();
    assert_eq!(read_all(master), "5 6\r\n5 6\r\n");
}

/// After the end of input, the command must not poll.
fn input_of_the_foreground_ends(bed: &Bed) {
    let c =
        bed.bundle().set("/process/terminal", json!(true)).sh("read x; echo $x; sleep 2").make();
    let outcome = in_a_terminal(&c, "echo word | \"$@\"; times");
    let last = outcome.stdout.lines().last().expect("what children used").to_owned();
    let seconds = last.split_whitespace().map(|time| {
        let (_, seconds) = time.trim_end_matches('s').split_once('m').expect("0m0.01s");
        seconds.parse::<f64>().expect("seconds")
    });
    assert!(outcome.stdout.contains("word\n"), "{outcome}");
    assert!(seconds.sum::<f64>() < 1.0, "{outcome}");
}

fn foreground_without_a_terminal_of_the_caller(bed: &Bed) {
    let c = bed.bundle().set("/process/terminal", json!(true)).make();
    let (root, bundle) = (bed.root(), c.bundle.to_string_lossy());
    let args = [
        "--wait",
        &bed.runtime().to_string_lossy(),
        "--root",
        &root.to_string_lossy(),
        "run",
        "--bundle",
        &bundle,
        &c.id,
    ];
    let outcome = bed.program("setsid", &args).run().exits(1);
    assert!(outcome.stderr.contains("no such device or address"), "{outcome}");
    assert!(!c.exists());
}

fn owner_of_the_terminal(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .sh("stat -c '%u %a' /dev/pts/0")
        .make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["-d", "--console-socket", &socket.arg()]).ok();
    assert_eq!(read_all(socket.receive().0), "1000 620\r\n");
}

fn exec_tty_size(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let socket = FdSocket::new(&bed.dir, "exec.sock");
    let process = bed.dir.join("process.json");
    let text = json!({
        "terminal": true, "consoleSize": { "height": 11, "width": 22 },
        "user": { "uid": 0, "gid": 0 }, "args": ["/bin/stty", "size"], "env": ["PATH=/bin"], "cwd": "/",
    });
    std::fs::write(&process, text.to_string()).expect("write");
    let flags =
        ["-d", "--console-socket", &socket.arg(), "--process", process.to_str().expect("path")];
    c.id_call("exec", &flags, &[]).run().ok();
    assert_eq!(read_all(socket.receive().0), "11 22\r\n");
}

/// Options may be combined, as users type them; `-i` has no effect.
fn exec_it(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for flags in [&["-it"][..], &["-ti"], &["-i", "-t"]] {
        let words = [&["exec"], flags, &[&c.id, "sh", "-c", "test -t 0 && tty"]].concat();
        let outcome = session(bed, "exec \"$@\"", &words);
        assert!(outcome.stdout.starts_with("/dev/pts/"), "{flags:?}: {outcome}");
    }
    let exec = bed.call(&["exec", "-i", &c.id, "sh", "-c", "test ! -t 0 && cat"]);
    let input = bed.dir.join("input");
    std::fs::write(&input, "word").expect("write");
    let input = File::open(&input).expect("open");
    assert_eq!(exec.stdin(input).run().ok().stdout, "word");
}
