//! The page as Markdown, with its pictures beside it.

use super::{MISSING, Page, READING, Section, State, facts};
use std::fmt::Write;

pub(super) fn page(page: &Page) -> String {
    let [done, can] = page.done();
    let mut text = format!(
        "# Published figures, measured here\n\n{READING}\n\n{done} of {can} experiments are done.\n\n"
    );
    text += "## Host\n\n| | |\n|---|---|\n";
    for (name, fact) in facts(&page.host) {
        let _ = writeln!(text, "| {name} | {} |", cell(&fact));
    }
    text += "\n## Contents\n\n";
    for sections in page.papers() {
        let _ = writeln!(text, "- {}", sections[0].title);
        for section in sections {
            let (part, place) = (section.part, section.place);
            let _ = writeln!(text, "  - [{part}](#{part}): {place}{}", section.mark());
        }
    }
    for sections in page.papers() {
        let first = &sections[0];
        let (title, by, on) = (first.title, first.by, first.on);
        let _ = write!(text, "\n## {title}\n\n{by}. Measured on {on}.\n");
        for section in sections {
            one(&mut text, section);
        }
    }
    text
}

fn one(text: &mut String, section: &Section) {
    let (part, place, about) = (section.part, section.place, section.about);
    let _ = write!(text, "\n<a id=\"{part}\"></a>\n\n### {place}\n\n`{part}`: {about}\n");
    match &section.state {
        State::Done(_) => {}
        State::Failed(reason) => {
            let _ = write!(text, "\nIt failed: {}\n", cell(reason));
        }
        State::Open => {
            let _ = write!(text, "\nNot measured yet: `dayfly bench report --only {part}`\n");
        }
        State::NotHere(why) => {
            let _ = write!(text, "\nNot shown here: {why}\n");
        }
    }
    table(text, section);
    for note in section.notes() {
        let _ = write!(text, "\n{}\n", cell(&note));
    }
    for picture in &section.pictures {
        let _ = write!(text, "\n![{}]({picture})\n", section.place);
    }
    if let Some(command) = &section.command {
        let _ = write!(text, "\n    {command}\n");
    }
    if let Some(record) = section.record() {
        let _ = write!(text, "\n{record}\n");
    }
}

fn table(text: &mut String, section: &Section) {
    if section.lines.is_empty() {
        return;
    }
    let columns = section.columns();
    let has_published = section.has_published();
    text.push_str(if has_published { "\n| | published |" } else { "\n| |" });
    for column in &columns {
        let _ = write!(text, " {} |", cell(column));
    }
    text.push_str(if has_published { " |\n|---|---|" } else { " |\n|---|" });
    text.push_str(&"--:|".repeat(columns.len()));
    text.push_str("---|\n");
    for row in &section.lines {
        let _ = write!(text, "| {} |", cell(&row.what));
        if has_published {
            let _ = write!(text, " {} |", cell(&row.published()));
        }
        if section.lacks(row) {
            let _ = writeln!(text, " {MISSING} |{}", " |".repeat(columns.len()));
            continue;
        }
        for column in &columns {
            let _ = write!(text, " {} |", cell(&row.cell(column)));
        }
        let unit = if row.measured.is_empty() { "" } else { row.unit };
        let _ = writeln!(text, " {unit} |");
    }
}

/// Escapes text for a table cell: one line without column separators.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
