//! The page as HTML: a single file that contains the pictures, and loads no other files.

use super::{MISSING, Page, READING, Section, State, facts};
use crate::report::row::{Row, shown};
use std::fmt::Write;

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
    let [done, can] = page.done();
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>Published figures, measured here: dayfly bench report</title>\
         <style>{STYLE}</style></head><body>\n<h1>Published figures, measured here</h1>\n\
         <p>{}</p>\n<p>{done} of {can} experiments are done.</p>\n",
        escaped(READING)
    );
    text += "<h2 id=\"host\">Host</h2>\n<div class=\"wide\"><table>\n";
    for (name, fact) in facts(&page.host) {
        let _ = writeln!(text, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&fact));
    }
    text += "</table></div>\n<h2 id=\"contents\">Contents</h2>\n<ul>\n";
    for (number, sections) in page.papers().enumerate() {
        let title = escaped(sections[0].title);
        let _ = writeln!(text, "<li><a href=\"#paper-{}\">{title}</a><ul>", number + 1);
        for section in sections {
            let (part, place) = (section.part, escaped(section.place));
            let _ = writeln!(
                text,
                "<li><a href=\"#{part}\">{part}</a>: {place}{}</li>",
                section.mark()
            );
        }
        text += "</ul></li>\n";
    }
    text += "</ul>\n";
    for (number, sections) in page.papers().enumerate() {
        let first = &sections[0];
        let [title, by, on] = [first.title, first.by, first.on].map(escaped);
        let id = number + 1;
        let _ =
            writeln!(text, "<h2 id=\"paper-{id}\">{title}</h2>\n<p>{by}. Measured on {on}.</p>");
        for section in sections {
            one(&mut text, section);
        }
    }
    text + "</body></html>\n"
}

fn one(text: &mut String, section: &Section) {
    let (part, place, about) = (section.part, escaped(section.place), escaped(section.about));
    let _ = writeln!(text, "<h3 id=\"{part}\">{place} <code>{part}</code></h3>\n<p>{about}</p>");
    match &section.state {
        State::Done(_) => {}
        State::Failed(reason) => {
            let _ = writeln!(text, "<p class=\"note\">It failed: {}</p>", escaped(reason));
        }
        State::Open => {
            let _ = writeln!(
                text,
                "<p class=\"note\">Not measured yet: <code>dayfly bench report --only {part}</code></p>"
            );
        }
        State::NotHere(why) => {
            let _ = writeln!(text, "<p class=\"note\">Not shown here: {}</p>", escaped(why));
        }
    }
    table(text, section);
    for note in section.notes() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(&note));
    }
    for picture in &section.drawn {
        let picture = picture.trim();
        let _ = writeln!(text, "<figure role=\"img\" aria-label=\"{place}\">{picture}</figure>");
    }
    if let Some(command) = &section.command {
        let _ = writeln!(text, "<pre>{}</pre>", escaped(command));
    }
    if let Some(record) = section.record() {
        let _ = writeln!(text, "<p class=\"small\">{}</p>", escaped(&record));
    }
}

fn table(text: &mut String, section: &Section) {
    if section.lines.is_empty() {
        return;
    }
    let columns = section.columns();
    let has_published = section.has_published();
    text.push_str("<div class=\"wide\"><table>\n<tr><th></th>");
    text.push_str(if has_published { "<th>published</th>" } else { "" });
    for column in &columns {
        let _ = write!(text, "<th class=\"n\">{}</th>", escaped(column));
    }
    text.push_str("<th></th></tr>\n");
    for row in &section.lines {
        let _ = write!(text, "<tr><td class=\"w\">{}</td>", escaped(&row.what));
        if has_published {
            let _ = write!(text, "<td class=\"p\">{}</td>", published(row));
        }
        if section.lacks(row) {
            let _ = writeln!(
                text,
                "<td class=\"m\" colspan=\"{}\">{MISSING}</td></tr>",
                columns.len() + 1
            );
            continue;
        }
        for column in &columns {
            let _ = write!(text, "<td class=\"n\">{}</td>", cell(row, column));
        }
        let unit = if row.measured.is_empty() { "" } else { row.unit };
        let _ = writeln!(text, "<td class=\"u\">{}</td></tr>", escaped(unit));
    }
    text.push_str("</table></div>\n");
}

/// Formats the published figures, one per line, each with its subject.
fn published(row: &Row) -> String {
    let one = |it: &super::Published| match it.of {
        "" => format!("<div>{}</div>", escaped(it.text)),
        of => format!("<div>{} <small>{}</small></div>", escaped(it.text), escaped(of)),
    };
    row.published.iter().map(one).collect()
}

/// Formats the row's figures in a column, each with its interval below it.
fn cell(row: &Row, column: &str) -> String {
    let cells = row.measured.iter().filter(|cell| cell.name == column);
    let one = |cell| {
        let text = escaped(&shown(cell));
        match text.split_once(" [") {
            Some((figure, interval)) => format!("{figure} <small>[{interval}</small>"),
            None => text,
        }
    };
    cells.map(one).collect::<Vec<_>>().join(", ")
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
