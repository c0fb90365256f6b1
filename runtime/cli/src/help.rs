//! Help texts, generated from the definitions.

use core::fmt::{self, Display, Formatter};

use crate::NAME;
use crate::definition::options::HELP;
use crate::definition::{ABOUT, ALIASES, Argument, COMMANDS, Command, DESCRIPTION, GLOBALS};
use crate::option::Opt;

/// The usage of the program.
const PROGRAM: &str = "dayfly [global options] command [command options] [arguments...]";

/// The usage of the program, in one line.
pub struct ProgramUsage;

impl Display for ProgramUsage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Usage: {PROGRAM}")
    }
}

/// The usage of a command, in one line.
pub struct Usage(pub &'static Command);

impl Display for Usage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Usage: ")?;
        write_call(f, self.0)?;
        for form in self.0.other_forms() {
            write!(f, ", or {NAME} {} {form}", self.0.name)?;
        }
        write!(f, " ({NAME} {} --help)", self.0.name)
    }
}

fn write_call(f: &mut Formatter<'_>, command: &Command) -> fmt::Result {
    write!(f, "{NAME} {}", command.name)?;
    if !command.options.is_empty() {
        f.write_str(" [options]")?;
    }
    command.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
}

/// The help of the program.
pub struct ProgramHelp;

impl Display for ProgramHelp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "NAME:\n   {NAME} - {ABOUT}\n\n{DESCRIPTION}\n\n")?;
        write!(f, "USAGE:\n   {PROGRAM}\n\n")?;
        f.write_str("COMMANDS:\n")?;
        for command in COMMANDS {
            writeln!(f, "   {:<11} {}", command.name, command.about)?;
        }
        f.write_str("\nALIASES:\n")?;
        for alias in ALIASES {
            writeln!(f, "   {:<11} {}", alias.name, alias.words.join(" "))?;
        }
        f.write_str("\nGLOBAL OPTIONS:\n")?;
        write_options(f, GLOBALS)
    }
}

/// The help of a command.
pub struct CommandHelp(pub &'static Command);

impl Display for CommandHelp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let command = self.0;
        write!(f, "NAME:\n   {NAME} {} - {}\n\n", command.name, command.about)?;
        f.write_str("USAGE:\n   ")?;
        write_call(f, command)?;
        f.write_str("\n")?;
        for form in command.other_forms() {
            writeln!(f, "   {NAME} {} {form}", command.name)?;
        }
        if !command.description.is_empty() {
            write!(f, "\n{}\n", command.description)?;
        }
        f.write_str("\nOPTIONS:\n")?;
        write_options(f, command.options)?;
        if !command.examples.is_empty() {
            f.write_str("\nEXAMPLES:\n")?;
        }
        for example in command.examples {
            writeln!(f, "   # {NAME} {}\n      {}", example.line, example.does)?;
        }
        Ok(())
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let dots = if self.repeated { "..." } else { "" };
        match self.optional {
            true => write!(f, "[{}{dots}]", self.name),
            false => write!(f, "{}{dots}", self.name),
        }
    }
}

/// Writes the option's names and value: `--name VALUE, -n VALUE`.
impl Display for Opt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let space = if self.value.is_empty() { "" } else { " " };
        write!(f, "--{}{space}{}", self.long, self.value)?;
        match self.short {
            Some(short) => write!(f, ", -{short}{space}{}", self.value),
            None => Ok(()),
        }
    }
}

fn write_options(f: &mut Formatter<'_>, options: &[&Opt]) -> fmt::Result {
    for option in options.iter().copied().filter(|option| !option.hidden).chain([&HELP]) {
        writeln!(f, "   {option}\n      {}", option.help)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::find;

    #[test]
    fn command_help() {
        assert_eq!(
            CommandHelp(find("list").unwrap()).to_string(),
            "NAME:\n   dayfly list - list the containers of a state directory\n\n\
             USAGE:\n   dayfly list [options]\n\n\
             On a terminal, the table has columns that fit into a line: image and command,\n\
             but not the bundle. With --no-trunc, or if the output is not a terminal, the\n\
             table has the columns of runc.\n\n\
             OPTIONS:\n   --format FORMAT, -f FORMAT\n      table (default) or json\n   \
             --quiet, -q\n      print container ids only\n   \
             --no-trunc\n      print all columns in full, regardless of the terminal's width\n   \
             --help, -h\n      show help\n\n\
             EXAMPLES:\n   # dayfly list --format json\n      list containers as JSON\n"
        );
        let exec = CommandHelp(find("exec").unwrap()).to_string();
        assert!(exec.contains("dayfly exec [options] CONTAINER [COMMAND] [ARG...]\n"));
        let run = CommandHelp(find("run").unwrap()).to_string();
        let forms = "USAGE:\n   dayfly run [options] CONTAINER\n   \
                     dayfly run [options] --image REF [COMMAND] [ARG...]\n   \
                     dayfly run [options] --template NAME [ARG...]\n\n";
        assert!(run.contains(forms), "{run}");
        let events = CommandHelp(find("events").unwrap()).to_string();
        assert!(events.contains("CONTAINER\n   dayfly events [options] --all\n"), "{events}");
        assert!(!CommandHelp(find("kill").unwrap()).to_string().contains("--all"));
    }

    #[test]
    fn program_help_names_every_command() {
        let help = ProgramHelp.to_string();
        assert!(COMMANDS.iter().all(|command| help.contains(&format!("\n   {} ", command.name))));
    }
}
