//! Sets of small numbers in the kernel's format for lists of CPUs and memory nodes: `0-3,7`.

use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A set of CPUs or memory nodes, each below [`NumberSet::LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NumberSet {
    words: [u64; 16],
}

impl NumberSet {
    /// The lowest number that does not fit in a set.
    pub const LIMIT: u32 = 1024;

    /// Parses numbers and ranges separated by commas. Blanks around elements and empty elements are allowed, as in
    /// runc; an empty text is the empty set.
    ///
    /// # Errors
    /// The reason why the text is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        if text.is_empty() {
            return Ok(set);
        }
        for element in text.split(',').map(str::trim).filter(|element| !element.is_empty()) {
            let (first, last) = element.split_once('-').unwrap_or((element, element));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("invalid range: {element}"));
            }
            (first..=last).for_each(|number| set.insert(number));
        }
        match set.is_empty() {
            true => Err(format!("no members found in set {text:?}")),
            false => Ok(set),
        }
    }

    fn insert(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Returns whether the set contains this number.
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the number of elements.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Iterates over the numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..Self::LIMIT).filter(|number| self.contains(*number))
    }

    /// Returns the set as bits; number 0 is the lowest bit of the first word.
    pub fn words(&self) -> &[u64; 16] {
        &self.words
    }
}

impl From<[u64; 16]> for NumberSet {
    /// Builds a set from bits; number 0 is the lowest bit of the first word.
    fn from(words: [u64; 16]) -> Self {
        Self { words }
    }
}

impl FromIterator<u32> for NumberSet {
    /// Builds a set from numbers. Numbers at or above the limit are left out.
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

fn number(text: &str) -> Result<u32, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(format!("{text:?} is not a number"));
    }
    let number = text.parse().ok().filter(|number| *number < NumberSet::LIMIT);
    let last = NumberSet::LIMIT - 1;
    number.ok_or_else(|| format!("{text}: values larger than {last} are not supported"))
}

/// Writes the kernel's format, in which consecutive numbers become a range.
impl fmt::Display for NumberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for first in self.iter().filter(|first| *first == 0 || !self.contains(first - 1)) {
            let last = (first..Self::LIMIT).take_while(|number| self.contains(*number)).last();
            match last.filter(|last| *last > first) {
                Some(last) => write!(f, "{comma}{first}-{last}")?,
                None => write!(f, "{comma}{first}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn sets_are_read_and_written() {
        for (text, written) in [
            ("", ""),
            ("0", "0"),
            ("0-3,7", "0-3,7"),
            (" 5 ,, 6,4", "4-6"),
            ("1023,0-1", "0-1,1023"),
            ("0-1023", "0-1023"),
            ("62-65", "62-65"),
        ] {
            assert_eq!(NumberSet::parse(text).unwrap().to_string(), written, "{text:?}");
        }
        let set = NumberSet::parse("0,64,65").unwrap();
        assert_eq!((set.words()[0], set.words()[1], set.count()), (1, 3, 3));
    }

    #[test]
    fn other_texts_are_not() {
        for text in ["x", "-", "1-", "-1", "+1", "1 2", "0x1", "3-1", "1024", "0-99999999999", ","]
        {
            assert!(NumberSet::parse(text).is_err(), "{text:?}");
        }
    }
}
