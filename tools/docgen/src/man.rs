//! Man pages: one for the program, one a command.

use std::fs;
use std::io;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use dayfly_cli::definition::{COMMANDS, Command, NAME};

use crate::{command, tools};

/// System administration.
const SECTION: &str = "8";

/// Writes `dayfly.8` and a page `dayfly-COMMAND.8` for each command.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join(format!("{NAME}.{SECTION}")), program()?)?;
    for definition in COMMANDS {
        let page = directory.join(format!("{NAME}-{}.{SECTION}", definition.name));
        fs::write(page, of(definition)?)?;
    }
    tools::all().iter().try_for_each(|(name, command)| below(directory, command, name))
}

/// Pages of all commands below `command`, which `words` lead to.
fn below(directory: &Path, command: &clap::Command, words: &str) -> io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let words = format!("{words} {}", command.get_name());
        let words = words.trim_start();
        below(directory, command, words)?;
        // The commands of the table have pages already.
        if words.contains(' ') {
            let page = format!("{NAME}-{}.{SECTION}", words.replace(' ', "-"));
            fs::write(directory.join(page), tool(command, words)?)?;
        }
    }
    Ok(())
}

fn program() -> io::Result<Vec<u8>> {
    let man = Man::new(command::program()).section(SECTION);
    let usage = "[global options] command [options] [arguments]";
    let mut page = begin(&man, NAME, usage)?;
    man.render_subcommands_section(&mut page)?;
    let mut end = Roff::new();
    end.control("SH", ["EXIT STATUS"]);
    end.text([roman(
        "0 if the command did its work, 1 if not, also where it was called wrongly. run and exec \
         return the exit status of the program they ran, 128 and its number if a signal ended it; exec \
         returns 255 if it could not run the program.",
    )]);
    see_also(&mut end, &["runc", "crun"]);
    end.to_writer(&mut page)?;
    Ok(page)
}

fn of(definition: &Command) -> io::Result<Vec<u8>> {
    let name = format!("{NAME}-{}", definition.name);
    let man = Man::new(command::command(definition).name(name)).section(SECTION);
    let arguments: Vec<String> = definition.arguments.iter().map(ToString::to_string).collect();
    let usage = format!("[options] {}", arguments.join(" "));
    let mut page = begin(&man, &format!("{NAME} {}", definition.name), &usage)?;
    let mut end = Roff::new();
    if !definition.examples.is_empty() {
        end.control("SH", ["EXAMPLES"]);
    }
    for example in definition.examples {
        end.control("TP", []);
        end.text([bold(format!("{NAME} {}", example.line))]);
        end.text([roman(example.does)]);
    }
    see_also(&mut end, &[NAME]);
    end.to_writer(&mut page)?;
    Ok(page)
}

/// A command of a tool, whose definitions are clap's own.
fn tool(definition: &clap::Command, words: &str) -> io::Result<Vec<u8>> {
    let name = format!("{NAME}-{}", words.replace(' ', "-"));
    let man = Man::new(definition.clone().name(name)).section(SECTION);
    let arguments = definition.get_positionals().map(ToString::to_string);
    let usage: Vec<String> = std::iter::once("[options]".to_owned()).chain(arguments).collect();
    let mut page = begin(&man, &format!("{NAME} {words}"), &usage.join(" "))?;
    let mut end = Roff::new();
    let above = words.rsplit_once(' ').map_or(words, |(above, _)| above).replace(' ', "-");
    see_also(&mut end, &[&format!("{NAME}-{above}")]);
    end.to_writer(&mut page)?;
    Ok(page)
}

/// A page up to its options.
fn begin(man: &Man, command: &str, usage: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]);
    synopsis.text([bold(command), roman(" "), roman(usage)]);
    synopsis.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    Ok(page)
}

fn see_also(page: &mut Roff, names: &[&str]) {
    page.control("SH", ["SEE ALSO"]);
    let names: Vec<String> = names.iter().map(|name| format!("{name}({SECTION})")).collect();
    page.text([roman(names.join(", "))]);
}
