//! dayfly's command-line definitions as clap commands.

use clap::{Arg, ArgAction, ValueHint};
use dayfly_cli::NAME;
use dayfly_cli::definition::options::HELP;
use dayfly_cli::definition::{ABOUT, ALIASES, Argument, COMMANDS, Command, DESCRIPTION, GLOBALS};
use dayfly_cli::format::version::VERSION;
use dayfly_cli::option::{Kind, Opt};

use crate::tools;

/// Returns dayfly as a clap command, without the tools' commands.
pub fn program() -> clap::Command {
    clap::Command::new(NAME)
        .version(VERSION)
        .about(ABOUT)
        .long_about(DESCRIPTION)
        .disable_version_flag(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args(GLOBALS.iter().map(|opt| option(opt)))
        .arg(option(&HELP))
        .subcommands(COMMANDS.iter().map(command))
}

/// Returns dayfly as a clap command with the tools' commands and all aliases, for shell completions.
pub fn with_tools() -> clap::Command {
    let whole = COMMANDS.iter().map(|definition| {
        let below = tools::below(definition.name);
        let alone = command(definition);
        let alone = match below.is_empty() {
            true => alone,
            // The command's arguments are the names of its subcommands.
            false => clap::Command::new(definition.name).about(definition.about).subcommands(below),
        };
        let names = ALIASES.iter().filter(|alias| alias.words == [definition.name]);
        alone.visible_aliases(names.filter(|alias| !alias.stands_alone).map(|alias| alias.name))
    });
    let empty = clap::Command::new(NAME).disable_help_subcommand(true);
    empty.args(GLOBALS.iter().map(|opt| option(opt))).subcommands(whole)
}

/// Converts one command's definition to a clap command.
pub fn command(command: &Command) -> clap::Command {
    let about = match command.description {
        "" => command.about.to_owned(),
        description => format!("{}\n\n{description}", command.about),
    };
    clap::Command::new(command.name)
        .about(command.about)
        .long_about(about)
        .version(VERSION)
        .disable_version_flag(true)
        .disable_help_flag(true)
        .args(command.options.iter().map(|opt| option(opt)))
        .arg(option(&HELP))
        .args(command.arguments.iter().map(argument))
}

fn option(opt: &Opt) -> Arg {
    let arg = Arg::new(opt.long).long(opt.long).short(opt.short).help(opt.help).hide(opt.hidden);
    if opt.kind == Kind::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    let action = if opt.is_repeatable() { ArgAction::Append } else { ArgAction::Set };
    let arg = arg.action(action).value_name(opt.value).value_hint(hint(opt.value));
    if opt.choices.is_empty() {
        return arg;
    }
    // The help already lists the possible values.
    arg.value_parser(opt.choices.to_vec()).hide_possible_values(true)
}

fn argument(argument: &Argument) -> Arg {
    let arg = Arg::new(argument.name)
        .value_name(argument.name)
        .value_hint(hint(argument.name))
        .required(!argument.optional);
    match argument.repeated {
        // The remaining arguments belong to another program.
        true => arg.num_args(0..).trailing_var_arg(true).allow_hyphen_values(true),
        false => arg,
    }
}

/// Returns the kind of completion for an option's value with this name.
fn hint(value: &str) -> ValueHint {
    match value {
        "DIR" | "BUNDLE" => ValueHint::DirPath,
        "FILE" | "SOCKET" => ValueHint::FilePath,
        "COMMAND" => ValueHint::CommandName,
        _ => ValueHint::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_know_the_tools_commands() {
        let whole = with_tools();
        whole.clone().debug_assert();
        for (command, below) in [
            ("image", "import"),
            ("bench", "burst"),
            ("cgroup", "classify"),
            ("host", "check"),
            ("profile", "learn"),
            ("rootfs", "mount"),
        ] {
            let command = whole.find_subcommand(command).unwrap();
            assert!(command.find_subcommand(below).is_some(), "{below}");
        }
        assert_eq!(whole.find_subcommand("ls").unwrap().get_name(), "list");
    }

    #[test]
    fn clap_finds_nothing_wrong() {
        program().debug_assert();
    }

    #[test]
    fn all_is_there() {
        let program = program();
        for definition in COMMANDS {
            let command = program.find_subcommand(definition.name).unwrap();
            let count = definition.options.len() + definition.arguments.len() + 1;
            assert_eq!(command.get_arguments().count(), count, "{}", definition.name);
        }
    }
}
