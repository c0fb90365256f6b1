//! The page as Markdown, with its pictures beside it.

use super::{Block, MISSING, Page, Section};
use crate::report::line::Published;

pub(super) fn page(page: &Page) -> String {
    let blocks = page.blocks().into_iter().map(|block| text(page, block));
    blocks.collect::<Vec<_>>().join("\n\n") + "\n"
}

fn text(page: &Page, block: Block<'_>) -> String {
    match block {
        Block::Title(title) => format!("# {title}"),
        Block::Chapter(_, title) => format!("## {title}"),
        Block::Text(text) | Block::Small(text) => text,
        Block::Facts(facts) => {
            let rows = facts.into_iter().map(|(name, fact)| [name.to_owned(), fact]);
            format!("| | |\n|---|---|\n{}", rows.map(row).collect::<Vec<_>>().join("\n"))
        }
        Block::Contents => {
            let mut lines = Vec::new();
            for sections in page.papers() {
                lines.push(format!("- {}", sections[0].paper.title));
                lines.extend(sections.iter().map(|section| {
                    let (name, place) = (&section.part.name, &section.part.place);
                    format!("  - [{name}](#{name}): {place}{}", section.mark())
                }));
            }
            lines.join("\n")
        }
        Block::Part(part) => {
            let (name, place, about) = (&part.name, &part.place, &part.about);
            format!("<a id=\"{name}\"></a>\n\n### {place}\n\n`{name}`: {about}")
        }
        Block::Note(text, None) => cell(&text),
        Block::Note(text, Some(command)) => format!("{text}`{command}`"),
        Block::Figures(section) => table(section),
        Block::Picture(part, name, _) => format!("![{}]({name})", part.place),
        Block::Command(command) => format!("    {command}"),
    }
}

fn table(section: &Section) -> String {
    let columns = section.columns();
    let published = if section.has_published() { [" published |", "---|"] } else { ["", ""] };
    let headings: String = columns.iter().map(|column| format!(" {} |", cell(column))).collect();
    let mut lines = vec![
        format!("| |{}{headings} |", published[0]),
        format!("|---|{}{}---|", published[1], "--:|".repeat(columns.len())),
    ];
    for of in &section.measured.lines {
        let mut cells = vec![of.what.clone()];
        if section.has_published() {
            let texts = of.published.iter().map(one);
            cells.push(texts.collect::<Vec<_>>().join("; "));
        }
        if section.lacks(of) {
            cells.push(MISSING.to_owned());
            lines.push(row(cells) + &" |".repeat(columns.len()));
            continue;
        }
        cells.extend(columns.iter().map(|column| of.texts(column).join(", ")));
        cells.push(if of.measured.is_empty() { String::new() } else { of.unit.clone() });
        lines.push(row(cells));
    }
    lines.join("\n")
}

/// Formats a published figure, with its subject.
fn one(published: &Published) -> String {
    match published.of.as_str() {
        "" => published.text.clone(),
        of => format!("{}, {of}", published.text),
    }
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    cells.into_iter().fold("|".to_owned(), |row, text| format!("{row} {} |", cell(&text)))
}

/// Escapes text for a table cell: one line without column separators.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
