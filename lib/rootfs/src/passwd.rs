//! Resolution of user and group names to numbers by passwd(5) and group(5) files, because the kernel accepts only
//! numbers.

use alloc::string::String;
use alloc::vec::Vec;

/// The numeric ids of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The home directory, if the passwd file names one.
    pub home: Option<String>,
}

/// A name that has no entry in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown<'a> {
    /// The user with this name is not in the passwd file.
    User(&'a str),
    /// The group with this name is not in the group file.
    Group(&'a str),
}

/// Splits `USER[:GROUP]`. An empty group counts as no group.
#[must_use]
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, group)) => (name, Some(group).filter(|group| !group.is_empty())),
        None => (text, None),
    }
}

/// Iterates over the lines of a file, split into fields.
fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

/// Resolves `USER[:GROUP]`, where both are names or numbers. The default user is root. The default groups are the
/// user's group and supplementary groups in the files, as at a login.
///
/// # Errors
/// If a name has no entry in its file. A number needs no entry.
pub fn find<'a>(text: &'a str, passwd: &str, group: &str) -> Result<User, Unknown<'a>> {
    let (name, group_name) = split(text);
    let name = if name.is_empty() { "0" } else { name };
    let number = number(name);
    let line = entries(passwd).find(|fields| match number {
        Some(uid) => fields.get(2).and_then(|field| field.parse().ok()) == Some(uid),
        None => fields.first() == Some(&name),
    });
    let field = |at: usize| line.as_ref().and_then(|fields| fields.get(at)).copied();
    let listed = |at: usize| field(at).and_then(|field| field.parse::<u32>().ok());
    let uid = number.or(listed(2)).ok_or(Unknown::User(name))?;
    let home = field(5).filter(|home| home.starts_with('/')).map(String::from);
    let mut user = User { uid, gid: listed(3).unwrap_or(0), groups: Vec::new(), home };
    match group_name {
        Some(wanted) => user.gid = group_id(wanted, group).ok_or(Unknown::Group(wanted))?,
        None => {
            user.groups = memberships(field(0).unwrap_or(name), group);
            user.groups.retain(|&other| other != user.gid);
        }
    }
    Ok(user)
}

fn group_id(wanted: &str, group: &str) -> Option<u32> {
    let listed =
        || entries(group).find(|fields| fields.first() == Some(&wanted))?.get(2)?.parse().ok();
    number(wanted).or_else(listed)
}

fn memberships(login: &str, group: &str) -> Vec<u32> {
    let member = |fields: &Vec<&str>| {
        fields.get(3).is_some_and(|members| members.split(',').any(|member| member.trim() == login))
    };
    entries(group).filter(member).filter_map(|fields| fields.get(2)?.parse().ok()).collect()
}

/// Parses an id. Returns `None` for a text that is not a number, and for the largest number, which the kernel
/// interprets as "unchanged".
#[must_use]
pub fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&id| digits && id != u32::MAX)
}
