//! Converts the process's arguments to a command, and the command's result to an exit status.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt::{Display, Write};

use container::{Trace, VARIABLE, Warn};
use sys::defence::TEST_BUILD;
use sys::stdio::Stderr;
use trace::Format;

use crate::NAME;
use crate::advice::{has, incorrect, miscounted, unknown, unknown_below_image};
use crate::commands;
use crate::definition::options::{HELP, IMAGE, TRACE, VERSION};
use crate::definition::{GLOBALS, Order, find, find_alias};
use crate::failure::{Failure, failure};
use crate::format::version::{self, Version};
use crate::help::{self, PROGRAM, usage};
use crate::image_form;
use crate::invocation::Invocation;
use crate::logging::Log;
use crate::parser::{Parsed, count_arguments, parse, parse_command};
use crate::reaper;

/// Runs the program; returns its exit status.
pub fn run(args: sys::Args) -> i32 {
    let entered = if is_traced(args) { trace::now() } else { 0 };
    sys::stdio::ensure_open();
    if args.iter().next().is_some_and(|name| name.to_bytes() == container::REAPER.as_bytes()) {
        return reaper::run(args);
    }
    if let Some(status) = container::untar(args) {
        return status;
    }
    let mut log = Log::default();
    if let Some(switches) = TEST_BUILD {
        let _ = writeln!(Stderr, "warning: {}", for_tests(switches));
    }
    match try_run(args, entered, &mut log) {
        Ok(status) => status,
        Err(failure) => {
            log.error(&failure.message);
            if let Some(line) = &failure.usage {
                log.usage(line);
            }
            failure.status
        }
    }
}

fn try_run(args: sys::Args, entered: u64, log: &mut Log) -> Result<i32, Failure> {
    let texts = texts(args)?;
    let texts = texts.get(1..).unwrap_or_default();
    let globals = parse(GLOBALS, Order::OptionsFirst, texts)
        .map_err(|error| incorrect(&error, None, GLOBALS, &format_args!("Usage: {PROGRAM}")))?;
    if globals.values.flag(&HELP) {
        return print(help::of_program());
    }
    if globals.values.flag(&VERSION) {
        return print(Version);
    }
    *log = Log::open(&globals.values)?;
    if let Some(switches) = TEST_BUILD {
        log.record_warning(&for_tests(switches));
    }
    #[cfg(dayfly_faults)]
    if let Some(text) = args.env("DAYFLY_FAULT")
        && !container::arm_fault(text)
    {
        return Err(failure!("DAYFLY_FAULT: {text:?} is not a fault point"));
    }
    #[cfg(dayfly_undefended)]
    lower_defences(args)?;

    let words = expand(&globals.arguments);
    if let Some(failure) = unknown_below_image(&words) {
        return Err(failure);
    }
    let Some((&name, rest)) = words.split_first() else { return print(help::of_program()) };
    match name {
        "help" | "h" => return help(rest.first().copied()),
        "version" => return version(rest),
        _ => {}
    }
    let command = find(name).ok_or_else(|| unknown(name))?;
    let parsed = parse_command(command, rest);
    let parsed = match image_form::of(command, rest, &parsed, args) {
        Some(of_image) => Ok(of_image),
        None => parsed,
    };
    let Parsed { values, arguments } = parsed
        .map_err(|error| incorrect(&error, Some(command.name), command.options, &usage(command)))?;
    if values.flag(&HELP) {
        return print(help::of_command(command));
    }
    count_arguments(command, &values, arguments.len())
        .map_err(|error| miscounted(&error, command, &arguments))?;
    log.debug(format_args!("{NAME} version {}: {name}", version::VERSION));
    let globals = &globals.values;
    let can_trace = has(command.options, TRACE.long);
    let entered = if can_trace { entered } else { 0 };
    check_trace(values.text(&TRACE))?;
    let destination = values.text(&TRACE).or_else(|| args.env(VARIABLE)).filter(|_| entered > 0);
    let trace = Trace::new(command.name, args, entered, destination);
    // The trace is leaked, since the container's init may run in this process's memory and use the trace.
    let trace: &'static Trace = Box::leak(Box::new(trace));
    let tell = |message: &str| {
        let _ = writeln!(Stderr, "warning: {message}");
        log.record_warning(message);
    };
    let named = RefCell::default();
    let invocation = Invocation {
        named: &named,
        args,
        globals,
        values: &values,
        arguments: &arguments,
        trace,
        warn: Warn { record: &|message| log.warning(message), print: &tell },
    };
    let result = commands::run(command, &invocation);
    // The trace is written for a failed command, too. If writing fails as well, the command's failure is returned.
    let named = named.take();
    let id = match (named.as_str(), values.is_set(&IMAGE)) {
        // The command was refused before it created a container.
        ("", true) => "image",
        ("", false) => arguments.first().copied().unwrap_or_default(),
        (id, _) => id,
    };
    let written = trace.write(id);
    let status = result?;
    written.map(|()| status).map_err(Failure::from)
}

