//! Misspelt words.

/// The one of `known` that `word` most likely was meant to be: within a third of its letters,
/// or two.
#[must_use]
pub fn nearest(word: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let distances = known.map(|other| (distance(word, &other), other));
    let (distance, nearest) = distances.min()?;
    let letters = word.chars().count();
    (distance < letters && distance <= letters.div_ceil(3).clamp(2, 4)).then_some(nearest)
}

/// Levenshtein's distance: letters to add, drop or change.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (at, counterpart) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *counterpart);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word() {
        let known = || ["cpus", "mems", "memory"].into_iter().map(str::to_owned);
        assert_eq!(nearest("cpu", known()).as_deref(), Some("cpus"));
        assert_eq!(nearest("memroy", known()).as_deref(), Some("memory"));
        assert_eq!(nearest("elephant", known()), None);
        assert_eq!(nearest("", known()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
