//! dayfly's command line as one clap command: the runtime's table, and below its commands those of the tools.

use clap::{Arg, ArgAction, Command, CommandFactory, ValueHint};
use dayfly_cli::NAME;
use dayfly_cli::definition::options::HELP;
use dayfly_cli::definition::{self, ABOUT, ALIASES, COMMANDS, DESCRIPTION, GLOBALS, Options};
use dayfly_cli::option::{Kind, Opt};

/// The hint for names of existing containers. clap has no hint for names that a program lists, so two of its hints are
/// used that dayfly has no other use for. The completions replace the shells' functions for them.
pub const CONTAINER: ValueHint = ValueHint::Hostname;
/// The hint for names of existing images.
pub const IMAGE: ValueHint = ValueHint::Username;

/// Commands whose argument names a container that does not exist yet.
const MAKERS: [&str; 3] = ["create", "restore", "run"];

/// Returns dayfly's command line with that of the tools.
pub fn program() -> Command {
    plain(NAME)
        .about(ABOUT)
        .long_about(DESCRIPTION)
        .override_usage(dayfly_cli::help::PROGRAM)
        .next_help_heading("Global options")
        .args(options(GLOBALS))
        .arg(option(&HELP))
        .subcommands(COMMANDS.iter().map(command))
}

/// Returns a command without the options and subcommands that clap adds by itself.
fn plain(name: &'static str) -> Command {
    let command = Command::new(name).disable_help_flag(true).disable_version_flag(true);
    command.disable_help_subcommand(true)
}

/// Returns a command of the runtime's table. If a tool implements it, the tool has the complete definition.
fn command(definition: &definition::Command) -> Command {
    let (name, below) = (definition.name, below(definition.name));
    let same = match name {
        "trace" => find(self::below("bench"), "trace"),
        "gc" => find(self::below("rootfs"), "gc"),
        _ => None,
    };
    let arguments = definition.arguments.split_whitespace().filter(|_| below.is_empty());
    let command = same.unwrap_or_else(|| {
        plain(name)
            .override_usage(definition.calls().join("\n"))
            .args(grouped(definition))
            .arg(option(&HELP))
            .args(arguments.map(|argument| self::argument(argument, name)))
    });
    let description = match definition.description {
        "" => definition.about,
        description => description,
    };
    let aliases = ALIASES.iter().filter(|alias| alias.words == [name] && !alias.stands_alone);
    command
        .about(definition.about)
        .long_about(description)
        .visible_aliases(aliases.map(|alias| alias.name))
        .subcommands(below)
}

/// Returns the subcommands of a command that a tool executes.
fn below(name: &str) -> Vec<Command> {
    let mut all = vec![dayfly_bench::options::Options::command().name("bench")];
    for tool in [
        dayfly_image::options::Options::command(),
        dayfly_host::options::Options::command(),
        dayfly_host::profile::options::Options::command(),
    ] {
        all.extend(tool.get_subcommands().cloned());
    }
    let found = find(all, name).map(with_hints);
    found
        .iter()
        .flat_map(Command::get_subcommands)
        .filter(|below| !below.is_hide_set())
        .cloned()
        .collect()
}

fn find(commands: Vec<Command>, name: &str) -> Option<Command> {
    commands.into_iter().find(|command| command.get_name() == name)
}

/// Marks the arguments of a tool's commands that name images.
fn with_hints(command: Command) -> Command {
    let hinted = |arg: Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let is_image = arg.is_positional() && names.iter().any(|name| name == "IMAGE");
        if is_image { arg.value_hint(IMAGE) } else { arg }
    };
    command.disable_help_subcommand(true).mut_args(hinted).mut_subcommands(with_hints)
}

/// Returns a command's options, with the headings of their groups.
fn grouped(definition: &definition::Command) -> Vec<Arg> {
    let mut headings = definition.headings.iter();
    let (mut heading, mut all) = (None, Vec::new());
    for group in definition.options {
        match headings.next() {
            Some(&"" | &"OPTIONS") | None => {}
            Some(other) => heading = Some(*other),
        }
        all.extend(group.iter().map(|opt| option(opt).help_heading(heading)));
    }
    all
}

fn options(options: Options) -> impl Iterator<Item = Arg> {
    options.iter().copied().flatten().map(|opt| option(opt))
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

/// Converts an argument, such as `CONTAINER` or `[ARG...]`.
fn argument(text: &'static str, command: &str) -> Arg {
    let name = text.trim_matches(['[', ']']).trim_end_matches("...");
    let is_new = name == "CONTAINER" && MAKERS.contains(&command);
    let arg = Arg::new(name)
        .value_name(name)
        .value_hint(if is_new { ValueHint::Other } else { hint(name) })
        .required(!text.starts_with('['));
    match text.contains("...") {
        // The remaining arguments belong to another program.
        true => arg.num_args(0..).trailing_var_arg(true).allow_hyphen_values(true),
        false => arg,
    }
}

/// Returns the kind of completion for a value with this name.
fn hint(value: &str) -> ValueHint {
    match value {
        "DIR" | "BUNDLE" => ValueHint::DirPath,
        "FILE" | "SOCKET" => ValueHint::FilePath,
        "COMMAND" => ValueHint::CommandName,
        "CONTAINER" => CONTAINER,
        "REF" => IMAGE,
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
    fn tools_are_below_the_commands_that_execute_them() {
        let program = program();
        for (command, below) in [
            ("image", "import"),
            ("bench", "burst"),
            ("cgroup", "classify"),
            ("host", "check"),
            ("profile", "learn"),
            ("rootfs", "mount"),
        ] {
            let command = program.find_subcommand(command).unwrap();
            assert!(command.find_subcommand(below).is_some(), "{below}");
        }
        let trace = program.find_subcommand("trace").unwrap();
        assert!(trace.get_arguments().any(|arg| arg.get_long() == Some("runtime")));
        assert_eq!(program.find_subcommand("ls").unwrap().get_name(), "list");
    }
}
