//! Lists of CPUs and memory nodes: `0-3,7`.

use alloc::vec::Vec;
use core::fmt;

/// The highest number allowed in a list; no kernel supports more CPUs.
const HIGHEST: u32 = 65_535;

/// A set of CPUs or memory nodes, in the list format of cpuset files (cpuset(7), "List format").
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct List(Vec<u32>);

impl List {
    /// Parses a list such as `0-3,7`, or with a stride such as `0-31:1/4`, which means the first number of every four.
    /// An empty text is an empty list. Returns `None` if the text is not a valid list.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = Vec::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (range, stride) = part.split_once(':').unwrap_or((part, "1/1"));
            let (used, group) = stride.split_once('/')?;
            let (used, group) = (number(used)?, number(group)?);
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || used > group || group == 0 {
                return None;
            }
            numbers.extend((first..=last).filter(|number| (number - first) % group < used));
        }
        Some(numbers.into_iter().collect())
    }

    /// Iterates over the numbers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of elements of the list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lowest number.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Returns whether the list contains `number`.
    pub fn contains(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// Returns whether the list is a subset of `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        self.iter().all(|number| other.contains(number))
    }

    /// Returns the union of both lists.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the numbers that are in both lists.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|number| other.contains(*number)).collect()
    }

    /// Returns the numbers of this list that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|number| !other.contains(*number)).collect()
    }
}

impl FromIterator<u32> for List {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut comma = "";
        while let Some(&first) = rest.first() {
            let in_row = rest.iter().zip(first..).take_while(|(number, next)| *number == next);
            let (run, last) = in_row.fold((0, first), |(run, _), (last, _)| (run + 1, *last));
            match run {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            rest = rest.get(run..).unwrap_or_default();
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for List {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= HIGHEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> Option<String> {
        List::parse(text).map(|list| list.to_string())
    }

    #[test]
    fn read_and_written() {
        assert_eq!(round("0-3,7").as_deref(), Some("0-3,7"));
        assert_eq!(round("7,0,2,1,1\n").as_deref(), Some("0-2,7"));
        assert_eq!(round("").as_deref(), Some(""));
        assert_eq!(round("0-1").as_deref(), Some("0-1"));
        assert_eq!(round("0-31:1/4").as_deref(), Some("0,4,8,12,16,20,24,28"));
        for bad in ["3-1", "x", "1-", "-1", "+1", "0-99999999", "0-7:3/2", "0-7:1/0", "0-7:1"] {
            assert_eq!(round(bad), None, "{bad}");
        }
    }

    #[test]
    fn sets() {
        let list = |text| List::parse(text).unwrap();
        assert_eq!(list("0-3").union(&list("3-5")), list("0-5"));
        assert_eq!(list("0-3").intersection(&list("3-5")), list("3"));
        assert_eq!(list("0-3").without(&list("1-2")), list("0,3"));
        assert!(list("1-2").is_within(&list("0-3")) && !list("1-4").is_within(&list("0-3")));
    }
}