/// Returns the warning that a test build writes to the log at every run.
fn for_tests(switches: &str) -> String {
    format!("this dayfly is a test build, with {switches}: not for production")
}

/// Switches off the defences that the environment names; only in test builds.
#[cfg(dayfly_undefended)]
fn lower_defences(args: sys::Args) -> Result<(), Failure> {
    if let Some(names) = args.env("DAYFLY_UNDEFENDED")
        && !sys::defence::switch_off(names)
    {
        return Err(failure!("DAYFLY_UNDEFENDED: {names:?} is not a defence"));
    }
    if let Some(step) = args.env("DAYFLY_PAUSE") {
        sys::defence::pause_before(step);
    }
    Ok(())
}

/// Returns whether the arguments or the environment may request a trace. Only then does `run` read the clock at its
/// beginning.
fn is_traced(args: sys::Args) -> bool {
    let mut options = args.iter().map(|text| text.to_bytes());
    options.any(|text| text.starts_with(b"--trace") || text.starts_with(b"-trace"))
        || Trace::is_asked_for(args)
}

/// Returns the arguments as UTF-8 strings, the encoding of all strings in the runtime specification.
fn texts(args: sys::Args) -> Result<Vec<&'static str>, Failure> {
    args.iter()
        .enumerate()
        .map(|(at, text)| text.to_str().map_err(|_| failure!("argument {at} is not valid UTF-8")))
        .collect()
}

/// Prints a requested text on standard output.
fn print(text: impl Display) -> Result<i32, Failure> {
    commands::print(&text.to_string()).map(|()| 0)
}

fn version(words: &[&str]) -> Result<i32, Failure> {
    match words {
        [] => print(Version),
        ["--format" | "-f", "json"] | ["--format=json"] => print(version::json()?),
        _ => Err(failure!("\"version\" takes no arguments but --format json")),
    }
}

fn help(name: Option<&str>) -> Result<i32, Failure> {
    let Some(name) = name else { return print(help::of_program()) };
    let name = find_alias(name, &[]).and_then(|alias| alias.words.first()).unwrap_or(&name);
    print(help::of_command(find(name).ok_or_else(|| unknown(name))?))
}

/// Replaces an alias by its words. `container` may precede a command, as with Docker and Podman.
fn expand<'w, 'a>(words: &'w [&'a str]) -> Cow<'w, [&'a str]> {
    let words = match words {
        ["container", rest @ ..] if !rest.is_empty() => rest,
        words => words,
    };
    match words.split_first().and_then(|(name, rest)| Some((find_alias(name, rest)?, rest))) {
        Some((alias, rest)) => alias.words.iter().chain(rest).copied().collect(),
        None => Cow::Borrowed(words),
    }
}

/// Refuses a trace file whose suffix does not name a format.
fn check_trace(path: Option<&str>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let Some(suffix) = Format::unknown_suffix(path) else { return Ok(()) };
    let known = Format::ALL.map(Format::suffix).join(", ");
    Err(failure!(
        "--trace {path}: there is no format {suffix}: the file name must end in one of {known}, or have no suffix"
    ))
}
