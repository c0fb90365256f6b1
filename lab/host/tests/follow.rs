//! Follows real commands.

use dayfly_host::follow::{
    Command, End, Error, Event, Mode, Report, Stop, count, follow, follow_until,
};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);
/// Stepping takes a minute on a host with a load of 25.
const STEPPED: Duration = Duration::from_secs(600);
const BOUND: u64 = 50_000_000;

fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script])
}

fn calls(command: &Command) -> Report {
    count(command, Mode::Syscalls, SOON).expect("count")
}

fn instructions(command: &Command) -> Report {
    count(command, Mode::Instructions { bound: BOUND }, STEPPED).expect("count")
}

/// Returns whether a process still runs. A zombie counts as dead.
fn is_alive(pid: rustix::process::Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[test]
fn one_program() {
    let report = calls(&Command::new("/bin/true"));
    assert_eq!(report.end, End::Exited(0));
    let [process] = &report.processes[..] else { panic!("{report:?}") };
    let [image] = &process.images[..] else { panic!("{report:?}") };
    assert_eq!(image.command, ["/bin/true"]);
    assert_eq!(image.calls["exit_group"], 1);
    assert_eq!(image.calls.get("execve"), None);
    assert!(image.calls["mmap"] > 1, "{image:?}");
}

#[test]
fn the_same_again() {
    let first = calls(&sh("/bin/true; /bin/true"));
    let second = calls(&sh("/bin/true; /bin/true"));
    assert_eq!(first.by_name(), second.by_name());
}

#[test]
fn a_shell_with_two_children() {
    let report = calls(&sh("/bin/true; /bin/sh -c 'exit 3'; exit 5"));
    assert_eq!(report.end, End::Exited(5));
    let [_, first, second] = &report.processes[..] else { panic!("{report:?}") };
    let commands = |process: &dayfly_host::follow::Process| -> Vec<String> {
        process.images.iter().map(|image| image.command[0].clone()).collect()
    };
    assert_eq!(commands(first), ["/bin/sh", "/bin/true"]);
    assert_eq!((first.end, second.end), (End::Exited(0), End::Exited(3)));
}

#[test]
fn signals_arrive() {
    let report = calls(&sh("trap 'exit 7' USR1; kill -USR1 $$; exit 1"));
    assert_eq!(report.end, End::Exited(7));
    assert_eq!(calls(&sh("kill -9 $$")).end, End::Killed(9));
}

#[test]
fn stops_and_goes_on() {
    let report = calls(&sh("(sleep 0.1; kill -CONT $$) & kill -STOP $$; exit 4"));
    assert_eq!(report.end, End::Exited(4));
}

#[test]
fn a_waiting_call_is_counted_once() {
    let report = calls(&sh("(sleep 0.1; exit 0) & exec sleep 0.3"));
    assert_eq!(report.processes[0].images[1].calls["clock_nanosleep"], 1);
    assert_eq!(report.by_name().get("restart_syscall"), None);
}

#[test]
fn past_the_deadline_everybody_is_killed() {
    let start = Instant::now();
    let command = sh("sleep 1000 & sleep 1000; exit 0");
    let mut born = Vec::new();
    let result = follow(
        &command,
        Mode::Syscalls,
        Duration::from_millis(300),
        &mut |pid: rustix::process::Pid, event: Event| {
            if matches!(event, Event::Born { .. }) {
                born.push(pid);
            }
        },
    );
    assert!(matches!(result, Err(Error::Deadline { .. })), "{result:?}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(born.len(), 3);
    assert!(!born.into_iter().any(is_alive));
}

#[test]
fn one_that_forks_and_exits_is_let_go() {
    let (gate, mut opener) = std::io::pipe().unwrap();
    let (mut output, out) = std::io::pipe().unwrap();
    let command = sh("exec 3<&0; (read line <&3; echo done) & exit 0").stdin(gate).stdout(out);
    let report = calls(&command);
    assert_eq!(report.end, End::Exited(0));
    assert!(report.processes.iter().any(|process| process.end == End::Left), "{report:?}");
    // Only the child has the other ends of the pipes now. It ends after the report, because the gate opens only here.
    drop(command);
    opener.write_all(b"go\n").expect("the child still runs");
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "done\n");
}

#[test]
fn no_such_program() {
    let result = count(&Command::new("/no/such/program"), Mode::Syscalls, SOON);
    let Err(error @ Error::NotExecuted { .. }) = result else { panic!("{result:?}") };
    assert_eq!(error.to_string(), "execute /no/such/program: no such file or directory");
}

#[test]
fn instructions_of_one_program() {
    let first = instructions(&Command::new("/bin/true"));
    assert!(first.complete && first.instructions() > 10_000, "{first:?}");
    let second = instructions(&Command::new("/bin/true"));
    let drift = first.instructions().abs_diff(second.instructions());
    assert!(drift * 1000 < first.instructions(), "{first:?}\n{second:?}");
}

#[test]
fn instructions_of_children() {
    let report = instructions(&sh("/bin/true; /bin/true"));
    let of_true: Vec<u64> =
        report.processes[1..].iter().map(|process| process.images[1].instructions).collect();
    let [first, second] = of_true[..] else { panic!("{report:?}") };
    assert!(first > 10_000 && first.abs_diff(second) * 1000 < first, "{report:?}");
}

#[test]
fn a_bound_on_instructions() {
    let bound = 20_000;
    let command = sh("i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; exit 6");
    let report = count(&command, Mode::Instructions { bound }, STEPPED).expect("count");
    assert_eq!((report.end, report.complete), (End::Exited(6), false));
    assert_eq!(report.instructions(), bound);
}

/// A stop from another thread kills all followed processes, including those that are created later.
#[test]
fn is_stopped() {
    let stop = Stop::default();
    let start = Instant::now();
    let command = || Command::new("/bin/sh").args(["-c", "sleep 60 & sleep 60"]);
    let long = Duration::from_secs(50);
    std::thread::scope(|scope| {
        let mut births = 0;
        let mut stopper = |_, event: Event| {
            births += u32::from(matches!(event, Event::Born { .. }));
            if births == 2 {
                scope.spawn(|| stop.stop());
            }
        };
        let end = follow_until(&command(), Mode::Syscalls, long, &stop, &mut stopper);
        assert!(matches!(end, Err(Error::Deadline { .. })), "{end:?}");
    });
    let mut nobody = |_, _: Event| {};
    let end = follow_until(&command(), Mode::Syscalls, long, &stop, &mut nobody);
    assert!(matches!(end, Err(Error::Deadline { .. })), "{end:?}");
    assert!(start.elapsed() < long);
}
