//! The text of a manual page in the language of man(7).

/// A part of a line. Each kind has its font in man-pages(7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Prose.
    Roman(String),
    /// Literal text: options, commands, variables, names of other pages.
    Bold(String),
    /// Placeholders and paths.
    Italic(String),
}

/// Returns prose.
pub fn roman(text: impl Into<String>) -> Span {
    Span::Roman(text.into())
}

/// Returns literal text.
pub fn bold(text: impl Into<String>) -> Span {
    Span::Bold(text.into())
}

/// Returns a placeholder or a path.
pub fn italic(text: impl Into<String>) -> Span {
    Span::Italic(text.into())
}

/// The width at which lines of the source are broken.
const WIDTH: usize = 76;

/// Returns the source of spans, with each sentence on a new line. No line begins like a request.
pub fn lines(spans: &[Span]) -> String {
    let whole: String = spans.iter().map(source).collect();
    let mut lines = String::new();
    let mut width = 0;
    for word in whole.split(' ').filter(|word| !word.is_empty()) {
        if width > 0 && (width + 1 + word.len() > WIDTH || ends_sentence(&lines)) {
            lines.push('\n');
            width = 0;
        }
        if width > 0 {
            lines.push(' ');
        } else if word.starts_with(['.', '\'']) {
            lines.push_str(r"\&");
        }
        lines.push_str(word);
        width += 1 + word.len();
    }
    lines.push('\n');
    lines
}

/// Returns the source of spans in one line, as the tag of a list requires.
pub fn line(spans: &[Span]) -> String {
    spans.iter().map(source).collect::<String>() + "\n"
}

/// Returns `text` in the form of an argument of a roff request.
pub fn argument(text: &str) -> String {
    let text = escape(text, true).replace('"', r"\(dq");
    if text.is_empty() || text.contains(' ') { format!("\"{text}\"") } else { text }
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end_matches(")").ends_with(['.', '?', '!']) && !text.ends_with("...")
}

fn source(span: &Span) -> String {
    match span {
        Span::Roman(text) => escape(text, false),
        Span::Bold(text) => format!(r"\fB{}\fR", escape(text, true)),
        Span::Italic(text) => format!(r"\fI{}\fR", escape(text, true)),
    }
}

/// Escapes the characters that roff interprets. In literals, it uses the ASCII forms, which can be copied from the
/// page.
fn escape(text: &str, is_literal: bool) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str(r"\e"),
            '-' if is_literal => escaped.push_str(r"\-"),
            '\'' if is_literal => escaped.push_str(r"\(aq"),
            '`' => escaped.push_str(r"\(ga"),
            '^' => escaped.push_str(r"\(ha"),
            '~' => escaped.push_str(r"\(ti"),
            _ if letter.is_ascii() => escaped.push(letter),
            _ => escaped.push_str(&format!(r"\[u{:04X}]", u32::from(letter))),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_a_request() {
        assert_eq!(lines(&[roman(".dot")]), "\\&.dot\n");
        assert_eq!(lines(&[roman("'s")]), "\\&'s\n");
        assert_eq!(lines(&[roman(r"a\b")]), "a\\eb\n");
        assert_eq!(lines(&[roman("\u{2026}")]), "\\[u2026]\n");
    }

    #[test]
    fn literals_can_be_copied() {
        assert_eq!(line(&[bold("--a ~'^")]), "\\fB\\-\\-a \\(ti\\(aq\\(ha\\fR\n");
        assert_eq!(line(&[roman("read-only isn't")]), "read-only isn't\n");
    }

    #[test]
    fn a_sentence_has_its_lines() {
        assert_eq!(
            lines(&[roman("One. Two (three.) F...  and")]),
            "One.\nTwo (three.)\nF... and\n"
        );
        let long = "word ".repeat(40);
        assert!(lines(&[roman(long)]).lines().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn arguments_are_one_word_for_roff() {
        assert_eq!(argument("EXIT STATUS"), "\"EXIT STATUS\"");
        assert_eq!(argument("dayfly-run"), "dayfly\\-run");
        assert_eq!(argument(""), "\"\"");
    }
}
