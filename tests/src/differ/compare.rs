//! Compares outcomes, and explains differences by the table of known ones.

use crate::differ::execute::Outcome;
use crate::differ::reasons;
use serde_json::Value;

/// A fact that two runtimes disagree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The fact's name.
    pub key: String,
    /// What the peer has; `-` if it has no such fact.
    pub peer: String,
    /// What dayfly has.
    pub own: String,
    /// What the runtimes wrote, if this is about how a command ended.
    pub why: String,
}

impl Difference {
    /// Returns what differences of one kind have in common: the name without its paths and numbers.
    #[must_use]
    pub fn kind(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for word in self.key.split(' ') {
            let is_own = word.contains('/') || word.starts_with(|c: char| c.is_ascii_digit());
            words.push(if is_own { "*".to_owned() } else { word.to_owned() });
        }
        words.truncate(6);
        words.dedup();
        let mut kind = words.join(" ");
        if self.key.starts_with("exit")
            || self.key.starts_with("run")
            || self.key.contains("| error")
        {
            kind = format!("{kind} {} {}", self.peer, self.own);
        }
        kind
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} -> {}{}", self.key, self.peer, self.own, self.why)
    }
}

/// Returns the differences between a peer's outcome and dayfly's.
#[must_use]
pub fn differences(peer: &Outcome, own: &Outcome) -> Vec<Difference> {
    let mut all = Vec::new();
    let has_both = peer.has_started() == own.has_started();
    let keys: std::collections::BTreeSet<&String> =
        peer.facts.keys().chain(own.facts.keys()).collect();
    for key in keys {
        let (theirs, ours) = (peer.facts.get(key), own.facts.get(key));
        if theirs == ours {
            continue;
        }
        // If only one has started, the other facts tell nothing.
        if !has_both
            && !["exit", "run", "host ", "left ", "hung"].iter().any(|name| key.starts_with(name))
        {
            continue;
        }
        // A detail of what only one has.
        if let Some((whole, _)) = key.split_once(" | ") {
            let both =
                |whole: &str| peer.facts.contains_key(whole) && own.facts.contains_key(whole);
            if !both(whole) || (whole == "exit" && peer.facts["exit"] != own.facts["exit"]) {
                continue;
            }
        }
        // Texts without a known error are not compared.
        if key.ends_with("| error")
            && [theirs, ours].into_iter().any(|text| text.is_none_or(|text| text == "other"))
        {
            continue;
        }
        let value = |value: Option<&String>| value.map_or("-".to_owned(), Clone::clone);
        // What only the peer leaves is the peer's fault, or a mount point of a container that dayfly refuses.
        let is_left = key.starts_with("left ")
            || key.starts_with("hung")
            || (!has_both && key.starts_with("host "));
        if ours.is_none() && is_left {
            continue;
        }
        // The end of a container that only one of them has started: how the start ended says it.
        if !has_both && key == "exit" && (theirs.is_none() || ours.is_none()) {
            continue;
        }
        // The mount points that were made before one of them stopped.
        if !has_both && key.starts_with("host got /") {
            continue;
        }
        // They stopped at different mounts; which fault of several is met first is not specified.
        if key.ends_with("| error") && mount_of(&peer.text) != mount_of(&own.text) {
            continue;
        }
        let is_end = ["exit", "run", "delete"].iter().any(|name| key.starts_with(name));
        let why = if is_end {
            format!(" [{} // {}]", last_line(&peer.text), last_line(&own.text))
        } else {
            String::new()
        };
        all.push(Difference { key: key.clone(), peer: value(theirs), own: value(ours), why });
    }
    all
}

/// Returns the destination of the mount that failed.
fn mount_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("to rootfs at ")?;
    rest.trim_start_matches(['\\', '"']).split(['\\', '"']).next()
}

/// Returns the last line of an error, without its time.
fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap_or_default();
    line.split_once("msg=").map_or(line, |(_, message)| message)
}

/// A row of the table of known differences.
#[derive(Debug, Clone)]
pub struct Known {
    /// The row's name.
    pub id: String,
    /// The peers and views in which it holds: words, or `*`.
    pub place: String,
    /// A part of the case's text that has to be there, or `*`. Several are separated by `&`; `!` negates one. `~` names a
    /// reason (`reasons.rs`) that has to have places.
    pub needs: String,
    /// The difference, as `KEY: PEER -> OWN` with `*` for anything, and `%` for a place of the reason, or below it. The own
    /// value `+` has all flags of the peer's, and others.
    pub pattern: String,
}

impl Known {
    /// Returns a number that no other row of a table has.
    #[must_use]
    pub fn number(&self) -> u64 {
        let columns = [&self.id, &self.place, &self.needs, &self.pattern];
        crate::differ::sum(0, columns.into_iter().flat_map(|column| column.bytes().chain([b'\t'])))
    }
}

/// Returns the rows of a table. Each has four columns, separated by tabs: id, place, needs, pattern; lines that begin
/// with `#` give the reasons.
///
/// # Errors
/// The line that is no row.
pub fn known(text: &str) -> Result<Vec<Known>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> =
                line.split('\t').filter(|column| !column.is_empty()).map(str::trim).collect();
            let [id, place, needs, pattern] = columns[..] else {
                return Err(format!("known: no row: {line}"));
            };
            for name in needs.split('&').filter_map(|need| need.strip_prefix('~')) {
                reasons::places(name, &Value::Null).map_err(|error| format!("known: {error}"))?;
            }
            let own = str::to_owned;
            Ok(Known { id: own(id), place: own(place), needs: own(needs), pattern: own(pattern) })
        })
        .collect()
}

