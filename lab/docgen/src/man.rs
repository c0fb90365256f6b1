//! Man pages: one for the program and one per command. clap_mangen writes what clap knows; the other sections of
//! man-pages(7) follow.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap::builder::StyledStr;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use dayfly_cli::NAME;
use dayfly_cli::definition::{ALIASES, find};
use dayfly_cli::format::version::VERSION;

use crate::tables::{self, Item};

/// The manual section of the pages: 8, system administration.
const SECTION: &str = "8";

/// The change log, for the dates of versions.
const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

/// The page of containerd's shim. Its flags are defined by containerd, so the page is written by hand.
const SHIM: &str = include_str!("containerd-shim-dayfly-v2.8");

/// Writes `dayfly.8`, a page `dayfly-COMMAND.8` for each command, and the shim's page.
pub fn write(program: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut program = program.clone();
    program.build();
    let mut commands = vec![&program];
    let mut at = 0;
    while let Some(command) = commands.get(at) {
        commands.extend(command.get_subcommands().filter(|below| !below.is_hide_set()));
        at += 1;
    }
    for command in &commands {
        let text = page(command, &commands)?;
        fs::write(directory.join(format!("{}.{SECTION}", name(command))), text)?;
    }
    let mut status = Roff::new();
    items(&mut status, "EXIT STATUS", &tables::shim_exit_status());
    let head = format!("{} \"dayfly {VERSION}\"", date());
    let shim = SHIM.replace("@HEAD@", &head).replace("@EXIT STATUS@\n", &status.to_roff());
    fs::write(directory.join(format!("containerd-shim-dayfly-v2.{SECTION}")), shim)
}

/// Returns the name of a command's page, such as `dayfly-host-check`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(NAME)
}

/// Returns the command's words without the program's name, such as `host check`.
fn words(command: &Command) -> &str {
    let whole = command.get_bin_name().unwrap_or(NAME);
    whole.strip_prefix(NAME).unwrap_or(whole).trim_start()
}

fn page(command: &Command, all: &[&Command]) -> io::Result<String> {
    let words = words(command);
    let text = |text: Option<&StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let after = text(command.get_after_long_help().or(command.get_after_help()));
    let about = text(command.get_long_about().or(command.get_about()));
    let description = match after.starts_with("Exit status:") {
        // The exit status has its own section.
        true => about,
        false => format!("{about}\n\n{after}"),
    };
    let usage = command.clone().render_usage().to_string();
    // Without help, an argument is in the synopsis only.
    let documented = command.clone().mut_args(|arg| match arg.get_help() {
        None if arg.is_positional() => arg.hide(true),
        _ => arg,
    });
    let documented = documented
        .long_about(description.trim_end().to_owned())
        .after_help(None::<&str>)
        .after_long_help(None::<&str>)
        .override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let man = Man::new(documented)
        .title(name(command))
        .section(SECTION)
        .date(date())
        .source(format!("{NAME} {VERSION}"))
        .manual("dayfly's manual");
    let mut source = Vec::new();
    man.render(&mut source)?;

    let mut more = Roff::new();
    if words.is_empty() {
        items(&mut more, "ALIASES", &aliases());
    }
    items(&mut more, "EXIT STATUS", &tables::exit_status(words));
    items(&mut more, "ENVIRONMENT", &tables::environment(words));
    items(&mut more, "FILES", &tables::files(words));
    let examples = find(words).map_or(&[][..], |definition| definition.examples);
    for (at, (line, does)) in examples.iter().enumerate() {
        match at {
            0 => more.control("SH", ["EXAMPLES"]),
            _ => more.control("PP", []),
        };
        more.text([roman(format!("{does}:"))]);
        more.control("PP", []).control("RS", ["4"]).control("EX", []);
        more.text([bold(format!("{NAME} {line}"))]);
        more.control("EE", []).control("RE", []);
    }
    see_also(&mut more, command, &description, all);
    more.to_writer(&mut source)?;
    String::from_utf8(source).map(|source| tidy(&source)).map_err(io::Error::other)
}

/// Adds a section with a list.
fn items(page: &mut Roff, heading: &str, items: &[Item]) {
    if !items.is_empty() {
        page.control("SH", [heading]);
    }
    for (tag, text) in items {
        page.control("TP", []).text(markdown(tag));
        if !text.is_empty() {
            page.text(markdown(text));
        }
    }
}

