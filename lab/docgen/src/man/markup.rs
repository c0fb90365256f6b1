//! Chooses the fonts for parts of a plain help text: literals, placeholders, names of other pages.

use super::roff::{Span, bold, italic, roman};

/// The words of a page that get their own font.
#[derive(Debug, Default)]
pub struct Words {
    /// Names of values and arguments.
    pub values: Vec<String>,
    /// The possible values of an option.
    pub choices: Vec<String>,
}

/// Splits a text into spans. Text in quotes is literal, unless it is a title.
pub fn spans(text: &str, words: &Words) -> Vec<Span> {
    let mut spans = Spans::default();
    for (at, part) in text.split('"').enumerate() {
        match at % 2 {
            0 => backquoted(&mut spans, part, words),
            _ if is_title(part) => spans.push(roman(format!("\"{part}\""))),
            _ => command(&mut spans, part, words),
        }
    }
    spans.0
}

fn backquoted(spans: &mut Spans, text: &str, words: &Words) {
    for (at, part) in text.split('`').enumerate() {
        match at % 2 {
            0 => prose(spans, part, words),
            _ => spans.push(if is_path(part) { italic(part) } else { bold(part) }),
        }
    }
}

/// Splits a cell of a Markdown table into spans.
pub fn markdown(text: &str) -> Vec<Span> {
    let mut spans = Spans::default();
    backquoted(&mut spans, &without_links(text), &Words::default());
    spans.0
}

/// Returns the text as a sentence: with a capital letter, unless it begins with a literal, and a full stop.
pub fn sentence(text: &str, words: &Words) -> String {
    let text = text.trim();
    let first = text.split([' ', ',', ';', ':']).next().unwrap_or("");
    let is_prose = first.chars().all(|letter| letter.is_ascii_lowercase())
        && first != "dayfly"
        && first != "containerd"
        && !words.choices.iter().any(|choice| choice == first);
    let mut sentence = text.to_owned();
    if is_prose && let Some(letter) = sentence.get_mut(..1) {
        letter.make_ascii_uppercase();
    }
    if !sentence.is_empty() && !sentence.ends_with(['.', ':', '?', '!']) {
        sentence.push('.');
    }
    sentence
}

/// Spans, with neighbours of the same font merged.
#[derive(Default)]
struct Spans(Vec<Span>);

impl Spans {
    fn push(&mut self, span: Span) {
        let (Span::Roman(text) | Span::Bold(text) | Span::Italic(text)) = &span;
        if text.is_empty() {
            return;
        }
        match (self.0.last_mut(), &span) {
            (Some(Span::Roman(before)), Span::Roman(text))
            | (Some(Span::Bold(before)), Span::Bold(text))
            | (Some(Span::Italic(before)), Span::Italic(text)) => before.push_str(text),
            _ => self.0.push(span),
        }
    }
}

/// Punctuation around a word.
const BEFORE: [char; 2] = ['(', '['];
const AFTER: [char; 7] = [')', ']', ',', ';', ':', '.', '?'];

fn prose(spans: &mut Spans, text: &str, words: &Words) {
    for (at, word) in text.split([' ', '\n']).enumerate() {
        if at > 0 {
            spans.push(roman(" "));
        }
        // The name of another page. The parentheses around its section are not punctuation.
        if let Some((name, section, rest)) = reference(word) {
            let opening = name.len() - name.trim_start_matches(BEFORE).len();
            spans.push(roman(&name[..opening]));
            spans.push(bold(&name[opening..]));
            spans.push(roman(format!("({section}){rest}")));
            continue;
        }
        let core = word.trim_start_matches(BEFORE);
        let opening = &word[..word.len() - core.len()];
        let mut inner = core.trim_end_matches(AFTER);
        if let Some(owner) = inner.strip_suffix("'s") {
            inner = owner;
        }
        let closing = &core[inner.len()..];
        spans.push(roman(opening));
        spans.push(font(inner, words));
        spans.push(roman(closing));
    }
}

/// Adds a command line: literal, except for the names of values.
fn command(spans: &mut Spans, text: &str, words: &Words) {
    let mut was_literal = false;
    for (at, word) in text.split([' ', '\n']).enumerate() {
        let inner = word.trim_matches(['[', ']', '.']);
        let is_value = words.values.iter().any(|value| value == inner)
            || (inner.len() > 1 && inner.chars().all(|letter| letter.is_ascii_uppercase()));
        if at > 0 {
            spans.push(if was_literal && !is_value { bold(" ") } else { roman(" ") });
        }
        match word.split_once(inner) {
            Some((before, after)) if is_value => {
                [roman(before), italic(inner), roman(after)]
                    .into_iter()
                    .for_each(|span| spans.push(span));
            }
            _ => spans.push(bold(word)),
        }
        was_literal = !is_value;
    }
}

