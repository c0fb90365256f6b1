//! The page as HTML: a single file with its pictures, which loads nothing.

use super::{Page, READING, Section, State, facts};
use std::fmt::Write;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
    h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-top:1px solid #ccc;padding-top:1rem}\
    table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:left;\
    vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
    pre{background:#f4f4f4;padding:.6rem;overflow-x:auto}svg{max-width:100%;height:auto}.small{color:#666;font-size:.85rem}\
    .note{background:#fff6e0;padding:.5rem .8rem}div.wide{overflow-x:auto}";

pub(super) fn page(page: &Page) -> String {
    let [done, can] = page.done();
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/><title>dayfly: report</title>\
         <style>{STYLE}</style></head><body>\n<h1>Published figures, measured here</h1>\n\
         <p>{}</p>\n<p>{done} of {can} experiments are done.</p>\n",
        escaped(READING)
    );
    text += "<h2>Host</h2>\n<table>\n";
    for (name, fact) in facts(&page.host) {
        let _ = writeln!(text, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&fact));
    }
    text += "</table>\n<h2>Contents</h2>\n<ul>\n";
    for sections in page.papers() {
        let _ = writeln!(text, "<li>{}<ul>", escaped(sections[0].title));
        for section in sections {
            let (part, place) = (section.part, escaped(section.place));
            let _ =
                writeln!(text, "<li><a href=\"#{part}\">{part}</a>: {place}{}</li>", mark(section));
        }
        text += "</ul></li>\n";
    }
    text += "</ul>\n";
    for sections in page.papers() {
        let first = &sections[0];
        let [title, by, on] = [first.title, first.by, first.on].map(escaped);
        let _ = writeln!(text, "<h2>{title}</h2>\n<p>{by}. Measured on {on}.</p>");
        for section in sections {
            one(&mut text, section);
        }
    }
    text + "</body></html>\n"
}

fn mark(section: &Section) -> &'static str {
    match section.state {
        State::Done(_) => "",
        State::Failed(_) => " (failed)",
        State::Open => " (not yet)",
        State::NotHere(_) => " (not here)",
    }
}

fn one(text: &mut String, section: &Section) {
    let (part, place, about) = (section.part, escaped(section.place), escaped(section.about));
    let _ = writeln!(text, "<h3 id=\"{part}\">{place}</h3>\n<p>{about}</p>");
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
    for note in section.instead.iter().chain(&section.out()) {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(note));
    }
    for picture in &section.drawn {
        let _ = writeln!(text, "<div>{}</div>", picture.trim());
    }
    if let Some(command) = &section.command {
        let _ = writeln!(text, "<pre>{}</pre>", escaped(command));
    }
    if let (Some(record), State::Done(seconds)) = (section.record(), &section.state) {
        let record = escaped(&record);
        let _ = writeln!(text, "<p class=\"small\">{record}. It took {seconds:.0} s.</p>");
    }
}

fn table(text: &mut String, section: &Section) {
    if section.lines.is_empty() {
        return;
    }
    let columns = section.columns();
    text.push_str("<div class=\"wide\"><table>\n<tr><th></th><th>published</th>");
    for column in &columns {
        let _ = write!(text, "<th class=\"n\">{}</th>", escaped(column));
    }
    text.push_str("<th></th></tr>\n");
    for row in &section.lines {
        let (what, published) = (escaped(&row.what), escaped(&row.published()));
        let _ = write!(text, "<tr><td>{what}</td><td>{published}</td>");
        for column in &columns {
            let _ = write!(text, "<td class=\"n\">{}</td>", escaped(&row.cell(column)));
        }
        let unit = if row.measured.is_empty() { "" } else { row.unit };
        let _ = writeln!(text, "<td>{}</td></tr>", escaped(unit));
    }
    text.push_str("</table></div>\n");
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