impl Known {
    /// Returns whether this row explains a difference to `peer` in `view` for a case with this text.
    #[must_use]
    pub fn explains(
        &self,
        difference: &Difference,
        peer: &str,
        view: &str,
        case: &Value,
        text: &str,
    ) -> bool {
        let is_place =
            self.place == "*" || self.place.split(',').any(|word| word == peer || word == view);
        if !is_place || !is_met(&self.needs, text) {
            return false;
        }
        // The program of an exec sees the same container.
        let told = difference.to_string();
        let inside = told.strip_prefix("exec: ").unwrap_or(&told);
        let fits = |pattern: &str| match pattern.strip_suffix(" -> +") {
            Some(pattern) => {
                let adds = reasons::adds_flags(&difference.peer, &difference.own);
                adds && matches(pattern, &format!("{}: {}", difference.key, difference.peer))
            }
            None => matches(pattern, &told) || matches(pattern, inside),
        };
        let Some(name) = self.needs.split('&').find_map(|need| need.strip_prefix('~')) else {
            return fits(&self.pattern);
        };
        let places = reasons::places(name, case).unwrap_or_default();
        places.iter().any(|place| {
            let top = place.trim_end_matches('/');
            // Of several mounts at one place, the upper ones have numbers.
            let names = [place.clone(), format!("{top}/*"), format!("{top}#*")];
            names.iter().any(|name| fits(&self.pattern.replace('%', name)))
        })
    }
}

/// Returns whether a case's text has what the words of a row need; see [`Known::needs`].
#[must_use]
pub fn is_met(needs: &str, text: &str) -> bool {
    needs.split('&').all(|need| match need.strip_prefix('!') {
        Some(need) => !text.contains(need),
        None => need == "*" || need.starts_with('~') || text.contains(need),
    })
}

/// Returns whether `text` is `pattern`, whose `*` stands for any text.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Splits differences into unexplained ones and the rows that explain the others.
#[must_use]
pub fn explain<'a>(
    all: Vec<Difference>,
    known: &'a [Known],
    peer: &str,
    view: &str,
    case: &Value,
) -> (Vec<Difference>, Vec<&'a Known>) {
    let text = case.to_string();
    let (mut left, mut rows) = (Vec::new(), Vec::new());
    for difference in all {
        match known.iter().find(|row| row.explains(&difference, peer, view, case, &text)) {
            Some(row) => rows.push(row),
            None => left.push(difference),
        }
    }
    rows.sort_unstable_by_key(|row| row.number());
    rows.dedup_by_key(|row| row.number());
    (left, rows)
}

#[cfg(test)]
mod tests {
    use super::{Difference, known, matches};
    use serde_json::{Value, json};

    #[test]
    fn stars_stand_for_anything() {
        assert!(
            matches("a*c", "abc")
                && matches("a*", "a")
                && matches("*", "")
                && matches("a*b*c", "a1b2c")
        );
        assert!(!matches("a*c", "abd") && !matches("a", "ab") && !matches("a*b*c", "acb"));
    }

    #[test]
    fn a_row_explains() {
        let rows =
            known("# why\nx\trunc,v2\t\"tmpfs\"&!user\tmount * | options: * -> ro\n").unwrap();
        let difference = Difference {
            key: "mount /a | options".into(),
            peer: "rw".into(),
            own: "ro".into(),
            why: String::new(),
        };
        let explains = |peer, text| rows[0].explains(&difference, peer, "v1", &Value::Null, text);
        assert!(explains("runc", "\"tmpfs\""));
        assert!(!explains("crun", "\"tmpfs\""));
        assert!(!explains("runc", "\"tmpfs\" user"));
        assert!(known("only\tthree\tcolumns").is_err());
        assert!(known("x\t*\t~bogus\tmount *").is_err());
    }

    #[test]
    fn a_reason_has_places() {
        let rows = known("x\t*\t~bind-with-flags\tmount % | options: r* -> +\n").unwrap();
        let case = json!({ "config": { "mounts": [
            { "destination": "/a", "type": "bind", "options": ["ro"] },
        ] } });
        let explains = |key: &str, peer: &str, own: &str| {
            let why = String::new();
            let difference =
                Difference { key: key.into(), peer: peer.into(), own: own.into(), why };
            rows[0].explains(&difference, "runc", "v1", &case, "")
        };
        assert!(explains("mount /a | options", "ro", "ro,nosuid"));
        assert!(explains("mount /a/b | options", "ro", "ro,nosuid"));
        assert!(!explains("mount /ab | options", "ro", "ro,nosuid"));
        assert!(!explains("mount /a | options", "ro,nosuid", "ro"));
    }

    #[test]
    fn paths_are_no_kind() {
        let of = |key: &str| {
            Difference { key: key.into(), peer: "1".into(), own: "2".into(), why: String::new() }
                .kind()
        };
        assert_eq!(of("mount /a/b | options"), of("mount /c | options"));
        assert_ne!(of("exit"), of("Uid"));
    }
}
