//! Man pages: one for the program and one per command, in the form of man-pages(7).

mod markup;
mod options;
pub mod page;
pub mod roff;
pub mod tables;

use std::fs;
use std::io;
use std::path::Path;

use dayfly_cli::NAME;
use dayfly_cli::definition::{ABOUT, ALIASES, COMMANDS, Command, DESCRIPTION, Order};

use crate::{command, tools};
use markup::{Words, sentence, spans};
use page::{Item, Page, SECTION};
use roff::{Span, bold, italic, roman};
use tables::Subject;

/// Writes `dayfly.8` and a page `dayfly-COMMAND.8` for each command.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let put =
        |page: &str, text: String| fs::write(directory.join(format!("{page}.{SECTION}")), text);
    put(NAME, program())?;
    for definition in COMMANDS {
        put(&name_of(definition.name), of(definition))?;
    }
    for (name, mut command) in tools::all() {
        command.build();
        for (words, command) in below(&command, name) {
            put(&name_of(&words), tool(&command, &words))?;
        }
    }
    Ok(())
}

/// Returns all subcommands of `command`, whose name is `words`, except those that are in dayfly's own table of
/// commands, which have pages already.
fn below(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    for command in shown(command) {
        let words = format!("{words} {}", command.get_name());
        let words = words.trim_start();
        found.extend(below(command, words));
        if words.contains(' ') {
            found.push((words.to_owned(), command.clone()));
        }
    }
    found
}

fn shown(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let is_shown =
        |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(is_shown)
}

/// Returns the name of the page of the command `words`.
fn name_of(words: &str) -> String {
    format!("{NAME}-{}", words.replace(' ', "-"))
}

fn program() -> String {
    let mut command = command::program();
    command.build();
    let mut page = Page::new(NAME, ABOUT);
    let mut way = vec![bold(NAME), roman(" ["), italic("global-option"), roman(" ...] ")];
    way.extend([italic("command"), roman(" ["), italic("option"), roman(" ...] [")]);
    way.extend([italic("argument"), roman(" ...]")]);
    page.synopsis(&[way]);
    paragraphs(&mut page, DESCRIPTION, &options::words(&command));
    commands(&mut page, &command, "");
    aliases(&mut page);
    page.paragraph("OPTIONS", &[roman("These stand before the command.")]);
    page.items("OPTIONS", &options::items(&command));
    what_docs_say(&mut page, &Subject::Program, Vec::new());
    let names = shown(&command).map(|command| reference(command.get_name()));
    let others = ["containerd-shim-dayfly-v2(8)", "crun(1)", "runc(8)"].map(str::to_owned);
    page.see_also(&names.chain(others).collect::<Vec<_>>());
    page.finish()
}

/// Returns the page of a command of dayfly's own table.
fn of(definition: &Command) -> String {
    // The program that implements the command has the complete definition.
    let same = tools::same(definition.name);
    let mut command = same.unwrap_or_else(|| command::command(definition));
    command.build();
    let words = options::words(&command);
    let whole = format!("{NAME} {}", definition.name);
    let mut page = Page::new(&name_of(definition.name), definition.about);
    let mut ways = vec![options::synopsis(&command, &whole)];
    for (option, arguments) in definition.order.changing() {
        let mut way = vec![bold(format!("{whole} --{}", option.long)), roman(" ")];
        way.extend([italic(option.value), roman(" ["), italic("option"), roman(" ...] ")]);
        way.push(roman(*arguments));
        ways.push(way);
    }
    page.synopsis(&ways);
    let description = match definition.description {
        "" => sentence(definition.about, &words),
        description => description.to_owned(),
    };
    paragraphs(&mut page, &description, &words);
    let below = tools::below(definition.name);
    let tool = clap::Command::new(definition.name).subcommands(below);
    commands(&mut page, &tool, definition.name);
    page.items("OPTIONS", &options::items(&command));
    let subject = match definition.order {
        Order::PassedOn => Subject::Tool(definition.name),
        _ => Subject::Command(definition.name),
    };
    what_docs_say(&mut page, &subject, options::variables(&command));
    for example in definition.examples {
        let does = format!("{}:", sentence(example.does, &words).trim_end_matches('.'));
        page.example(&spans(&does, &words), &format!("{NAME} {}", example.line));
    }
    let mut names = mentioned(&description);
    names.extend(
        shown(&tool)
            .map(|command| reference(&format!("{} {}", definition.name, command.get_name()))),
    );
    names.push(format!("{NAME}({SECTION})"));
    page.see_also(&names);
    page.finish()
}

/// Returns the page of a tool's command, which clap defines.
fn tool(command: &clap::Command, name: &str) -> String {
    let words = options::words(command);
    let text =
        |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let about = text(command.get_about());
    let long = text(command.get_long_about());
    let mut page = Page::new(&name_of(name), &lower(&about));
    page.synopsis(&[options::synopsis(command, &format!("{NAME} {name}"))]);
    paragraphs(&mut page, &sentence(&about, &words), &words);
    paragraphs(&mut page, long.strip_prefix(&about).unwrap_or(&long), &words);
    let after = text(command.get_after_long_help().or_else(|| command.get_after_help()));
    // The exit status has its own section.
    if !after.starts_with("Exit status:") {
        paragraphs(&mut page, &after, &words);
    }
    commands(&mut page, command, name);
    page.items("OPTIONS", &options::items(command));
    what_docs_say(&mut page, &Subject::Tool(name), options::variables(command));
    let above = name.rsplit_once(' ').map_or("", |(above, _)| above);
    let mut names = mentioned(&format!("{long} {after}"));
    names.push(reference(above));
    names.extend(shown(command).map(|below| reference(&format!("{name} {}", below.get_name()))));
    page.see_also(&names);
    page.finish()
}

