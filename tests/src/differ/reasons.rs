//! What a case must have for a row of the table of known differences, where a part of its text does not say it.
//!
//! A reason gives the places in the container that it concerns; in the row's pattern, `%` stands for one of them, or for
//! what is below it.

use crate::differ::draw::FLAGS;
use serde_json::Value;

/// Words that make runc remount a bind with exactly the flags that are named, besides those of [`FLAGS`].
const RARE_FLAGS: [&str; 3] = ["symfollow", "mand", "nomand"];

/// Returns the places of a reason.
///
/// # Errors
/// If there is no such reason.
pub fn places(name: &str, case: &Value) -> Result<Vec<String>, String> {
    let mounts: Vec<Mount<'_>> = mounts(case);
    let found: Vec<&Mount<'_>> = match name {
        // A bind mount that names flags, so that runc drops those of its source.
        "bind-with-flags" => mounts
            .iter()
            .filter(|mount| {
                let is_flag = |word| FLAGS.contains(&word) || RARE_FLAGS.contains(&word);
                mount.is_bind() && mount.words().any(is_flag)
            })
            .collect(),
        // Mounts of one of the kernel's file systems, of which at least one is read-only: they may share a superblock.
        "read-only-kernel" => {
            let is_kernel = |mount: &&Mount<'_>| {
                !mount.is_bind() && !["tmpfs", "ramfs", ""].contains(&mount.kind())
            };
            let kinds: Vec<&str> = mounts
                .iter()
                .filter(|mount| is_kernel(mount) && mount.words().any(|word| word == "ro"))
                .map(Mount::kind)
                .collect();
            mounts.iter().filter(is_kernel).filter(|mount| kinds.contains(&mount.kind())).collect()
        }
        // Mounts with several modes of access times, of which others take the strongest.
        "several-access-times" => {
            let modes =
                ["noatime", "relatime", "strictatime", "rnoatime", "rrelatime", "rstrictatime"];
            let count =
                |mount: &Mount<'_>| mount.words().filter(|word| modes.contains(word)).count();
            mounts.iter().filter(|mount| count(mount) > 1).collect()
        }
        // Mounts over a read-only tmpfs of the same place.
        "over-read-only-tmpfs" => {
            let is_frozen = |mount: &Mount<'_>| {
                mount.kind() == "tmpfs"
                    && !mount.is_bind()
                    && mount.words().any(|word| word == "ro")
            };
            let covers = |index: usize, mount: &Mount<'_>| {
                mounts[..index].iter().any(|one| is_frozen(one) && one.place == mount.place)
            };
            let over = mounts.iter().enumerate().filter(|(index, mount)| covers(*index, mount));
            over.map(|(_, mount)| mount).collect()
        }
        // Binds of one directory, or of one in another: what is mounted in one may appear in the other.
        "bound-twice" => {
            let source =
                |mount: &Mount<'_>| mount.value["source"].as_str().unwrap_or("").to_owned();
            let shares = |one: &Mount<'_>, other: &Mount<'_>| {
                let (one, other) = (source(one), source(other));
                one == other || other.strip_prefix(&one).is_some_and(|rest| rest.starts_with('/'))
            };
            let is_twice = |index: usize, mount: &Mount<'_>| {
                let others = mounts.iter().enumerate().filter(|(other, _)| *other != index);
                let mut binds = others.map(|(_, other)| other).filter(|other| other.is_bind());
                mount.is_bind() && binds.any(|other| shares(other, mount) || shares(mount, other))
            };
            let twice = mounts.iter().enumerate().filter(|(index, mount)| is_twice(*index, mount));
            twice.map(|(_, mount)| mount).collect()
        }
        "bind" => mounts.iter().filter(|mount| mount.is_bind()).collect(),
        _ => return Err(format!("{name}: no such reason")),
    };
    Ok(found.into_iter().map(|mount| mount.place.clone()).collect())
}

