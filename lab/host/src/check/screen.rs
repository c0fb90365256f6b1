//! The output for people: a line for each verdict, with the advice below it.

use super::verdict::{Level, Section, Verdict};
use std::fmt::Write;
use std::io::IsTerminal;

/// The width to use if the width of the terminal is unknown.
const WIDTH: usize = 132;
/// The minimum width of the last column.
const NARROW: usize = 24;

/// The layout of the output.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The width in columns.
    pub width: usize,
    /// Whether the output has colours, and bold and dim type.
    pub colour: bool,
}

impl Look {
    /// Returns the layout for standard output. If standard output is a terminal, the layout has the terminal's width,
    /// and has colours unless NO_COLOR forbids them.
    pub fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal();
        let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| terminal);
        Self {
            width: size.map_or(WIDTH, |size| usize::from(size.ws_col)).clamp(80, 200),
            colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        }
    }
}

/// Formats the whole output, with the title `head`.
pub fn draw(head: &str, sections: &[Section], look: Look) -> String {
    let all = || sections.iter().flat_map(|section| &section.verdicts);
    let widest = |text: fn(&Verdict) -> &str| all().map(|it| text(it).chars().count()).max();
    let names = widest(|it| it.name).unwrap_or(0);
    let facts =
        widest(|it| &it.fact).unwrap_or(0).min((look.width.saturating_sub(names + 8)) * 45 / 100);
    let columns = [names, facts, look.width.saturating_sub(names + facts + 8).max(NARROW)];
    let mut text = String::new();
    let _ = writeln!(text, "{head}");
    for section in sections {
        let _ = writeln!(text, "\n{}", paint(section.title, "1", look));
        for verdict in &section.verdicts {
            write_lines(&mut text, verdict, columns, look);
        }
    }
    let count = |level| all().filter(|verdict| verdict.level == level).count();
    let _ = writeln!(
        text,
        "\n{} as they should be, {} to know, {} to improve, {} broken",
        count(Level::Good),
        count(Level::Note),
        count(Level::Warning),
        count(Level::Error),
    );
    text
}

/// Adds the lines of a verdict, with columns of these widths for names, facts and effects.
fn write_lines(text: &mut String, verdict: &Verdict, [names, width, whys]: [usize; 3], look: Look) {
    let Verdict { level, name, fact, why, fix, .. } = verdict;
    let (mark, colour) = match level {
        Level::Good => ("✓", "32"),
        Level::Note => ("·", "36"),
        Level::Warning => ("!", "33"),
        Level::Error => ("✗", "31"),
    };
    let (facts, whys) = (wrap(fact, width), wrap(why, whys));
    for line in 0..facts.len().max(whys.len()) {
        let (mark, name) =
            if line == 0 { (paint(mark, colour, look), *name) } else { (" ".to_owned(), "") };
        let fact = facts.get(line).map_or("", String::as_str);
        let why = paint(whys.get(line).map_or("", String::as_str), "2", look);
        let whole = format!(" {mark} {name:<names$}  {fact:<width$}  {why}");
        let _ = writeln!(text, "{}", whole.trim_end());
    }
    for fix in fix {
        // A command stays on one line, so that it can be copied. A long one begins farther left, so that it fits.
        let room = look.width.saturating_sub(fix.chars().count() + 2);
        let indent = (names + 5).min(room).max(1);
        let _ = writeln!(text, "{:indent$}{} {fix}", "", paint("→", colour, look));
    }
}

fn paint(text: &str, code: &str, look: Look) -> String {
    match look.colour && !text.is_empty() {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// Breaks text between words into lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let room = width.saturating_sub(word.chars().count() + 1);
        match lines.last_mut() {
            Some(line) if line.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws verdicts, each with a name, level, fact, effect and advice.
    fn drawn(width: usize, verdicts: &[(&'static str, Level, &str, &str, &[&str])]) -> String {
        let verdict = |&(name, level, fact, why, fix): &(_, _, &str, &str, &[&str])| Verdict {
            id: "a.b",
            name,
            level,
            fact: fact.to_owned(),
            why: why.to_owned(),
            fix: fix.iter().map(|fix| (*fix).to_owned()).collect(),
            data: serde_json::Map::new(),
        };
        let verdicts = verdicts.iter().map(verdict).collect();
        draw("head", &[Section { title: "things", verdicts }], Look { width, colour: false })
    }

    #[test]
    fn lines_are_as_wide_as_the_terminal() {
        let long = "x".repeat(74);
        let text = drawn(80, &[("one", Level::Note, "fact", "why", &[&long])]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // A long command begins farther left.
        assert!(text.contains(&format!("\n    → {long}\n")), "{text}");
        let words = "of a fact and its reason, ".repeat(6);
        for width in [80, 132] {
            let text = drawn(width, &[("shield of the runtime", Level::Good, &words, &words, &[])]);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn a_screen() {
        let good = ("one", Level::Good, "fact", "why it is so", &[][..]);
        let bad = ("another", Level::Error, "no", "bad", &["do it"][..]);
        let expected = "\
head

things
 ✓ one      fact  why it is so
 ✗ another  no    bad
            → do it

1 as they should be, 0 to know, 0 to improve, 1 broken
";
        assert_eq!(drawn(100, &[good, bad]), expected);
    }
}
