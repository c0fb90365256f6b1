//! Every figure of the report that another page repeats equals that of docs/report/report.json.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(serde::Deserialize)]
struct Page {
    texts: Vec<String>,
}

/// The figure of a placeholder, with its interval.
#[derive(Clone, Copy)]
struct Figure {
    value: f64,
    interval: Option<[f64; 2]>,
}

fn figure(report: &Value, place: &str) -> Figure {
    let words: Vec<&str> = place.split(" | ").collect();
    let [part, line, column] = words[..] else { panic!("{place}: not PART | LINE | COLUMN") };
    let (column, factor) = match column.split_once(" × ") {
        Some((column, factor)) => (column, factor.parse().expect("a factor")),
        None => (column, 1.0),
    };
    let find = |list: &Value, key: &str, name: &str| -> Value {
        let list = list.as_array().into_iter().flatten();
        list.into_iter()
            .find(|it| it[key] == name)
            .cloned()
            .unwrap_or_else(|| panic!("{place}: no {name}"))
    };
    let row = find(&find(&report["sections"], "part", part)["lines"], "what", line);
    let cell = find(&row["measured"], "name", column);
    let number = |value: &Value| {
        value.as_f64().map(|value| if factor < 0.0 { value.recip() } else { value * factor })
    };
    let both = [&cell["interval"][0], &cell["interval"][1]].map(number);
    let mut interval = both[0].zip(both[1]).map(|(low, high)| [low, high]);
    // The reciprocal turns an interval around.
    if let Some(both) = interval.as_mut().filter(|_| factor < 0.0) {
        both.reverse();
    }
    Figure { value: number(&cell["value"]).expect("a number"), interval }
}

/// Checks that `page` contains the text with the figures of the report; returns the reason if it does not.
fn check(page: &str, text: &str, report: &Value) -> Result<(), String> {
    let mut pieces = text.split('{');
    let first = pieces.next().unwrap_or_default();
    let at = page.find(first).ok_or_else(|| format!("no text {first:?}"))?;
    let mut rest = &page[at + first.len()..];
    let mut last = None;
    for piece in pieces {
        let (place, literal) = piece.split_once('}').ok_or("an open brace")?;
        let wanted = match (place, last) {
            ("low" | "high", Some(Figure { interval: Some([low, high]), .. })) => {
                if place == "low" { low } else { high }
            }
            ("low" | "high", _) => return Err(format!("no interval before {literal:?}")),
            _ => last.insert(figure(report, place)).value,
        };
        let end = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        // Half of the last digit.
        let given: f64 =
            number.parse().map_err(|_| format!("{place}: {:?} is no number", &rest[..end]))?;
        if (given - wanted).abs() > 0.5001 * 0.1_f64.powf(decimals as f64) {
            return Err(format!("{place}: {given}, and {wanted} in the report"));
        }
        rest = after
            .strip_prefix(literal)
            .ok_or_else(|| format!("{place}: no {literal:?} behind {number}"))?;
    }
    Ok(())
}

#[test]
fn figures_of_other_pages_are_those_of_the_report() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(top.join(name)).expect(name);
    let report: Value = serde_json::from_str(&read("docs/report/report.json")).expect("JSON");
    let pages: BTreeMap<String, Page> =
        toml::from_str(include_str!("pages.toml")).expect("pages.toml");
    let mut wrong = Vec::new();
    for (name, page) in pages {
        let text = read(&name).split_whitespace().collect::<Vec<_>>().join(" ");
        let checks = page.texts.iter().filter_map(|it| check(&text, it, &report).err());
        wrong.extend(checks.map(|reason| format!("{name}: {reason}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn another_figure_is_noticed() {
    let report: Value = serde_json::from_str(
        r#"{"sections": [{"part": "p", "lines": [{"what": "l", "measured": [{"name": "c", "value": 3.29, "interval": [3.24, 3.35]}]}]}]}"#,
    )
    .expect("JSON");
    for (page, is_right) in [
        ("begins 3.3 [3.24, 3.35] ms", true),
        ("begins 3.29 [3.1, 3.4] ms", false),
        ("begins 3.4 [3.24, 3.35] ms", false),
        ("begins 3 [3.24, 3.35] ms", true),
        ("begins 3.3 [3.24, 3.35] s", false),
    ] {
        let found = check(page, "begins {p | l | c} [{low}, {high}] ms", &report);
        assert_eq!(found.is_ok(), is_right, "{page}: {found:?}");
    }
}