/// Returns whether two lists of mount options differ only in flags that the second has in addition.
#[must_use]
pub fn adds_flags(peer: &str, own: &str) -> bool {
    // A mount is one of each, and a flag of a source takes its place.
    let is_default = |word: &str| ["rw", "relatime"].contains(&word);
    let has = |word: &str| own.split(',').any(|other| other == word);
    peer.split(',').all(|word| has(word) || is_default(word))
}

struct Mount<'a> {
    value: &'a Value,
    /// The mount point, behind the links of the image.
    place: String,
}

impl Mount<'_> {
    fn words(&self) -> impl Iterator<Item = &str> {
        self.value["options"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    fn kind(&self) -> &str {
        self.value["type"].as_str().unwrap_or_default()
    }

    fn is_bind(&self) -> bool {
        self.kind() == "bind" || self.words().any(|word| word == "bind" || word == "rbind")
    }
}

fn mounts(case: &Value) -> Vec<Mount<'_>> {
    let all = case["config"]["mounts"].as_array().into_iter().flatten();
    all.map(|value| {
        let place = value["destination"].as_str().unwrap_or_default();
        Mount { value, place: real(case, place) }
    })
    .collect()
}

/// Returns a path behind the links of the image. Links that mounts bring are not followed.
fn real(case: &Value, path: &str) -> String {
    let target = |path: &str| {
        let mut entries = case["image"].as_array().into_iter().flatten();
        let found = entries.rfind(|entry| entry["path"] == path)?;
        found["target"].as_str().filter(|_| found["kind"] == "link").map(str::to_owned)
    };
    let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut real = String::new();
    let mut followed = 0;
    while let Some(name) = left.pop() {
        match name.as_str() {
            "" | "." => {}
            ".." => real.truncate(real.rfind('/').unwrap_or(0)),
            name => {
                let next = format!("{real}/{name}");
                match target(&next).filter(|_| followed < 20) {
                    Some(target) => {
                        followed += 1;
                        if target.starts_with('/') {
                            real.clear();
                        }
                        left.extend(target.split('/').rev().map(str::to_owned));
                    }
                    None => real = next,
                }
            }
        }
    }
    if real.is_empty() { "/".to_owned() } else { real }
}

#[cfg(test)]
mod tests {
    use super::{adds_flags, places};
    use serde_json::json;

    #[test]
    fn reasons_have_places() {
        let case = json!({ "config": { "mounts": [
            { "destination": "/link", "type": "tmpfs", "options": ["ro"] },
            { "destination": "/a/../a", "source": "@H/dir", "options": ["rbind", "nosuid"] },
            { "destination": "/b", "type": "bind", "options": ["rslave"] },
            { "destination": "/sys", "type": "sysfs", "options": ["ro"] },
            { "destination": "/up/x", "type": "sysfs" },
        ] }, "image": [
            { "path": "/link", "kind": "link", "target": "a" },
            { "path": "/up", "kind": "link", "target": "../../b" },
        ] });
        assert_eq!(places("over-read-only-tmpfs", &case), Ok(vec!["/a".to_owned()]));
        assert_eq!(places("bind-with-flags", &case), Ok(vec!["/a".to_owned()]));
        assert_eq!(places("bind", &case), Ok(vec!["/a".to_owned(), "/b".to_owned()]));
        assert_eq!(
            places("read-only-kernel", &case),
            Ok(vec!["/sys".to_owned(), "/b/x".to_owned()])
        );
        assert!(places("bogus", &case).is_err());
    }

    #[test]
    fn flags_are_added() {
        assert!(adds_flags("rw,relatime", "ro,nosuid,noatime"));
        assert!(adds_flags("ro,nodev", "ro,nosuid,nodev"));
        assert!(!adds_flags("ro,relatime", "rw,nosuid,relatime"));
        assert!(!adds_flags("rw,nosuid", "rw,relatime"));
    }
}
