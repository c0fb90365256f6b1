//! The options and arguments of a command on its page.

use clap::{Arg, Command};

use super::markup::{Words, sentence, spans};
use super::page::Item;
use super::roff::{Span, bold, italic, roman};

/// Returns the words of a command's page that get their own font.
pub fn words(command: &Command) -> Words {
    let mut values: Vec<String> = command.get_arguments().flat_map(value_names).collect();
    values.sort();
    values.dedup();
    Words { values, choices: Vec::new() }
}

/// Returns the synopsis: `words`, the options, the arguments.
pub fn synopsis(command: &Command, words: &str) -> Vec<Span> {
    let mut way = begin(words);
    for argument in command.get_positionals() {
        way.push(roman(" "));
        way.extend(positional(argument));
    }
    if command.has_subcommands() && command.get_positionals().next().is_none() {
        way.extend([
            roman(" "),
            italic("COMMAND"),
            roman(" ["),
            italic("ARGUMENT"),
            roman(" ...]"),
        ]);
    }
    way
}

/// Returns `words` followed by a placeholder for options.
pub fn begin(words: &str) -> Vec<Span> {
    vec![bold(words), roman(" ["), italic("option"), roman(" ...]")]
}

/// Returns the visible arguments with a description, then the visible options in their order.
pub fn items(command: &Command) -> Vec<Item> {
    let words = words(command);
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let options = shown().filter(|arg| !arg.is_positional());
    let arguments = shown().filter(|arg| arg.is_positional() && !help(arg).is_empty());
    arguments.chain(options).map(|arg| item(arg, &words)).collect()
}

/// Returns the variables that stand for options, with the options' names.
pub fn variables(command: &Command) -> Vec<Item> {
    let item = |arg: &Arg| {
        let name = arg.get_env()?.to_string_lossy().into_owned();
        let text = vec![
            roman("Used where "),
            bold(format!("--{}", arg.get_long()?)),
            roman(" is not given."),
        ];
        Some(Item::new(vec![bold(name)], text))
    };
    command.get_arguments().filter_map(item).collect()
}

fn item(arg: &Arg, page: &Words) -> Item {
    let possible: Vec<_> =
        arg.get_possible_values().into_iter().filter(|v| !v.is_hide_set()).collect();
    let is_described = possible.iter().any(|value| value.get_help().is_some());
    let choices: Vec<String> = possible.iter().map(|value| value.get_name().to_owned()).collect();
    let takes_choice = arg.get_action().takes_values() && !choices.is_empty();
    let words = Words {
        values: page.values.clone(),
        choices: if takes_choice { choices.clone() } else { Vec::new() },
    };
    let mut text = sentence(&help(arg), &words);
    if takes_choice && !is_described && !arg.is_hide_possible_values_set() {
        text.push_str(&format!(" One of {}.", choices.join(", ")));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let mut text = spans(&text, &words);
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        text.extend([roman(" The default is "), bold(defaults.join(",")), roman(".")]);
    }
    let tag =
        if arg.is_positional() { vec![italic(value_names(arg).join(" "))] } else { option(arg) };
    let mut item = Item::new(tag, text);
    if takes_choice && is_described {
        let choice = |value: &clap::builder::PossibleValue| {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            Item::new(vec![bold(value.get_name())], spans(&sentence(&help, &words), &words))
        };
        item.below = possible.iter().map(choice).collect();
    }
    item
}

fn help(arg: &Arg) -> String {
    if arg.get_id() == "help" {
        return "show help".to_owned();
    }
    let help = arg.get_long_help().or_else(|| arg.get_help());
    help.map(ToString::to_string).unwrap_or_default()
}

/// Returns the tag of an option: `-b, --bundle DIR`.
fn option(arg: &Arg) -> Vec<Span> {
    let mut tag = Vec::new();
    if let Some(short) = arg.get_short() {
        tag.push(bold(format!("-{short}")));
    }
    if let Some(long) = arg.get_long() {
        if !tag.is_empty() {
            tag.push(roman(", "));
        }
        tag.push(bold(format!("--{long}")));
    }
    let range = arg.get_num_args().unwrap_or_default();
    if !range.takes_values() {
        return tag;
    }
    let names = value_names(arg);
    let equals = arg.is_require_equals_set();
    let (before, after) = match (range.min_values(), equals) {
        (0, false) => (" [", "]"),
        (0, true) => ("[=", "]"),
        (_, false) => (" ", ""),
        (_, true) => ("=", ""),
    };
    tag.extend([roman(before), italic(names.join(" "))]);
    if range.max_values() > names.len() {
        tag.push(roman(" ..."));
    }
    tag.push(roman(after));
    tag
}

/// Returns the synopsis of an argument: `[ARG ...]`.
fn positional(arg: &Arg) -> Vec<Span> {
    let names = value_names(arg);
    let mut way = vec![italic(names.join(" "))];
    if arg.get_num_args().unwrap_or_default().max_values() > names.len() {
        way.push(roman(" ..."));
    }
    if arg.is_last_set() {
        way.insert(0, roman(" "));
        way.insert(0, bold("--"));
    }
    if !arg.is_required_set() {
        way.insert(0, roman("["));
        way.push(roman("]"));
    }
    way
}

fn value_names(arg: &Arg) -> Vec<String> {
    let takes_values = arg.is_positional() || arg.get_action().takes_values();
    match arg.get_value_names() {
        Some(names) if takes_values => names.iter().map(ToString::to_string).collect(),
        None if takes_values => vec![arg.get_id().as_str().to_uppercase()],
        _ => Vec::new(),
    }
}