fn font(word: &str, words: &Words) -> Span {
    let is = |list: &[String]| list.iter().any(|other| other == word);
    if is(&words.choices) || is_option(word) || is_variable(word) {
        bold(word)
    } else if is(&words.values) || is_path(word) || word == "config.json" {
        italic(word)
    } else {
        roman(word)
    }
}

/// Splits `name(2),` into the page's name, the section 2, and the comma.
fn reference(word: &str) -> Option<(&str, char, &str)> {
    let (name, rest) = word.rsplit_once('(').filter(|(name, _)| !name.is_empty())?;
    let section = rest.chars().next().filter(char::is_ascii_digit)?;
    let rest = rest[1..].strip_prefix(')')?;
    let is_name = name
        .trim_start_matches(BEFORE)
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
    is_name.then_some((name, section, rest))
}

fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    let dashes = word.len() - name.len();
    (dashes == 1 || dashes == 2) && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
}

/// Accepts `$NAME`, and `NAME` if it begins with a prefix that several variables share.
fn is_variable(word: &str) -> bool {
    let name = word.trim_start_matches('$');
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let families = ["DAYFLY_", "XDG_", "LISTEN_", "DBUS_", "TTRPC_"];
    is_name && (name.len() < word.len() || families.iter().any(|family| name.starts_with(family)))
}

fn is_path(word: &str) -> bool {
    let rest = word.strip_prefix('$').unwrap_or(word);
    let has_root = word.starts_with("~/") || (rest.len() < word.len() && rest.contains('/'));
    let is_absolute = word.starts_with('/') && word.len() > 1;
    let is_relative = word.contains('/') && word.ends_with(".json");
    has_root || is_absolute || is_relative
}

/// Returns whether this is the title of a publication, which keeps its quotes.
fn is_title(text: &str) -> bool {
    let mut letters = text.chars();
    let is_capital = letters.next().is_some_and(char::is_uppercase);
    is_capital && letters.next().is_some_and(char::is_lowercase) && text.contains(' ')
}

/// Reduces `text: [page](page)` to `text`, and `[text](page)` to `text`.
fn without_links(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((name, (target, after))) =
            after.split_once("](").and_then(|(name, after)| Some((name, after.split_once(')')?)))
        else {
            break;
        };
        left.push_str(before);
        match target.starts_with(name) && left.ends_with(": ") {
            true => left.truncate(left.len() - 2),
            false => left.push_str(name),
        }
        rest = after;
    }
    left + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        Words { values: vec!["FILE".to_owned()], choices: vec!["json".to_owned()] }
    }

    #[test]
    fn each_kind_has_its_font() {
        let text = "write FILE, as --trace does (see ps(1)), to /run/x; $HOME/x is json's";
        assert_eq!(
            spans(text, &words()),
            [
                roman("write "),
                italic("FILE"),
                roman(", as "),
                bold("--trace"),
                roman(" does (see "),
                bold("ps"),
                roman("(1)), to "),
                italic("/run/x"),
                roman("; "),
                italic("$HOME/x"),
                roman(" is "),
                bold("json"),
                roman("'s"),
            ]
        );
    }

    #[test]
    fn quotes_are_for_literals() {
        assert_eq!(
            spans("by \"dayfly run -b BUNDLE\", and \"Two Words\"", &words()),
            [
                roman("by "),
                bold("dayfly run -b"),
                roman(" "),
                italic("BUNDLE"),
                roman(", and \"Two Words\""),
            ]
        );
    }

    #[test]
    fn a_dash_is_no_option() {
        assert_eq!(spans("a - b, -- c, -1", &words()), [roman("a - b, -- c, "), bold("-1")]);
    }

    #[test]
    fn tables_lose_their_links() {
        assert_eq!(markdown("as `--trace`: [trace.md](trace.md)"), [roman("as "), bold("--trace")]);
        assert_eq!(markdown("[the shim](shim.md#x) and [x"), [roman("the shim and [x")]);
        assert_eq!(markdown("`/run/dayfly/ID`"), [italic("/run/dayfly/ID")]);
    }

    #[test]
    fn sentences_begin_and_end() {
        assert_eq!(sentence("the bundle", &words()), "The bundle.");
        assert_eq!(sentence("json, or not.", &words()), "json, or not.");
        assert_eq!(sentence("dayfly runs", &words()), "dayfly runs.");
        assert_eq!(sentence("", &words()), "");
        assert_eq!(sentence("é", &words()), "é.");
    }
}
