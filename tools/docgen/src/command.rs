//! The definitions of dayfly's command line as clap knows them.

use clap::{Arg, ArgAction, ValueHint};
use dayfly_cli::definition::options::HELP;
use dayfly_cli::definition::{
    ABOUT, Argument, COMMANDS, Command, DESCRIPTION, GLOBALS, Kind, NAME, Opt,
};
use dayfly_cli::format::version::VERSION;

/// The whole program.
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

/// One command.
pub fn command(command: &Command) -> clap::Command {
    let about = match command.description {
        "" => command.about.to_owned(),
        description => format!("{}\n\n{description}", command.about),
    };
    clap::Command::new(command.name)
        .about(command.about)
        .long_about(about)
        .version(VERSION)
        .hide(!command.is_supported())
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
    // The help says already what they are.
    arg.value_parser(opt.choices.to_vec()).hide_possible_values(true)
}

fn argument(argument: &Argument) -> Arg {
    let arg = Arg::new(argument.name)
        .value_name(argument.name)
        .value_hint(hint(argument.name))
        .required(!argument.optional);
    match argument.repeated {
        // What follows belongs to another program.
        true => arg.num_args(0..).trailing_var_arg(true).allow_hyphen_values(true),
        false => arg,
    }
}

/// What a shell can offer for a value of that name.
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
