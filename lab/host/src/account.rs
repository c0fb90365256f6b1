//! Users and groups by name, from /etc/passwd and /etc/group.

use report::Error;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The owner of a file as a user writes it, `USER:GROUP`. Both are names or numbers, and both are optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: Option<String>,
    /// The group.
    pub group: Option<String>,
}

impl Owner {
    /// Returns the numeric ids. If only the user is given, the group stays unchanged, as with cgcreate.
    ///
    /// # Errors
    /// An unknown name.
    pub fn ids(&self) -> Result<(Option<u32>, Option<u32>), Error> {
        let user = self.user.as_deref().map(|name| id("user", name, "/etc/passwd")).transpose()?;
        let group =
            self.group.as_deref().map(|name| id("group", name, "/etc/group")).transpose()?;
        Ok((user, group))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [user, group] = [&self.user, &self.group].map(|name| name.as_deref().unwrap_or(""));
        write!(f, "{user}:{group}")
    }
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let given = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        match (given(user), given(group)) {
            (None, None) => Err("give USER:GROUP, USER or :GROUP".to_owned()),
            (user, group) => Ok(Self { user, group }),
        }
    }
}

/// Parses permissions in octal.
///
/// # Errors
/// The reason why they are invalid.
pub fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text.trim_start_matches("0o"), 8).ok();
    mode.filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| format!("{text:?} is not a mode such as 0644"))
}

/// The accounts of a file: /etc/passwd or /etc/group.
fn accounts(text: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.splitn(4, ':');
        let (name, id) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        Some((name, id, fields.next().unwrap_or_default()))
    })
}

/// Returns the name that `file` (/etc/passwd or /etc/group) gives to an id, or the id's number if `file` gives no name.
pub fn name(id: u32, file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let found = accounts(&text).find(|(_, other, _)| *other == id);
    found.map_or_else(|| id.to_string(), |(name, ..)| name.to_owned())
}

/// Returns the primary group of a user, or a group of the same number if there is no such user.
pub fn primary_group(user: u32) -> u32 {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let rest = accounts(&text).find(|(_, id, _)| *id == user).map(|(.., rest)| rest);
    rest.and_then(|rest| rest.split(':').next()?.parse().ok()).unwrap_or(user)
}

fn id(kind: &str, name: &str, file: &str) -> Result<u32, Error> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = fs::read_to_string(file).map_err(Error::of("read", Path::new(file)))?;
    let found = accounts(&text).find(|(other, ..)| *other == name).map(|(_, id, _)| id);
    found.ok_or_else(|| {
        refused!("there is no {kind} {name:?} in {file}").advise("use the numeric id instead")
    })
}
