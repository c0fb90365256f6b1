//! The page as HTML: a single file that contains the pictures, and loads no other files.

use host::measure::chart::STYLE;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, TextMergeStream, html};

/// Makes the page from its Markdown. `pictures` returns the content of a picture's file.
pub(super) fn page<'a>(markdown: &str, pictures: impl Fn(&str) -> Option<&'a str>) -> String {
    let style = [include_str!("style.css"), STYLE].concat().replace('\n', "");
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>How fast containers start: dayfly, crun and runc</title>\
         <style>{style}</style></head><body>\n"
    );
    let own_style = format!("<style>{}</style>", STYLE.replace('\n', ""));
    let mut is_in_cell = false;
    let events = TextMergeStream::new(Parser::new_ext(markdown, Options::ENABLE_TABLES));
    let events = events.map(|event| match event {
        Event::Start(Tag::Image { dest_url, .. }) => {
            // One style is enough for all pictures.
            let svg = pictures(&dest_url).unwrap_or_default().replace(&own_style, "");
            let svg: String = svg.lines().map(title_to_the_left).collect();
            Event::Html(format!("<figure>{svg}<figcaption>").into())
        }
        Event::End(TagEnd::Image) => Event::Html("</figcaption></figure>".into()),
        // Only the anchors are meant as HTML.
        Event::Html(it) | Event::InlineHtml(it) if !it.starts_with("<a id=") && &*it != "</a>" => {
            Event::Text(it)
        }
        Event::Text(figure) if is_in_cell && !figure.contains(['<', '&']) => {
            Event::Html(with_interval_below(&figure).into())
        }
        event => {
            match event {
                Event::Start(Tag::TableCell) => is_in_cell = true,
                Event::End(TagEnd::TableCell) => is_in_cell = false,
                _ => {}
            }
            event
        }
    });
    html::push_html(&mut text, events);
    text + "</body></html>\n"
}

/// Moves the title of a picture, a line of its file, to the left edge: a phone shows only the left of a wide picture.
fn title_to_the_left(line: &str) -> String {
    let title = line.strip_prefix("<text x=\"").and_then(|rest| {
        let (place, words) = rest.split_once(" text-anchor=\"middle\" font-size=\"18\"")?;
        let (_, place) = place.split_once('"')?;
        Some(format!("<text x=\"8\"{place} font-size=\"18\"{words}\n"))
    });
    title.unwrap_or_else(|| format!("{line}\n"))
}

/// Formats a figure, such as `1.2 [1.1 1.3]`, with its interval below it.
fn with_interval_below(text: &str) -> String {
    match text.split_once(" [") {
        Some((figure, interval)) => format!("{figure} <small>[{interval}</small>"),
        None => text.to_owned(),
    }
}
