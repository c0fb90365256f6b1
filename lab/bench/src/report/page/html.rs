//! The page as HTML: a single file that contains the pictures, and loads no other files.

use super::{Block, MISSING, Page, Section};
use crate::report::line::Published;

/// The style sheet. The page's colours are light or dark, as the reader's system prefers. Pictures have a white
/// background.
const STYLE: &str = "\
    :root{color-scheme:light dark;--text:#222;--page:#fff;--line:#ccc;--faint:#666;--box:#f4f4f4;--note:#fff6e0}\
    @media(prefers-color-scheme:dark){:root{--text:#ddd;--page:#181818;--line:#444;--faint:#aaa;--box:#262626;\
    --note:#3a3320}a{color:#8ab4f8}}\
    body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:var(--text);\
    background:var(--page);overflow-wrap:break-word}h1,h2,h3{line-height:1.2}\
    h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1rem}h3{margin-top:2.5rem}\
    h3 code{font-weight:normal;font-size:.85em;color:var(--faint)}table{border-collapse:collapse;margin:1rem 0}\
    td,th{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}\
    td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n,td.u{white-space:nowrap}td.p{min-width:12rem}td.w{min-width:8rem}\
    td small{display:block}small,.small,td.m{color:var(--faint);font-size:.85em}\
    pre{background:var(--box);padding:.6rem;white-space:pre-wrap}.note{background:var(--note);padding:.5rem .8rem}\
    div.wide{overflow-x:auto}figure{margin:1rem 0;overflow-x:auto}\
    svg{display:block;min-width:44rem;max-width:100%;height:auto;background:#fff}\
    @media print{body{max-width:none;margin:0;font-size:11px}h2,h3{break-after:avoid}\
    figure,tr,pre{break-inside:avoid}svg{min-width:0;max-height:22cm}\
    div.wide{overflow:visible}td,th{padding:.2em .35em}td.p,td.w{min-width:0}}";

pub(super) fn page(page: &Page) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>Published figures, measured here: dayfly bench report</title>\
         <style>{STYLE}</style></head><body>\n"
    );
    for block in page.blocks() {
        text += &one(page, block);
        text.push('\n');
    }
    text + "</body></html>\n"
}

fn one(page: &Page, block: Block<'_>) -> String {
    match block {
        Block::Title(title) => format!("<h1>{title}</h1>"),
        Block::Chapter(id, title) => format!("<h2 id=\"{id}\">{}</h2>", escaped(title)),
        Block::Text(text) => format!("<p>{}</p>", escaped(&text)),
        Block::Facts(facts) => {
            let row = |(name, fact): (_, String)| {
                format!("<tr><th>{name}</th><td>{}</td></tr>\n", escaped(&fact))
            };
            let rows: String = facts.into_iter().map(row).collect();
            format!("<div class=\"wide\"><table>\n{rows}</table></div>")
        }
        Block::Contents => {
            let papers = page.papers().zip(1..).map(|(sections, number)| {
                let title = escaped(&sections[0].paper.title);
                let parts: String = sections.iter().map(link).collect();
                format!("<li><a href=\"#paper-{number}\">{title}</a><ul>\n{parts}</ul></li>\n")
            });
            format!("<ul>\n{}</ul>", papers.collect::<String>())
        }
        Block::Part(part) => {
            let (name, place, about) = (&part.name, escaped(&part.place), escaped(&part.about));
            format!("<h3 id=\"{name}\">{place} <code>{name}</code></h3>\n<p>{about}</p>")
        }
        Block::Note(text, command) => {
            let command = command.map(|it| format!("<code>{it}</code>")).unwrap_or_default();
            format!("<p class=\"note\">{}{command}</p>", escaped(&text))
        }
        Block::Figures(section) => table(section),
        Block::Picture(part, _, svg) => {
            let (place, svg) = (escaped(&part.place), svg.trim());
            format!("<figure role=\"img\" aria-label=\"{place}\">{svg}</figure>")
        }
        Block::Command(command) => format!("<pre>{}</pre>", escaped(command)),
        Block::Small(text) => format!("<p class=\"small\">{}</p>", escaped(&text)),
    }
}

/// Returns the line of a part in the table of contents.
fn link(section: &Section) -> String {
    let (name, place) = (&section.part.name, escaped(&section.part.place));
    format!("<li><a href=\"#{name}\">{name}</a>: {place}{}</li>\n", section.mark())
}

fn table(section: &Section) -> String {
    let columns = section.columns();
    let published = if section.has_published() { "<th>published</th>" } else { "" };
    let mut text = format!("<div class=\"wide\"><table>\n<tr><th></th>{published}");
    for column in &columns {
        text += &format!("<th class=\"n\">{}</th>", escaped(column));
    }
    text += "<th></th></tr>\n";
    for row in &section.measured.lines {
        text += &format!("<tr><td class=\"w\">{}</td>", escaped(&row.what));
        if section.has_published() {
            let published: String = row.published.iter().map(division).collect();
            text += &format!("<td class=\"p\">{published}</td>");
        }
        if section.lacks(row) {
            let columns = columns.len() + 1;
            text += &format!("<td class=\"m\" colspan=\"{columns}\">{MISSING}</td></tr>\n");
            continue;
        }
        for column in &columns {
            let figures: Vec<String> = row.texts(column).iter().map(|it| figure(it)).collect();
            text += &format!("<td class=\"n\">{}</td>", figures.join(", "));
        }
        let unit = if row.measured.is_empty() { "" } else { &row.unit };
        text += &format!("<td class=\"u\">{}</td></tr>\n", escaped(unit));
    }
    text + "</table></div>"
}

/// Formats a published figure on a line of its own, with its subject.
fn division(it: &Published) -> String {
    match it.of.as_str() {
        "" => format!("<div>{}</div>", escaped(&it.text)),
        of => format!("<div>{} <small>{}</small></div>", escaped(&it.text), escaped(of)),
    }
}

/// Formats a measured figure, with its interval below it.
fn figure(text: &str) -> String {
    match text.split_once(" [") {
        Some((figure, interval)) => format!("{figure} <small>[{interval}</small>"),
        None => text.to_owned(),
    }
}

/// Escapes text for HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            other => escaped.push(other),
        }
    }
    escaped
}
