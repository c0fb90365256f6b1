//! A manual page: its sections, in the order of man-pages(7).

use dayfly_cli::format::version::VERSION;

use super::roff::{Span, argument, bold, line, lines, roman};

/// The manual section of the pages: 8, system administration.
pub const SECTION: &str = "8";

/// The name of the manual.
const MANUAL: &str = "dayfly's manual";

/// The change log, for the dates of versions.
const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

/// Sections, in the order of man-pages(7).
pub const ORDER: [&str; 9] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "EXIT STATUS",
    "ENVIRONMENT",
    "FILES",
    "EXAMPLES",
    "SEE ALSO",
];

/// An entry of a list: a tag and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The tag, in one line.
    pub tag: Vec<Span>,
    /// The text, a paragraph; may be empty.
    pub text: Vec<Span>,
    /// The entries of a list below the text.
    pub below: Vec<Item>,
}

impl Item {
    /// Returns an entry without a list below it.
    pub fn new(tag: Vec<Span>, text: Vec<Span>) -> Self {
        Self { tag, text, below: Vec::new() }
    }
}

/// A page in progress.
#[derive(Debug)]
pub struct Page {
    name: String,
    sections: Vec<(&'static str, String)>,
}

impl Page {
    /// Creates the page `name`; `about` is its one-line description.
    pub fn new(name: &str, about: &str) -> Self {
        let mut page = Self { name: name.to_owned(), sections: Vec::new() };
        // Tools such as apropos(1) read this line, which must have `\-` and no fonts.
        let name = argument(name);
        page.section("NAME").push_str(&format!("{name} \\- {}", lines(&[roman(about)])));
        page
    }

    /// Adds the synopses, one per line.
    pub fn synopsis(&mut self, ways: &[Vec<Span>]) {
        let section = self.section("SYNOPSIS");
        for (at, way) in ways.iter().enumerate() {
            if at > 0 {
                section.push_str(".br\n");
            }
            section.push_str(&line(way));
        }
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, section: &'static str, text: &[Span]) {
        let section = self.section(section);
        if !section.is_empty() {
            section.push_str(".PP\n");
        }
        section.push_str(&lines(text));
    }

    /// Adds a heading within a section.
    pub fn heading(&mut self, section: &'static str, heading: &str) {
        self.section(section).push_str(&format!(".SS {}\n", argument(heading)));
    }

    /// Adds a list.
    pub fn items(&mut self, section: &'static str, items: &[Item]) {
        if !items.is_empty() {
            list(self.section(section), items);
        }
    }

    /// Adds an example: a description and a command line.
    pub fn example(&mut self, does: &[Span], command: &str) {
        self.paragraph("EXAMPLES", does);
        let command = line(&[bold(command)]);
        self.section("EXAMPLES").push_str(&format!(".PP\n.RS 4\n.EX\n{command}.EE\n.RE\n"));
    }

    /// Adds references to other pages, `name(section)`, and sorts them.
    pub fn see_also(&mut self, pages: &[String]) {
        let mut pages: Vec<(&str, &str)> =
            pages.iter().filter_map(|page| page.strip_suffix(')')?.split_once('(')).collect();
        pages.retain(|(name, _)| *name != self.name);
        pages.sort_by_key(|(name, section)| (*section, *name));
        pages.dedup();
        let mut text = String::new();
        for (at, (name, section)) in pages.iter().enumerate() {
            let comma = if at + 1 < pages.len() { "," } else { "" };
            text.push_str(&format!(".BR {} ({section}){comma}\n", argument(name)));
        }
        self.section("SEE ALSO").push_str(&text);
    }

    /// Returns the page's source.
    pub fn finish(mut self) -> String {
        let place = |name: &str| ORDER.iter().position(|other| *other == name);
        self.sections.sort_by_key(|(name, _)| place(name));
        let (name, date) = (argument(&self.name), date());
        let mut source =
            String::from(".\\\" Written by dayfly-docgen; the definitions are what to edit.\n");
        // The header contains the name on both sides, and the manual's name between them if it fits in 80 columns.
        let is_short = 2 * (self.name.len() + "(8)".len()) + MANUAL.len() + 4 <= 80;
        let manual = if is_short { MANUAL } else { r"\&" };
        source
            .push_str(&format!(".TH {name} {SECTION} {date} \"dayfly {VERSION}\" \"{manual}\"\n"));
        // Turns off hyphenation and justification, which would break up names and options.
        source.push_str(".nh\n.ad l\n");
        for (name, text) in self.sections.iter().filter(|(_, text)| !text.is_empty()) {
            source.push_str(&format!(".SH {}\n{text}", argument(name).replace('"', "")));
        }
        source
    }

    fn section(&mut self, name: &'static str) -> &mut String {
        assert!(ORDER.contains(&name), "{name} has no place");
        let at = match self.sections.iter().position(|(other, _)| *other == name) {
            Some(at) => at,
            None => {
                self.sections.push((name, String::new()));
                self.sections.len() - 1
            }
        };
        &mut self.sections[at].1
    }
}

fn list(source: &mut String, items: &[Item]) {
    for item in items {
        source.push_str(".TP\n");
        source.push_str(&line(&item.tag));
        source.push_str(&lines(&item.text));
        if !item.below.is_empty() {
            source.push_str(".RS\n");
            list(source, &item.below);
            source.push_str(".RE\n");
        }
    }
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
    use crate::man::roff::italic;

    #[test]
    fn sections_have_the_order_of_man_pages() {
        let mut page = Page::new("dayfly-x", "do x");
        page.see_also(&["ps(1)".to_owned(), "dayfly-x(8)".to_owned(), "ls(1)".to_owned()]);
        page.paragraph("FILES", &[italic("/x")]);
        page.synopsis(&[vec![bold("dayfly x")]]);
        let source = page.finish();
        let sections: Vec<&str> =
            source.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        assert_eq!(sections, ["NAME", "SYNOPSIS", "FILES", "SEE ALSO"]);
        assert!(source.contains(".SH NAME\ndayfly\\-x \\- do x\n"));
        assert!(source.ends_with(".BR ls (1),\n.BR ps (1)\n"));
    }

    #[test]
    fn the_date_has_year_month_and_day() {
        let digits = date().split('-').map(str::len).collect::<Vec<_>>();
        assert_eq!(digits, [4, 2, 2]);
    }
}