/// Converts a cell of a Markdown table: texts in backquotes are bold, and links are left out.
fn markdown(text: &str) -> Vec<Inline> {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once('[')
        && let Some((name, (target, after))) =
            link.split_once("](").and_then(|(name, after)| Some((name, after.split_once(')')?)))
    {
        plain.push_str(before);
        // A link to a page after a colon only says where there is more.
        match target.starts_with(name) && plain.ends_with(": ") {
            true => plain.truncate(plain.len() - 2),
            false => plain.push_str(name),
        }
        rest = after;
    }
    plain.push_str(rest);
    let parts = plain.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { roman(part) } else { bold(part) }).collect()
}

/// Returns the other names of commands.
fn aliases() -> Vec<Item> {
    let item = |alias: &dayfly_cli::definition::Alias| {
        let alone = if alias.stands_alone { ", without an argument" } else { "" };
        let meant = match alias.words {
            ["version"] => "--version".to_owned(),
            words => words.join(" "),
        };
        (format!("`{}`", alias.name), format!("The same as `{meant}`{alone}."))
    };
    ALIASES.iter().map(item).collect()
}

/// Adds references to the page above, to the pages of commands that the description names, such as "dayfly host locks",
/// and from the program's page to other programs.
fn see_also(page: &mut Roff, command: &Command, description: &str, all: &[&Command]) {
    let description = description.replace('\n', " ");
    let is_above = |other: &Command| {
        words(command).rsplit_once(' ').map_or("", |(above, _)| above) == words(other)
    };
    let is_named = |other: &Command| {
        let start = format!("\"{NAME} {}", words(other));
        let mut after = description.split(start.as_str()).skip(1);
        after
            .any(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-'))
    };
    let others = all.iter().filter(|other| name(other) != name(command));
    let mut pages: Vec<(&str, &str)> = others
        .filter(|other| is_above(other) || !words(other).is_empty() && is_named(other))
        .map(|other| (SECTION, name(other)))
        .collect();
    if words(command).is_empty() {
        pages.extend([("8", "containerd-shim-dayfly-v2"), ("1", "crun"), ("8", "runc")]);
    }
    pages.sort_unstable();
    page.control("SH", ["SEE ALSO"]);
    for (at, (section, name)) in pages.iter().enumerate() {
        let comma = if at + 1 < pages.len() { "," } else { "" };
        let name = name.replace('-', "\\-");
        page.control("BR", [name.as_str(), &format!("({section}){comma}")]);
    }
}

/// Turns off hyphenation and justification, which would break up names and options, and turns empty lines into requests
/// for space, as mandoc(1) wants, and letters beyond ASCII into their names, as groff(1) wants.
fn tidy(source: &str) -> String {
    let source = source.replace(".br\n\n.br\n", ".sp\n").replace("\n\n", "\n.sp\n");
    let source = source.replacen(".SH NAME", ".nh\n.ad l\n.SH NAME", 1);
    let ascii = |letter: char| match letter.is_ascii() {
        true => letter.to_string(),
        false => format!("\\[u{:04X}]", u32::from(letter)),
    };
    source.chars().map(ascii).collect()
}

/// Returns the release date of this version, or that of the last release if this version has none yet.
fn date() -> &'static str {
    let day = |heading: &'static str| heading.rsplit_once(" - ").map(|(_, day)| day.trim());
    let headings = || CHANGELOG.lines().filter(|line| line.starts_with("## ["));
    let own = headings().find(|line| line.starts_with(&format!("## [{VERSION}]")));
    own.and_then(day).or_else(|| headings().find_map(day)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lose_their_links() {
        let plain = |text| markdown(text);
        assert_eq!(plain("as `--x`: [trace.md](trace.md)"), [roman("as "), bold("--x"), roman("")]);
        assert_eq!(plain("[the shim](shim.md#x) and [x"), [roman("the shim and [x")]);
    }

    #[test]
    fn the_date_has_year_month_and_day() {
        let digits = date().split('-').map(str::len).collect::<Vec<_>>();
        assert_eq!(digits, [4, 2, 2]);
    }

    #[test]
    fn all_flags_of_the_shim_are_on_its_page() {
        let source = include_str!("../../../runtime/shim/src/flags.rs");
        let usage = source.split("const USAGE").nth(1).unwrap().split("\";").next().unwrap();
        let words = usage.split_whitespace();
        let flags = words.filter(|word| word.starts_with('-')).map(|word| word.replace('-', "\\-"));
        for flag in flags {
            assert!(SHIM.lines().any(|line| line.split(' ').nth(1) == Some(&flag)), "{flag}");
        }
    }
}