/// Returns a reference to a command's page, such as `dayfly-host-check(8)`.
fn reference(words: &str) -> String {
    format!("{}({SECTION})", name_of(words))
}

/// Lists the subcommands with their descriptions.
fn commands(page: &mut Page, command: &clap::Command, words: &str) {
    let item = |below: &clap::Command| {
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        let name = name_of(format!("{words} {}", below.get_name()).trim_start());
        let none = Words::default();
        Item::new(
            vec![bold(name), roman(format!("({SECTION})"))],
            spans(&sentence(&about, &none), &none),
        )
    };
    let items: Vec<Item> = shown(command).map(item).collect();
    if !items.is_empty() {
        page.heading("DESCRIPTION", "Commands");
        page.items("DESCRIPTION", &items);
    }
}

/// Lists the other names of commands.
fn aliases(page: &mut Page) {
    let items: Vec<Item> = ALIASES
        .iter()
        .map(|alias| {
            let alone = if alias.stands_alone { ", without an argument" } else { "" };
            let meant = match alias.words {
                ["version"] => "--version".to_owned(),
                words => words.join(" "),
            };
            let text = vec![roman("The same as "), bold(meant), roman(format!("{alone}."))];
            Item::new(vec![bold(alias.name)], text)
        })
        .collect();
    page.heading("DESCRIPTION", "Aliases");
    page.items("DESCRIPTION", &items);
}

/// Adds the sections about exit status, variables and files. `variables` are those that stand for options.
fn what_docs_say(page: &mut Page, subject: &Subject<'_>, variables: Vec<Item>) {
    page.items("EXIT STATUS", &tables::exit_status(subject));
    let mut found = tables::environment(subject);
    let is_new = |item: &Item, found: &[Item]| !found.iter().any(|other| other.tag == item.tag);
    for item in variables {
        if is_new(&item, &found) {
            found.push(item);
        }
    }
    page.items("ENVIRONMENT", &found);
    page.items("FILES", &tables::files(subject));
}

fn paragraphs(page: &mut Page, text: &str, words: &Words) {
    for paragraph in text.trim().split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        page.paragraph("DESCRIPTION", &spans(&sentence(paragraph, words), words));
    }
}

/// Returns the pages of the commands that a text names, such as "dayfly host locks".
fn mentioned(text: &str) -> Vec<String> {
    let is_word = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let quoted = text.split('"').skip(1).step_by(2);
    let mut pages = Vec::new();
    for words in quoted.filter_map(|quoted| quoted.strip_prefix("dayfly ")) {
        let words: Vec<&str> = words.split_whitespace().take_while(is_word).collect();
        // The longest sequence of words that has a page.
        let found = (1..=words.len())
            .rev()
            .map(|count| words[..count].join(" "))
            .find(|words| is_page(words));
        pages.extend(found.map(|words| reference(&words)));
    }
    pages
}

fn is_page(words: &str) -> bool {
    let is_command = COMMANDS.iter().any(|command| command.name == words);
    let is_below = |(name, command): &(&str, clap::Command)| {
        below(command, name).iter().any(|(other, _)| other == words)
    };
    is_command || tools::all().iter().any(is_below)
}

/// Returns a description in the form of the NAME section: with a lower-case first letter, and without a full stop.
fn lower(about: &str) -> String {
    let mut letters = about.chars();
    let is_word = letters.next().is_some_and(char::is_uppercase)
        && letters.next().is_some_and(|letter| !letter.is_uppercase());
    let mut about = about.trim_end_matches('.').to_owned();
    if is_word && let Some(letter) = about.get_mut(..1) {
        letter.make_ascii_lowercase();
    }
    about
}

/// Marks up a text that contains no names of values or arguments.
pub fn text(text: &str) -> Vec<Span> {
    spans(text, &Words::default())
}

/// Marks up a text that contains no names of values or arguments, as a sentence.
pub fn text_sentence(line: &str) -> Vec<Span> {
    text(&sentence(line, &Words::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
        page.lines().filter(|line| line.starts_with(start)).collect()
    }

    #[test]
    fn every_page_has_the_sections_in_order() {
        let place =
            |heading: &&str| page::ORDER.iter().position(|name| heading[4..] == **name).unwrap();
        for definition in COMMANDS {
            let page = of(definition);
            let places: Vec<usize> = lines_of(&page, ".SH ").iter().map(place).collect();
            assert!(places.is_sorted(), "{}: {places:?}", definition.name);
            assert_eq!(places[..4], [0, 1, 2, 3], "{}", definition.name);
            assert_eq!(places.last(), Some(&(page::ORDER.len() - 1)), "{}", definition.name);
        }
    }

    #[test]
    fn a_page_refers_to_those_it_names() {
        assert_eq!(mentioned("by \"dayfly host locks --work mounts\""), ["dayfly-host-locks(8)"]);
        assert_eq!(
            mentioned("\"dayfly rootfs --help\" and \"dayfly nothing\""),
            ["dayfly-rootfs(8)"]
        );
    }

    #[test]
    fn commands_that_are_another_program_have_its_options() {
        let trace = COMMANDS.iter().find(|command| command.name == "trace").unwrap();
        assert!(of(trace).contains("\\-\\-runtime"));
    }
}
