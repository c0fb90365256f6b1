//! Resolves the names of users and groups by /etc/passwd and /etc/group of the image (passwd(5), group(5)).

use alloc::format;
use alloc::string::String;
use core::ffi::CStr;

use rootfs::Layers;
use rootfs::passwd::{self, Unknown, User, number, split};

use crate::Error;

/// The largest size of /etc/passwd and /etc/group in bytes.
const LONGEST: usize = 1 << 20;

/// Resolves `USER[:GROUP]` in the image that consists of `layers`. Both parts may be names or numbers.
///
/// # Errors
/// If a name does not exist, or if a file that is needed for a name cannot be read.
pub(super) fn resolve(text: &str, layers: &Layers) -> Result<User, Error> {
    let (name, group) = split(text);
    if let (Some(uid), Some(Some(gid))) = (number(name), group.map(number)) {
        return Ok(User { uid, gid, ..User::default() });
    }
    let read = |file: &CStr| match rootfs::look::read(layers, c"etc", file, LONGEST) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()),
        // A user given by number, without a group, needs no /etc/passwd.
        Err(_) if number(name).is_some() && group.is_none() => Ok(String::new()),
        Err(error) => Err(Error::Text(format!(
            "--user {text}: {error} (links are not followed, and at most {LONGEST} bytes are read: use numbers)"
        ))),
    };
    find(text, &read(c"passwd")?, &read(c"group")?)
}

fn find(text: &str, passwd: &str, group: &str) -> Result<User, Error> {
    passwd::find(text, passwd, group).map_err(|unknown| {
        Error::Text(match unknown {
            Unknown::User(name) => {
                format!("--user {text}: the image has no user {name} in /etc/passwd")
            }
            Unknown::Group(name) => {
                format!("--user {text}: the image has no group {name} in /etc/group")
            }
        })
    })
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
