//! The form of a picture's file: a style for dark pages, and less than half of what the drawing library writes.

use std::fmt::Write;

/// The font, and the colours for dark pages. Rules of style take precedence over attributes.
pub const STYLE: &str = include_str!("picture.css");

/// What can be left out, as it is the default or stands in the style, and the sizes of letters. The library
/// divides sizes by 1.24.
const SHORTER: [(&str, &str); 11] = [
    (" opacity=\"1\"", ""),
    (" stroke=\"none\"", ""),
    (" stroke-width=\"1\"", ""),
    (" font-family=\"sans-serif\"", ""),
    (" fill=\"#000000\"", ""),
    (" \"/>", "\"/>"),
    ("\"16.129032258064516\"", "\"18\""),
    ("\"9.67741935483871\"", "\"12\""),
    ("\"8.870967741935484\"", "\"10\""),
    ("\"7.258064516129032\"", "\"7.5\""),
    ("\"6.451612903225807\"", "\"7\""),
];

/// Returns a picture of the drawing library in the form of files; a picture that has this form already as it is.
pub fn finished(picture: &str) -> String {
    let Some((first, rest)) = picture.split_once('\n').filter(|_| !picture.contains("<style>"))
    else {
        return picture.to_owned();
    };
    let mut text = format!("{first}\n<style>{}</style>", STYLE.replace('\n', ""));
    let mut frames = Vec::<(&str, String)>::new();
    let mut lines = rest.lines().peekable();
    while let Some(line) = lines.next() {
        // Neighbouring frames of a colour are one element.
        if let Some((path, fill)) = frame(line) {
            match frames.iter_mut().find(|(of, _)| *of == fill) {
                Some((_, paths)) => paths.push_str(&path),
                None => frames.push((fill, path)),
            }
            if lines.peek().is_some_and(|line| line.starts_with("<rect")) {
                continue;
            }
        }
        for (fill, path) in frames.drain(..) {
            let _ = write!(text, "\n<path opacity=\"0.75\" fill=\"{fill}\" d=\"{path}\"/>");
        }
        if frame(line).is_none() {
            // The words of a text have lines of their own.
            let is_within = !line.starts_with('<') || line.starts_with("</text");
            text.push_str(if is_within { "" } else { "\n" });
            text.push_str(line);
        }
    }
    SHORTER.iter().fold(text, |text, (long, short)| text.replace(long, short)) + "\n"
}

/// Returns the outline and the colour of a flame graph's frame.
fn frame(line: &str) -> Option<(String, &str)> {
    let rest = line.strip_prefix("<rect x=\"")?;
    let mut values = rest.split('"').step_by(2);
    let [x, y, width, height, opacity, fill] = std::array::from_fn(|_| values.next().unwrap_or(""));
    (opacity == "0.75").then(|| (format!("M{x} {y}h{width}v{height}h-{width}z"), fill))
}
