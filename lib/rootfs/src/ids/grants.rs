//! The ids that containers may use: subuid(5), subgid(5).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::io::Errno;

use super::RANGE;
use crate::Error;

/// The default range if nothing is configured. It overlaps no range that useradd(8) assigns to users by default, and
/// lies within the ids that systemd reserves for containers (systemd.io/UIDS-GIDS).
const DEFAULT: (u32, u32) = (0x4000_0000, 0x2fff_0000);
/// The users whose grants are used if no user is configured. The first of them to whom both files grant at least one
/// whole range is chosen.
const USERS: [&str; 2] = ["dayfly", "containers"];

/// The files and the user from which the granted ids are read.
#[derive(Debug, Clone, Copy)]
pub struct Config<'a> {
    /// A user's name or number. `None` means the user `dayfly` or, if that user has no grants, the
    /// user `containers`. If neither has grants, the default range is used.
    pub user: Option<&'a str>,
    /// The path of subuid(5).
    pub subuid: &'a str,
    /// The path of subgid(5).
    pub subgid: &'a str,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Self { user: None, subuid: "/etc/subuid", subgid: "/etc/subgid" }
    }
}

/// The ids for containers, in ranges of [`RANGE`] ids. All containers without their own range share the first range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// For each block of ids: its first id and the number of whole ranges in it.
    blocks: Vec<(u32, u32)>,
}

impl Grants {
    /// Reads the files of the configuration. An id is granted only if both subuid(5) and subgid(5) list it.
    ///
    /// # Errors
    /// The requested user has no grants; a file cannot be read.
    pub fn read(config: &Config<'_>) -> Result<Self, Error> {
        let read = |path: &str| match sys::fs::read_text(path) {
            Ok(text) => Ok(text),
            Err(Errno::NOENT) => Ok(String::new()),
            Err(errno) => Err(sys::Error::new("read", path, errno)),
        };
        let (uids, gids) = (read(config.subuid)?, read(config.subgid)?);
        let of = |user: &str| both(&lines(&uids, user), &lines(&gids, user));
        let granted = match config.user {
            Some(user) => {
                let granted = Self::of(&of(user));
                if granted.blocks.is_empty() {
                    return Err(Error::Ids(format!(
                        "{} and {} grant {user} no {RANGE} ids in a row",
                        config.subuid, config.subgid
                    )));
                }
                granted
            }
            None => {
                let mut all = USERS.into_iter().map(|user| Self::of(&of(user)));
                let granted = all.find(|grants| !grants.blocks.is_empty());
                granted.unwrap_or_else(|| Self::of(&[DEFAULT]))
            }
        };
        Ok(granted)
    }

    /// Returns the whole ranges that fit into spans of ids; a span is a first id and a count.
    pub fn of(spans: &[(u32, u32)]) -> Self {
        let blocks = spans.iter().map(|(first, count)| {
            let count = (*count).min(u32::MAX - first);
            (*first, count / RANGE)
        });
        Self { blocks: blocks.filter(|(first, count)| *count > 0 && *first > 0).collect() }
    }

    /// Returns the first id of the shared range.
    ///
    /// # Errors
    /// If no range is granted.
    pub fn shared(&self) -> Result<u32, Error> {
        let first = self.blocks.first().map(|(first, _)| *first);
        first.ok_or_else(|| Error::Ids(String::from("no ids are granted")))
    }

    /// Returns the number of containers that can have a range of their own.
    pub fn count(&self) -> u32 {
        self.blocks.iter().map(|(_, count)| *count).sum::<u32>().saturating_sub(1)
    }

    /// Returns the first id of the nth range that a container can have of its own.
    pub(super) fn nth(&self, number: u32) -> Option<u32> {
        let mut left = number.checked_add(1)?;
        for (first, count) in &self.blocks {
            match left.checked_sub(*count) {
                Some(rest) => left = rest,
                None => return Some(first + left * RANGE),
            }
        }
        None
    }
}

/// Returns the first id and the count in each of a user's lines.
fn lines(text: &str, user: &str) -> Vec<(u32, u32)> {
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let name = fields.next()?;
        let span = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (name == user && fields.next().is_none()).then_some(span)
    });
    lines.collect()
}

/// Returns the ranges, as first id and number of ids, that a file in the form of subuid(5) grants to a user with these
/// names.
pub fn granted_to(text: &str, names: &[&str]) -> Vec<(u32, u32)> {
    let ranges = names.iter().flat_map(|name| lines(text, name));
    ranges.filter(|(first, count)| *count > 0 && first.checked_add(*count).is_some()).collect()
}

/// Returns the ids that are in both lists of spans.
fn both(some: &[(u32, u32)], others: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut shared = Vec::new();
    for (first, count) in some {
        for (other, other_count) in others {
            let start = (*first).max(*other);
            let end = first.saturating_add(*count).min(other.saturating_add(*other_count));
            if start < end {
                shared.push((start, end - start));
            }
        }
    }
    shared.sort_unstable();
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uids: &str, gids: &str, user: Option<&str>) -> Result<Grants, Error> {
        let name = std::thread::current().name().unwrap_or("x").replace("::", "-");
        let dir = std::env::temp_dir().join(format!("dayfly-grants-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (subuid, subgid) = (dir.join("subuid"), dir.join("subgid"));
        std::fs::write(&subuid, uids).unwrap();
        std::fs::write(&subgid, gids).unwrap();
        let (subuid, subgid) = (subuid.to_str().unwrap(), subgid.to_str().unwrap());
        let grants = Grants::read(&Config { user, subuid, subgid });
        std::fs::remove_dir_all(&dir).unwrap();
        grants
    }

    #[test]
    fn lines_of_one_user() {
        let text = "root:1:65536\ndayfly:100000:131072\nbad\ndayfly:x:1\ndayfly:500000:65536\n";
        let grants = read(text, text, None).unwrap();
        assert_eq!(grants, Grants::of(&[(100_000, 131_072), (500_000, 65_536)]));
        assert_eq!(grants.shared(), Ok(100_000));
        assert_eq!(
            (grants.count(), grants.nth(0), grants.nth(1)),
            (2, Some(165_536), Some(500_000))
        );
        assert_eq!(grants.nth(2), None);
        assert_eq!(read(text, text, Some("root")).unwrap().shared(), Ok(1));
        assert!(read(text, text, Some("nobody")).is_err());
    }

    #[test]
    fn both_files_have_to_grant_it() {
        let grants = read("containers:100000:200000\n", "containers:150000:200000\n", None);
        assert_eq!(grants.unwrap(), Grants::of(&[(150_000, 150_000)]));
        assert!(read("a:100000:200000\n", "a:300000:200000\n", Some("a")).is_err());
    }

    #[test]
    fn without_a_configuration_there_are_many() {
        let grants = read("", "", None).unwrap();
        assert!(grants.count() > 10_000);
        let last = grants.nth(grants.count() - 1).unwrap();
        assert!(last.checked_add(RANGE).is_some());
    }
}
