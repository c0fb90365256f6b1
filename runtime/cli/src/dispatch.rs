//! From the process's arguments to a command and back to an exit status.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{Display, Write};

use container::{Trace, VARIABLE};
use sys::defence::TEST_BUILD;
use sys::stdio::Stderr;

use crate::commands;
use crate::definition::options::{CONTAINER_NAME, HELP, IMAGE, TRACE, VERSION};
use crate::definition::{GLOBALS, NAME, Order, find};
use crate::failure::Failure;
use crate::format::version::{self, Version};
use crate::help::{CommandHelp, ProgramHelp};
use crate::invocation::Invocation;
use crate::logging::Log;
use crate::parser::{Parsed, count_arguments, parse, parse_command};

/// The exit status for a command that does not exist.
const UNKNOWN_COMMAND: i32 = 3;

/// Runs the program; returns its exit status.
pub fn run(args: sys::Args) -> i32 {
    let entered = if is_traced(args) { trace::now() } else { 0 };
    sys::stdio::ensure_open();
    let mut log = Log::default();
    if let Some(switches) = TEST_BUILD {
        let _ = writeln!(Stderr, "warning: {}", for_tests(switches));
    }
    match try_run(args, entered, &mut log) {
        Ok(status) => status,
        Err(failure) => {
            log.error(&failure.message);
            failure.status
        }
    }
}

fn try_run(args: sys::Args, entered: u64, log: &mut Log) -> Result<i32, Failure> {
    let texts = texts(args)?;
    let (program, texts) = texts.split_first().map_or(("", &[][..]), |(name, rest)| (*name, rest));
    let globals = parse(GLOBALS, Order::OptionsFirst, texts)
        .map_err(|error| incorrect(&error, &ProgramHelp))?;
    if globals.values.flag(&HELP) {
        return print(&ProgramHelp);
    }
    if globals.values.flag(&VERSION) {
        return print(&Version);
    }
    *log = Log::open(&globals.values)?;
    if let Some(switches) = TEST_BUILD {
        log.record_warning(&for_tests(switches));
    }
    #[cfg(dayfly_faults)]
    if let Some(text) = args.env("DAYFLY_FAULT")
        && !container::arm_fault(text)
    {
        return Err(Failure::new(format_args!("DAYFLY_FAULT: {text:?} is no fault point")));
    }
    #[cfg(dayfly_undefended)]
    lower_defences(args)?;

    let Some((&name, rest)) = globals.arguments.split_first() else { return print(&ProgramHelp) };
    if matches!(name, "help" | "h") {
        return help(rest.first().copied());
    }
    let command = find(name).ok_or_else(|| unknown(name))?;
    if !command.is_supported() {
        if rest.iter().any(|text| matches!(*text, "-h" | "--help" | "-help")) {
            return print(&CommandHelp(command));
        }
        return Err(Failure::unsupported(name));
    }
    let Parsed { values, arguments } =
        parse_command(command, rest).map_err(|error| incorrect(&error, &CommandHelp(command)))?;
    if values.flag(&HELP) {
        return print(&CommandHelp(command));
    }
    count_arguments(command, &values, arguments.len())
        .map_err(|error| incorrect(&format_args!("{program}: {error}"), &CommandHelp(command)))?;
    log.debug(format_args!("{NAME} version {}: {name}", version::VERSION));
    let globals = &globals.values;
    let can_trace = command.options.iter().any(|option| option.long == TRACE.long);
    let entered = if can_trace { entered } else { 0 };
    let destination = values.text(&TRACE).or_else(|| args.env(VARIABLE)).filter(|_| entered > 0);
    let trace = Trace::new(command.name, args, entered, destination);
    // For as long as the process, as an init in its memory may be.
    let trace: &'static Trace = Box::leak(Box::new(trace));
    let warn = |message: &str| log.warning(message);
    let tell = |message: &str| {
        let _ = writeln!(Stderr, "warning: {message}");
        log.record_warning(message);
    };
    let invocation = Invocation {
        args,
        globals,
        values: &values,
        arguments: &arguments,
        trace,
        warn: &warn,
        tell: &tell,
    };
    let result = commands::run(command, &invocation);
    // Of a command that failed as well; its own failure counts more than the trace's.
    let id = match values.is_set(&IMAGE) {
        true => values.text(&CONTAINER_NAME).unwrap_or("image"),
        false => arguments.first().copied().unwrap_or_default(),
    };
    let written = trace.write(id);
    let status = result?;
    written.map(|()| status).map_err(Failure::from)
}

/// What every run of a test build says of it.
fn for_tests(switches: &str) -> String {
    format!(
        "this dayfly was built for tests alone, with {switches}: do not use it for anything else"
    )
}

/// What the environment says about defences, in test builds.
#[cfg(dayfly_undefended)]
fn lower_defences(args: sys::Args) -> Result<(), Failure> {
    if let Some(names) = args.env("DAYFLY_UNDEFENDED")
        && !sys::defence::switch_off(names)
    {
        return Err(Failure::new(format_args!("DAYFLY_UNDEFENDED: {names:?} is no defence")));
    }
    if let Some(step) = args.env("DAYFLY_PAUSE") {
        sys::defence::pause_before(step);
    }
    Ok(())
}

/// Whether the arguments or the environment may ask for a trace: so that the clock is read, before
/// anything else, only then.
fn is_traced(args: sys::Args) -> bool {
    let mut options = args.iter().map(|text| text.to_bytes());
    options.any(|text| text.starts_with(b"--trace") || text.starts_with(b"-trace"))
        || Trace::is_asked_for(args)
}

/// The arguments as texts. The specification's strings are UTF-8, and so are ours.
fn texts(args: sys::Args) -> Result<Vec<&'static str>, Failure> {
    args.iter()
        .enumerate()
        .map(|(at, text)| {
            text.to_str()
                .map_err(|_| Failure::new(format_args!("argument {at} is not valid UTF-8")))
        })
        .collect()
}

/// Prints on standard output what was asked for.
fn print(text: &dyn Display) -> Result<i32, Failure> {
    commands::print(&text.to_string()).map(|()| 0)
}

fn help(name: Option<&str>) -> Result<i32, Failure> {
    match name {
        None => print(&ProgramHelp),
        Some(name) => print(&CommandHelp(find(name).ok_or_else(|| unknown(name))?)),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(format_args!("No help topic for '{name}'")).with_status(UNKNOWN_COMMAND)
}

/// A command line that can't be understood: the help goes to standard output, as from runc.
fn incorrect(error: &dyn Display, help: &dyn Display) -> Failure {
    // What is wrong is told in any case.
    let _ = commands::print(&format!("Incorrect Usage: {error}\n\n{help}"));
    Failure::new(error)
}
