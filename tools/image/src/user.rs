//! The user of a container's process. An image names users by name or number; the kernel needs numbers.

use rootfs::passwd::{self, Unknown, User};

use crate::error::{Error, Result};
use crate::merged::Merged;

/// The maximum length of /etc/passwd or /etc/group, in bytes.
const LONGEST: u64 = 8 << 20;

/// Looks up `text` in the container's /etc/passwd and /etc/group. The form of `text` is `USER[:GROUP]`, with names or
/// numbers.
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
    passwd::find(text, passwd, group).map_err(|unknown| {
        Error::Unfit(match unknown {
            Unknown::User(name) => format!("the image's user {name:?} is not in its /etc/passwd"),
            Unknown::Group(name) => format!("the image's group {name:?} is not in its /etc/group"),
        })
    })
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
