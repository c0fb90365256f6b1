//! Prints the system calls of a command and its descendants in order, and then the number of calls.
//!
//! `calls [--instructions] PROGRAM [ARG…]`

use dayfly_profile::follow::{Command, Event, Mode, call_name, count, follow, memory};
use rustix::process::Pid;
use std::process::ExitCode;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let stepped = args.first().is_some_and(|arg| arg == "--instructions");
    if stepped {
        args.remove(0);
    }
    let Some((program, rest)) = args.split_first() else {
        eprintln!("usage: calls [--instructions] PROGRAM [ARG…]");
        return ExitCode::FAILURE;
    };
    let command = Command::new(program).args(rest);
    let result = if stepped {
        count(&command, Mode::Instructions { bound: u64::MAX }, DEADLINE)
            .map(|report| println!("{report}\n{:?}", report.end))
    } else {
        let mut calls = 0;
        let mut print = |pid: Pid, event: Event| {
            if matches!(event, Event::Entered { .. }) {
                calls += 1;
            }
            println!("{pid:>7} {}", words(pid, &event));
        };
        let result = follow(&command, Mode::Syscalls, DEADLINE, &mut print);
        result.map(|end| println!("{calls} system calls, {end:?}"))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calls: {error}");
            ExitCode::FAILURE
        }
    }
}

fn words(pid: Pid, event: &Event) -> String {
    match event {
        Event::Entered { number, args, .. } => {
            let args: Vec<String> = args.iter().map(|arg| word(pid, *arg)).collect();
            format!("{}({})", call_name(*number), args.join(", "))
        }
        Event::Left { result: Ok(value), .. } => format!("    = {value:#x}"),
        Event::Left { result: Err(errno), .. } => format!("    = {errno:?}"),
        other => format!("-- {other:?}"),
    }
}

/// Formats an argument: the text that it points to, if any, or a number.
fn word(pid: Pid, value: u64) -> String {
    let printable = |text: &String| {
        (1..80).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    match memory::text(pid, value).filter(printable) {
        Some(text) => format!("{text:?}"),
        None if value < 4096 => value.to_string(),
        None => format!("{value:#x}"),
    }
}
