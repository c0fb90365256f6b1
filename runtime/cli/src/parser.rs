//! Parses a command line as defined in the module `definition`, by the same rules as runc.
//!
//! An option is written as `--name value` or `--name=value`. One dash is accepted as well, for short and long names.
//! The value of a flag must follow `=`. One-letter flags may be combined after one dash, as in `-it`. The last letter
//! may also be an option with a value, which may follow at once in some commands, as in `-m64m`. `--` ends the options. If
//! the command's definition permits it, options may follow positional arguments. After a positional argument, a word that begins with a dash but is not a defined option
//! is an argument (`kill CONTAINER -9`).

use alloc::format;
use alloc::vec::Vec;

use crate::definition::options::{BUNDLE, HELP, IMAGE, STOP_TIME, TAIL};
use crate::definition::{Command, Options, Order};
use crate::duration;
use crate::number::{self, InvalidNumber};
use crate::option::{Kind, Opt};
use crate::usage::UsageError;
use crate::values::{Values, boolean};

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Parsed<'a> {
    /// The options that were set.
    pub values: Values<'a>,
    /// The positional arguments.
    pub arguments: Vec<&'a str>,
}

/// Parses `args`, in which `options` and `--help` are accepted.
///
/// # Errors
/// Unknown options, and options with a missing or wrong value.
pub fn parse<'a>(
    options: Options,
    order: Order,
    args: &[&'a str],
) -> Result<Parsed<'a>, UsageError<'a>> {
    let mut parsed = Parsed::default();
    if order == Order::PassedOn {
        parsed.arguments.extend(args);
        return Ok(parsed);
    }
    let mut rest = args.iter().copied();
    while let Some(arg) = rest.next() {
        let past_options = !parsed.arguments.is_empty()
            && (order == Order::OptionsFirst || is_changed(order, &parsed.values));
        if past_options || arg == "-" || !arg.starts_with('-') {
            parsed.arguments.push(arg);
            continue;
        }
        if arg == "--" {
            break;
        }
        let (name, value) = split(arg)?;
        let Some(option) = find(options, name) else {
            if take_letters(options, arg, &mut rest, &mut parsed.values)? {
                continue;
            }
            if parsed.arguments.is_empty() {
                return Err(UsageError::Undefined(name));
            }
            parsed.arguments.push(arg);
            continue;
        };
        let value = match value {
            Some(value) => value,
            None if option.kind == Kind::Flag => "true",
            None => rest.next().ok_or_else(|| UsageError::needs_argument(name))?,
        };
        check(option.kind, name, value)?;
        parsed.values.push(option, value);
    }
    parsed.arguments.extend(rest);
    Ok(parsed)
}

/// Returns whether an option is set that changes which arguments the command accepts.
fn is_changed(order: Order, values: &Values<'_>) -> bool {
    order.changing().iter().any(|(option, _)| values.is_set(option))
}

fn find(options: Options, name: &str) -> Option<&'static Opt> {
    let mut all = options.iter().copied().flatten().copied().chain([&HELP]);
    all.find(|option| option.is_named(name))
}

/// Adds the options that combined letters stand for, such as `-it` for `-i -t`. All except the last must be flags; if the
/// last needs a value, the value is the rest of the word (`-m64m`, only in `run`) or the next word of `rest`. Returns
/// false if `arg` is no such word.
#[cold]
fn take_letters<'a>(
    options: Options,
    arg: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
    values: &mut Values<'a>,
) -> Result<bool, UsageError<'a>> {
    let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let mut letters = letters.unwrap_or_default().chars();
    let (mut found, mut buffer) = (Vec::new(), [0; 4]);
    while let Some(letter) = letters.next() {
        let Some(option) = find(options, letter.encode_utf8(&mut buffer)) else {
            return Ok(false);
        };
        if option.kind == Kind::Flag {
            found.push((option, Some("true")));
            continue;
        }
        let value = Some(letters.as_str()).filter(|value| !value.is_empty());
        if value.is_some() && !may_be_attached(options, option) {
            return Ok(false);
        }
        found.push((option, value));
        break;
    }
    if found.is_empty() {
        return Ok(false);
    }
    for (option, value) in found {
        let value = value.or_else(|| rest.next());
        let value = value.ok_or_else(|| UsageError::needs_argument(option.long))?;
        check(option.kind, option.long, value)?;
        values.push(option, value);
    }
    Ok(true)
}

/// Returns whether a value may follow the option's letter at once, as with Docker and Podman: not for commands of runc,
/// which refuses this, except for options of `run` that runc does not have.
fn may_be_attached(options: Options, option: &Opt) -> bool {
    let is_docker_s = |of: &Opt| find(options, of.long).is_some();
    option.long != BUNDLE.long && [&IMAGE, &TAIL, &STOP_TIME].into_iter().any(is_docker_s)
}

/// Splits `--name=value` into name and value; `--name` has no value.
fn split(arg: &str) -> Result<(&str, Option<&str>), UsageError<'_>> {
    let bare = arg.strip_prefix("--").or(arg.strip_prefix('-')).unwrap_or(arg);
    if bare.starts_with(['-', '=']) {
        return Err(UsageError::Text(format!("bad flag syntax: {arg}")));
    }
    Ok(match bare.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (bare, None),
    })
}

fn check<'a>(kind: Kind, name: &'a str, value: &'a str) -> Result<(), UsageError<'a>> {
    let bad = |reason| UsageError::bad_value(name, value, reason);
    let not_boolean =
        || UsageError::Text(format!("invalid boolean value {value:?} for -{name}: parse error"));
    match kind {
        Kind::Text | Kind::Texts => Ok(()),
        Kind::Flag => boolean(value).map(drop).ok_or_else(not_boolean),
        Kind::Integer | Kind::Integers => number::parse::<i64>(value).map(drop).map_err(bad),
        Kind::Duration => {
            duration::parse(value).map(drop).ok_or_else(|| bad(InvalidNumber::Syntax))
        }
    }
}

/// Parses the arguments of `command`, without its name.
///
/// # Errors
/// As [`parse`].
pub fn parse_command<'a>(
    command: &Command,
    args: &[&'a str],
) -> Result<Parsed<'a>, UsageError<'a>> {
    parse(command.options, command.order, args)
}

/// Refuses too few or too many arguments.
///
/// # Errors
/// The error contains the required number.
pub fn count_arguments(
    command: &'static Command,
    values: &Values<'_>,
    count: usize,
) -> Result<(), UsageError<'static>> {
    // The program to which arguments are passed on checks their number.
    if command.order == Order::PassedOn || is_changed(command.order, values) {
        return Ok(());
    }
    let (least, most) = command.count;
    let wrong = |bound: &str, number: usize| {
        Err(UsageError::Text(format!("{:?} requires {bound} {number} argument(s)", command.name)))
    };
    match count {
        _ if (least..=most).contains(&count) => Ok(()),
        _ if least == most => wrong("exactly", most),
        _ if count > most => wrong("a maximum of", most),
        _ => wrong("a minimum of", least),
    }
}
