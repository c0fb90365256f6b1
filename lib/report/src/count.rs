//! Numbers with nouns, as text.

use std::fmt::Display;

/// Returns a number with its noun in the singular or plural: `1 layer`, `2 layers`, `0 directories`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    match count == N::from(1) {
        true => format!("{count} {thing}"),
        false => format!("{count} {}", plural(thing)),
    }
}

fn plural(thing: &str) -> String {
    let stem = thing.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match stem {
        Some(stem) => format!("{stem}ies"),
        None if thing.ends_with(['s', 'x']) || thing.ends_with("ch") => format!("{thing}es"),
        None => format!("{thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many() {
        for (thing, many) in [
            ("layer", "layers"),
            ("directory", "directories"),
            ("process", "processes"),
            ("delay", "delays"),
            ("switch", "switches"),
            ("level 3 cache", "level 3 caches"),
        ] {
            assert_eq!(counted(1, thing), format!("1 {thing}"));
            assert_eq!(counted(0_u64, thing), format!("0 {many}"));
            assert_eq!(counted(2_usize, thing), format!("2 {many}"));
        }
    }
}
