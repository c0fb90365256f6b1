//! Suggestions for misspelt words.
//!
//! The crate `strsim` provides the same function, but requires std, which the runtime does not use.

use alloc::vec::Vec;

/// Returns the word of `known` with the smallest edit distance to `word`: at most 1 for a word of up to five letters, as
/// words this short have many neighbours, otherwise at most a third of the number of letters, rounded up, and 4. Of several
/// words at the same distance, the first in alphabetical order is returned.
#[must_use]
pub fn nearest<W: AsRef<str> + Ord>(word: &str, known: impl IntoIterator<Item = W>) -> Option<W> {
    let distances = known.into_iter().map(|other| (distance(word, other.as_ref()), other));
    let (distance, nearest) = distances.min()?;
    let letters = word.chars().count();
    let limit = match letters {
        ..2 => 0,
        2..6 => 1,
        _ => letters.div_ceil(3).min(4),
    };
    (distance <= limit).then_some(nearest)
}

/// Returns the number of insertions, deletions, substitutions and transpositions (the optimal string alignment variant
/// of Damerau-Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    // Two rows of the table of distances. `above` contains the distances from the letters of `one` read so far to each
    // prefix of `other`; `before` contains the distances without the last of these letters.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    let mut last = None;
    for (read, letter) in one.chars().enumerate() {
        let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
        let mut row = Vec::with_capacity(above.len());
        let mut left = read + 1;
        row.push(left);
        for (column, counterpart) in other.iter().enumerate() {
            let changed = at(&above, column) + usize::from(letter != *counterpart);
            let mut least = changed.min(left + 1).min(at(&above, column + 1) + 1);
            let pair = column.checked_sub(1).and_then(|beside| Some((beside, *other.get(beside)?)));
            if let Some((beside, neighbour)) = pair
                && last == Some(*counterpart)
                && neighbour == letter
            {
                least = least.min(at(&before, beside) + 1);
            }
            left = least;
            row.push(least);
        }
        before = core::mem::replace(&mut above, row);
        last = Some(letter);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word() {
        let known = ["cpus", "mems", "memory"];
        assert_eq!(nearest("cpu", known), Some("cpus"));
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("rnu", ["rm", "run", "ps"]), Some("run"));
        assert_eq!(nearest("lits", ["list", "kill"]), Some("list"));
        assert_eq!(nearest("foo", ["log", "root"]), None, "too far for a word of three letters");
        assert_eq!(nearest("stats", ["state", "stats-of"]), Some("state"));
        assert_eq!(nearest("load", ["logs"]), None);
        assert_eq!(nearest("elephant", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest("x", [""; 0]), None);
    }

    #[test]
    fn distances() {
        for (one, other, expected) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("", "", 0),
            ("a", "a", 0),
            ("ab", "ba", 1),
            ("memroy", "memory", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
