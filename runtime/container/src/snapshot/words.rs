//! Mount options in containerd's format.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use spec::IdMapping;

/// The mappings of uids and of gids.
pub(crate) type Ids = (Vec<IdMapping>, Vec<IdMapping>);

/// The parsed options of a mount.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// All words except the mappings and `loop`, in order, with values unquoted.
    pub rest: Vec<String>,
    /// The mappings of `uidmap=` and `gidmap=`.
    pub ids: Option<Ids>,
    /// Whether `loop` is among the options.
    pub is_looped: bool,
}

impl Words {
    /// Parses options, each of which may contain several, separated by commas.
    ///
    /// # Errors
    /// If a mapping is invalid; if only one of `uidmap=` and `gidmap=` is present; if an option contains a template
    /// (`{{`) that containerd's mount manager should have replaced.
    pub fn read<'a>(options: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut words = Self::default();
        let mut maps = [Vec::new(), Vec::new()];
        // The mapping (uidmap or gidmap) to which further ranges after a comma belong.
        let mut current = None;
        for word in options.flat_map(split) {
            if word.starts_with("X-containerd.") || word.contains("{{") {
                return Err(format!("option {word:?} is for containerd's mount manager"));
            }
            let (ranges, which) = match (word.split_once('='), current) {
                (Some(("uidmap", ranges)), _) => (ranges, Some(0)),
                (Some(("gidmap", ranges)), _) => (ranges, Some(1)),
                (None, Some(which)) if word.contains(':') => (word, Some(which)),
                _ => (word, None),
            };
            current = which;
            if let Some(map) = which.and_then(|which| maps.get_mut(which)) {
                map.push(range(ranges).ok_or_else(|| format!("option {word:?} maps no ids"))?);
                continue;
            }
            match word.split_once('=') {
                Some((key, value)) => words.rest.push(format!("{key}={}", unquoted(value))),
                None if word == "loop" => words.is_looped = true,
                None => words.rest.push(word.to_string()),
            }
        }
        let [uids, gids] = maps;
        words.ids = match (uids.is_empty(), gids.is_empty()) {
            (true, true) => None,
            (false, false) => Some((uids, gids)),
            _ => return Err("uidmap and gidmap go together".into()),
        };
        Ok(words)
    }
}

/// Splits an option at its commas. Commas within quotes or after a backslash do not split.
fn split(option: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = move |character: char| {
        let was_escaped = is_escaped;
        is_escaped = character == '\\' && !was_escaped;
        is_quoted ^= character == '"' && !was_escaped;
        character == ',' && !was_escaped && !is_quoted
    };
    option.split(ends).filter(|word| !word.is_empty())
}

fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// Parses `CONTAINER:HOST:SIZE`.
fn range(text: &str) -> Option<IdMapping> {
    let mut numbers = text.split(':').map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    let map = IdMapping { container_id: next()?, host_id: next()?, size: next()? };
    (numbers.next().is_none() && map.size > 0).then_some(map)
}

/// Splits a list of paths at colons. A backslash escapes the next character, as in overlayfs. The path of a data-only
/// layer (`::`) is preceded by an empty path.
pub(crate) fn paths(list: &str) -> Vec<String> {
    let mut paths = Vec::from([String::new()]);
    let mut characters = list.chars();
    while let Some(character) = characters.next() {
        match (character, paths.last_mut()) {
            (':', _) => paths.push(String::new()),
            ('\\', Some(path)) => path.extend(characters.next()),
            (plain, Some(path)) => path.push(plain),
            (_, None) => {}
        }
    }
    paths
}

/// Unescapes a single path, in which a colon is an ordinary character.
pub(crate) fn path(text: &str) -> String {
    paths(text).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[&str]) -> Result<Words, String> {
        Words::read(options.iter().copied())
    }

    #[test]
    fn words_are_between_commas() {
        let words = read(&["ro,index=off", "", "context=\"u:r:t:s0:c1,c2\"", r"upperdir=/a\,b\\"]);
        let expected = ["ro", "index=off", "context=u:r:t:s0:c1,c2", r"upperdir=/a\,b\\"];
        let words = words.unwrap();
        assert_eq!(words.rest, expected);
        assert!(words.ids.is_none() && !words.is_looped);
        assert!(read(&["ro", "loop"]).unwrap().is_looped);
    }

    #[test]
    fn mappings_have_commas_too() {
        let words = read(&["uidmap=0:1000:10,10:3000:5", "gidmap=0:2000:10,ro"]).unwrap();
        let numbers = |maps: &[IdMapping]| -> Vec<(u32, u32, u32)> {
            maps.iter().map(|map| (map.container_id, map.host_id, map.size)).collect()
        };
        let (uids, gids) = words.ids.unwrap();
        assert_eq!(numbers(&uids), [(0, 1000, 10), (10, 3000, 5)]);
        assert_eq!(numbers(&gids), [(0, 2000, 10)]);
        assert_eq!(words.rest, ["ro"]);
    }

    #[test]
    fn what_is_no_mapping() {
        for bad in ["uidmap=", "uidmap=0:1", "uidmap=0:1:0", "uidmap=0:1:2:3", "gidmap=-1:0:1"] {
            assert!(read(&[bad]).unwrap_err().contains("maps no ids"), "{bad}");
        }
        assert_eq!(read(&["uidmap=0:1:2"]).unwrap_err(), "uidmap and gidmap go together");
    }

    #[test]
    fn templates() {
        for word in ["lowerdir={{ overlay 0 2 }}", "X-containerd.mkdir.path=/a"] {
            assert!(read(&[word]).unwrap_err().contains("mount manager"), "{word}");
        }
    }

    #[test]
    fn paths_as_overlayfs_reads_them() {
        assert_eq!(paths(r"/a:/b\:c:/d\\\,e"), ["/a", "/b:c", r"/d\,e"]);
        assert_eq!(paths("/a::/data"), ["/a", "", "/data"]);
        assert_eq!(paths(""), [""]);
        assert_eq!(path(r"/a\:b:c"), "/a:b:c");
    }
}
