//! The user of a container's process: an image names users by name or number, the kernel needs numbers.

use crate::error::{Error, Result};
use crate::merged::Merged;

/// The maximum length of /etc/passwd or /etc/group, in bytes.
const LONGEST: u64 = 8 << 20;

/// A user, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The home directory, if /etc/passwd names one.
    pub home: Option<String>,
}

/// Resolves `text`, `USER[:GROUP]` with names or numbers, by the container's /etc/passwd and /etc/group.
///
/// # Errors
/// [`Error::Unfit`] for unknown names.
pub fn resolve(text: &str, root: &Merged) -> Result<User> {
    let passwd = file(root, "etc/passwd")?;
    let group = file(root, "etc/group")?;
    find(text, &passwd, &group)
}

fn file(root: &Merged, path: &str) -> Result<String> {
    let text = root.read(path, LONGEST)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn find(text: &str, passwd: &str, group: &str) -> Result<User> {
    let (name, group_name) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group).filter(|group| !group.is_empty())),
        None => (text, None),
    };
    let name = if name.is_empty() { "0" } else { name };
    let number = number(name);
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = fields.into_iter().find(|fields| match number {
        Some(uid) => fields.get(2).and_then(|field| field.parse().ok()) == Some(uid),
        None => fields.first() == Some(&name),
    });
    let field = |at: usize| line.as_ref().and_then(|fields| fields.get(at)).copied();
    let listed = |at: usize| field(at).and_then(|field| field.parse::<u32>().ok());
    let uid = number.or(listed(2)).ok_or_else(|| {
        Error::Unfit(format!("the image's user {name:?} is not in its /etc/passwd"))
    })?;
    let mut user = User { uid, gid: listed(3).unwrap_or(0), groups: Vec::new(), home: None };
    user.home = field(5).filter(|home| home.starts_with('/')).map(str::to_owned);
    match group_name {
        Some(wanted) => user.gid = group_id(wanted, group)?,
        // Without a group, use the user's groups, as login does.
        None => {
            let login = field(0).unwrap_or(name);
            user.groups = memberships(login, group);
            user.groups.retain(|&other| other != user.gid);
        }
    }
    Ok(user)
}

fn group_id(wanted: &str, group: &str) -> Result<u32> {
    let listed = || {
        let mut fields = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
        fields.find(|fields| fields.first() == Some(&wanted))?.get(2)?.parse().ok()
    };
    number(wanted).or_else(listed).ok_or_else(|| {
        Error::Unfit(format!("the image's group {wanted:?} is not in its /etc/group"))
    })
}

fn memberships(login: &str, group: &str) -> Vec<u32> {
    let fields = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let member = |fields: &Vec<&str>| {
        fields.get(3).is_some_and(|members| members.split(',').any(|member| member.trim() == login))
    };
    fields.filter(member).filter_map(|fields| fields.get(2)?.parse().ok()).collect()
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&id| digits && id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:34::/var/www:/bin/sh\nbroken\n";
    const GROUP: &str = "root:x:0:\nwww:x:34:\nextra:x:50:other,www\nmore:x:51:www\n";

    fn id(text: &str) -> (u32, u32, Vec<u32>) {
        let user = find(text, PASSWD, GROUP).expect(text);
        (user.uid, user.gid, user.groups)
    }

    #[test]
    fn names_and_numbers_are_resolved() {
        assert_eq!(id(""), (0, 0, vec![]));
        assert_eq!(id("www"), (33, 34, vec![50, 51]));
        assert_eq!(id("33"), (33, 34, vec![50, 51]));
        assert_eq!(id("www:extra"), (33, 50, vec![]));
        assert_eq!(id("1000:7"), (1000, 7, vec![]));
        assert_eq!(id("1000"), (1000, 0, vec![]));
        assert_eq!(find("www", PASSWD, GROUP).expect("www").home.as_deref(), Some("/var/www"));
    }

    #[test]
    fn names_that_are_not_there_are_refused() {
        assert!(find("nobody", PASSWD, GROUP).is_err());
        assert!(find("www:nogroup", PASSWD, GROUP).is_err());
        assert!(find("4294967295", PASSWD, GROUP).is_err());
    }
}
