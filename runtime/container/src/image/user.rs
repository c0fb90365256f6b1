//! The user of a process: resolves names of users and groups by the files that the container would see (passwd(5),
//! group(5)).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use rootfs::Layers;

use crate::Error;

/// The maximum size in bytes of a file that is read.
const LONGEST: usize = 1 << 20;

/// A user, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Resolves `USER[:GROUP]`, each a name or a number, in the image with these layers.
///
/// # Errors
/// Names that do not exist; files that cannot be read, if a name depends on them.
pub(super) fn resolve(text: &str, layers: &Layers) -> Result<User, Error> {
    let (name, group) = split(text);
    if let (Some(uid), Some(Some(gid))) = (number(name), group.map(number)) {
        return Ok(User { uid, gid, groups: Vec::new() });
    }
    let read = |file: &CStr| match rootfs::look::read(layers, c"etc", file, LONGEST) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()),
        // A number means something all the same.
        Err(_) if number(name).is_some() && group.is_none() => Ok(String::new()),
        Err(error) => Err(Error::Text(format!(
            "--user {text}: {error} (links are not followed, nor more than {LONGEST} bytes read: give numbers)"
        ))),
    };
    find(text, &read(c"passwd")?, &read(c"group")?)
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, group)) => (name, Some(group).filter(|group| !group.is_empty())),
        None => (text, None),
    }
}

fn find(text: &str, passwd: &str, group: &str) -> Result<User, Error> {
    let (name, group_name) = split(text);
    let name = if name.is_empty() { "0" } else { name };
    let number = number(name);
    let mut lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|fields| match number {
        Some(uid) => fields.get(2).and_then(|field| field.parse().ok()) == Some(uid),
        None => fields.first() == Some(&name),
    });
    let field = |at: usize| line.as_ref().and_then(|fields| fields.get(at)).copied();
    let listed = |at: usize| field(at).and_then(|field| field.parse::<u32>().ok());
    let uid = number.or(listed(2)).ok_or_else(|| {
        Error::Text(format!("--user {text}: the image has no user {name} in /etc/passwd"))
    })?;
    let mut user = User { uid, gid: listed(3).unwrap_or(0), groups: Vec::new() };
    match group_name {
        Some(wanted) => {
            user.gid = group_id(wanted, group).ok_or_else(|| {
                Error::Text(format!("--user {text}: the image has no group {wanted} in /etc/group"))
            })?;
        }
        // As login does, where no group is asked for.
        None => {
            user.groups = memberships(field(0).unwrap_or(name), group);
            user.groups.retain(|&other| other != user.gid);
        }
    }
    Ok(user)
}

fn group_id(wanted: &str, group: &str) -> Option<u32> {
    let listed = || {
        let mut lines = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
        lines.find(|fields| fields.first() == Some(&wanted))?.get(2)?.parse().ok()
    };
    number(wanted).or_else(listed)
}

fn memberships(login: &str, group: &str) -> Vec<u32> {
    let lines = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let member = |fields: &Vec<&str>| {
        fields.get(3).is_some_and(|members| members.split(',').any(|member| member.trim() == login))
    };
    lines.filter(member).filter_map(|fields| fields.get(2)?.parse().ok()).collect()
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

    #[test]
    fn names_and_numbers() {
        let id = |text: &str| {
            let user = find(text, PASSWD, GROUP).unwrap();
            (user.uid, user.gid, user.groups)
        };
        assert_eq!(id("www"), (33, 34, vec![50, 51]));
        assert_eq!(id("33"), (33, 34, vec![50, 51]));
        assert_eq!(id("www:extra"), (33, 50, vec![]));
        assert_eq!(id("1000:extra"), (1000, 50, vec![]));
        assert_eq!(id("1000:7"), (1000, 7, vec![]));
        assert_eq!(id("1000"), (1000, 0, vec![]));
        assert_eq!(id(":more"), (0, 51, vec![]));
    }

    #[test]
    fn names_that_are_not_there() {
        let refused = |text: &str| match find(text, PASSWD, GROUP) {
            Err(Error::Text(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused("me"), "--user me: the image has no user me in /etc/passwd");
        assert_eq!(refused("www:x"), "--user www:x: the image has no group x in /etc/group");
        refused("4294967295");
        refused("-1");
        refused("broken");
    }
}
