//! The page as HTML: a single file that contains the pictures, and loads no other files.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, TextMergeStream, html};

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
    td{font-variant-numeric:tabular-nums}td small{display:block;white-space:nowrap}\
    small,figcaption,pre+p{color:var(--faint);font-size:.85em}\
    pre{background:var(--box);padding:.6rem;white-space:pre-wrap}\
    blockquote{background:var(--note);margin:1rem 0;padding:.1rem .8rem}\
    table{display:block;overflow-x:auto}figure{margin:1rem 0;overflow-x:auto}\
    svg{display:block;min-width:44rem;max-width:100%;height:auto;background:#fff}\
    @media print{body{max-width:none;margin:0;font-size:11px}h2,h3{break-after:avoid}\
    figure,tr,pre{break-inside:avoid}svg{min-width:0;max-height:22cm}\
    table{overflow:visible}td,th{padding:.2em .35em}}";

/// Makes the page from its Markdown. `pictures` returns the content of a picture's file.
pub(super) fn page<'a>(markdown: &str, pictures: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>Published figures, measured here: dayfly bench report</title>\
         <style>{STYLE}</style></head><body>\n"
    );
    let mut is_in_cell = false;
    let events = TextMergeStream::new(Parser::new_ext(markdown, Options::ENABLE_TABLES));
    let events = events.map(|event| match event {
        Event::Start(Tag::Image { dest_url, .. }) => {
            let svg = pictures(&dest_url).unwrap_or_default();
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

/// Formats a figure, such as `1.2 [1.1 1.3]`, with its interval below it.
fn with_interval_below(text: &str) -> String {
    match text.split_once(" [") {
        Some((figure, interval)) => format!("{figure} <small>[{interval}</small>"),
        None => text.to_owned(),
    }
}
