//! What the page's figures say about the published ones: a verdict for each part, derived from the figures by rules that
//! are data.

use super::lack::Lack;
use super::line::Cell;
use crate::base::*;
use crate::circumstances::Circumstances;
use host::measure::chart::{digits, whole_or_digits};

/// The kinds of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The published proportion, or a claim without figures, holds here.
    Reproduced,
    /// The effect has the same sign, and another size.
    Direction,
    /// The opposite holds here, or nothing of the effect.
    Contradicted,
    /// This host, this command or these rounds can't show it.
    NotHere,
    /// Nothing is published to compare with.
    Unpublished,
}

impl Kind {
    /// All kinds that judge something published, in the page's order.
    pub const JUDGING: [Self; 4] =
        [Self::Reproduced, Self::Direction, Self::Contradicted, Self::NotHere];

    /// Returns the words for the kind.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Direction => "direction only",
            Self::Contradicted => "contradicted",
            Self::NotHere => "not to be shown here",
            Self::Unpublished => "nothing published",
        }
    }
}

/// A rule. The first rule of a part that applies gives the verdict.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The verdict.
    pub is: Kind,
    /// What the host lacks, at least one of these, if the rule is for such hosts only.
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// Comparisons that all must hold, such as `mean @ crun < 0.5 × mean @ runc` or `spaced: mean @ runc > 20`: a line of
    /// this part or of another one, and a column, or `first` or `last`. An interval must be below or above the other
    /// as a whole.
    #[serde(default, rename = "if")]
    pub conditions: Vec<String>,
    /// The reason, in one sentence. `{mean @ crun}` stands for a figure; the rule does not apply if the figure is missing.
    pub why: String,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The verdict.
    pub is: Kind,
    /// The reason.
    pub why: String,
}

/// Returns the figure of a part (`None`: the part that is judged), a line and a column.
pub type Figures<'a> = &'a dyn Fn(Option<&str>, &str, &str) -> Option<Cell>;

impl Verdict {
    /// Returns the verdict of the first rule that applies.
    pub fn of(rules: &[Rule], host: &Circumstances, figures: Figures<'_>) -> Option<Self> {
        rules.iter().find_map(|rule| rule.judge(host, figures))
    }
}

impl Rule {
    fn judge(&self, host: &Circumstances, figures: Figures<'_>) -> Option<Verdict> {
        let is_for = self.lacks.is_empty() || self.lacks.iter().any(|lack| lack.is_of(host));
        let holds = |text: &String| holds(text, figures).unwrap_or(false);
        (is_for && self.conditions.iter().all(holds)).then_some(())?;
        Some(Verdict { is: self.is, why: filled(&self.why, figures)? })
    }

    /// Returns all figures that the rule names, as `WHAT @ NAME`.
    #[cfg(test)]
    pub fn names(&self) -> Vec<&str> {
        let sides = self.conditions.iter().flat_map(|text| sides(text).expect("a comparison").0);
        let sides = sides.filter(|side| side.parse::<f64>().is_err()).map(|side| scaled(side).1);
        let shown = self.why.split('{').skip(1);
        sides.chain(shown.map(|rest| rest.split('}').next().expect("a figure"))).collect()
    }
}

/// Splits a comparison into its sides, and returns whether the first one must be greater.
fn sides(text: &str) -> Option<([&str; 2], bool)> {
    let split = |sign| text.split_once(sign).map(|(left, right)| [left, right]);
    split(" > ").map(|both| (both, true)).or_else(|| split(" < ").map(|both| (both, false)))
}

fn holds(text: &str, figures: Figures<'_>) -> Option<bool> {
    let ([left, right], is_greater) = sides(text)?;
    let ([low, high], [other_low, other_high]) = (side(left, figures)?, side(right, figures)?);
    Some(if is_greater { low > other_high } else { high < other_low })
}

/// Splits `2 × WHAT @ NAME` into the factor and the rest.
fn scaled(text: &str) -> (f64, &str) {
    let factor = text.split_once(" × ").and_then(|(factor, of)| Some((factor.parse().ok()?, of)));
    factor.unwrap_or((1.0, text))
}

/// Returns the interval of a side; a number or a figure without an interval has none of any width.
fn side(text: &str, figures: Figures<'_>) -> Option<[f64; 2]> {
    if let Ok(number) = text.parse::<f64>() {
        return Some([number; 2]);
    }
    let (factor, name) = scaled(text);
    let cell = find(name, figures)?;
    Some(cell.interval.unwrap_or([cell.value; 2]).map(|value| value * factor))
}

/// Finds a figure by `WHAT @ NAME` or `PART: WHAT @ NAME`.
fn find(text: &str, figures: Figures<'_>) -> Option<Cell> {
    let (what, name) = text.split_once(" @ ")?;
    let elsewhere = what.split_once(": ").and_then(|(part, what)| figures(Some(part), what, name));
    elsewhere.or_else(|| figures(None, what, name))
}

/// Replaces the figures in a text.
fn filled(text: &str, figures: Figures<'_>) -> Option<String> {
    let mut parts = text.split('{');
    let mut filled = parts.next()?.to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}')?;
        let cell = find(name, figures)?;
        let has_decimals = cell.interval.is_some();
        filled += &if has_decimals { digits(cell.value) } else { whole_or_digits(cell.value) };
        filled += rest;
    }
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn figures(part: Option<&str>, what: &str, name: &str) -> Option<Cell> {
        let cell = |value, interval| Some(Cell { name: name.to_owned(), value, interval });
        match (part, what, name) {
            (None, "run: mean", "crun") => cell(15.2, Some([15.0, 15.4])),
            (Some("spaced"), "mean", "crun") => cell(14.0, Some([13.0, 15.1])),
            (None, "failed", "crun") => cell(0.0, None),
            _ => None,
        }
    }

    #[test]
    fn intervals_are_compared_as_a_whole() {
        for (text, expected) in [
            ("run: mean @ crun > 14.9", Some(true)),
            ("run: mean @ crun < 15.3", Some(false)),
            ("run: mean @ crun < 15.5", Some(true)),
            ("run: mean @ crun > spaced: mean @ crun", Some(false)),
            ("1.2 × run: mean @ crun > spaced: mean @ crun", Some(true)),
            ("failed @ crun < 1", Some(true)),
            ("run: mean @ runc > 1", None),
            ("run: mean @ crun", None),
        ] {
            assert_eq!(holds(text, &figures), expected, "{text}");
        }
    }

    #[test]
    fn the_first_rule_that_applies_judges() {
        let rules: Vec<Rule> = [
            "is = 'reproduced'\nif = ['run: mean @ crun < 6']\nwhy = ''",
            "is = 'direction'\nif = ['run: mean @ crun < 100']\nwhy = '{run: mean @ runc}'",
            "is = 'direction'\nif = ['run: mean @ crun < 100']\nwhy = '{run: mean @ crun} ms, {failed @ crun} failed'",
            "is = 'not-here'\nwhy = 'no'",
        ]
        .map(|text| toml::from_str(text).expect("a rule"))
        .into();
        let host = Circumstances::take(String::new(), Vec::new(), Path::new("/"));
        let verdict = Verdict::of(&rules, &host, &figures).expect("a verdict");
        assert_eq!((verdict.is, verdict.why.as_str()), (Kind::Direction, "15.2 ms, 0 failed"));
        let none: Figures<'_> = &|_, _, _| None;
        assert_eq!(Verdict::of(&rules, &host, none).map(|it| it.is), Some(Kind::NotHere));
        assert_eq!(rules[2].names(), ["run: mean @ crun", "run: mean @ crun", "failed @ crun"]);
    }
}
