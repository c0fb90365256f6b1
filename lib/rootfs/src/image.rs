//! Images of a store: found by the name that somebody gave them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, readlinkat};
use rustix::io::Errno;
use sys::Context;

use crate::remove::names;
use crate::{Error, name};

/// Digits of a digest that are taken for one's beginning.
const DIGITS: core::ops::RangeInclusive<usize> = 8..=64;
/// Most names that are told of when one is not found.
const MOST_ALIKE: usize = 3;

/// The directory of the image that a reference names, or a digest, or the beginning of one.
///
/// # Errors
/// If there is none, or more than one.
pub fn find(store: &str, reference: &str) -> Result<String, Error> {
    let tagged = with_tag(reference);
    // Names are kept in their familiar form; older versions kept them as they were written.
    for name in [Cow::Borrowed(name::familiar(&tagged)), Cow::Owned(name::full(&tagged))] {
        let path = format!("{store}/refs/{}", encode(&name));
        match readlinkat(CWD, path.as_str(), Vec::new()) {
            Ok(target) => {
                let target = target.to_string_lossy();
                let digest = target.rsplit('/').next().unwrap_or_default();
                return Ok(format!("{store}/images/{digest}"));
            }
            Err(Errno::NOENT | Errno::NAMETOOLONG) => {}
            Err(errno) => return Err(sys::Error::new("readlink", path, errno).into()),
        }
    }
    let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
    let found =
        match DIGITS.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => beginning_with(store, digits)?,
            false => Vec::new(),
        };
    match &found[..] {
        [digest] => Ok(format!("{store}/images/{digest}")),
        [] => Err(Error::NoImage {
            store: store.to_string(),
            reference: reference.to_string(),
            alike: alike(store, reference),
        }),
        _ => Err(Error::ManyImages { reference: reference.to_string(), count: found.len() }),
    }
}

/// The digests of images that begin with some digits.
fn beginning_with(store: &str, digits: &str) -> Result<Vec<String>, Error> {
    let path = format!("{store}/images");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let all = match openat(CWD, path.as_str(), flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        directory => directory.and_then(|directory| names(directory.as_fd())),
    };
    let all = all.context("read", &path)?;
    let fitting =
        all.iter().filter_map(|name| name.to_str().ok()).filter(|name| name.starts_with(digits));
    Ok(fitting.map(String::from).collect())
}

/// Names of the store that somebody may have meant who wrote only their last part, or their tag, or forgot the tag.
fn alike(store: &str, reference: &str) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let refs = openat(CWD, format!("{store}/refs").as_str(), flags, Mode::empty());
    let Ok(all) = refs.and_then(|directory| names(directory.as_fd())) else { return Vec::new() };
    let (wanted, _) = split_tag(name::familiar(reference));
    let all = all.iter().filter_map(|file| file.to_str().ok()).map(decode);
    let mut alike: Vec<String> = all
        .filter(|there| {
            let (path, tag) = split_tag(there);
            let last = path.rsplit('/').next().unwrap_or_default();
            !wanted.is_empty() && (wanted == path || wanted == last || wanted == tag)
        })
        .collect();
    alike.sort();
    alike.truncate(MOST_ALIKE);
    alike
}

/// A reference's name, and its tag if it has one.
fn split_tag(reference: &str) -> (&str, &str) {
    let name = reference.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (name, ""),
    }
}

/// A reference with the tag that it has if none is named.
fn with_tag(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    match last.contains([':', '@']) {
        true => reference.to_string(),
        false => format!("{reference}:latest"),
    }
}

/// A reference as a file's name.
pub fn encode(reference: &str) -> String {
    reference.replace('%', "%25").replace('/', "%2F")
}

/// The reference that a file is named by.
pub fn decode(file: &str) -> String {
    file.replace("%2F", "/").replace("%25", "%")
}

/// Keeps images from being removed for as long as it lives.
///
/// # Errors
/// If the store can't be written.
pub fn lock(store: &str) -> Result<OwnedFd, sys::Error> {
    let path = format!("{store}/lock");
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = openat(CWD, path.as_str(), flags, Mode::RUSR | Mode::WUSR).context("open", &path)?;
    loop {
        match flock(&lock, FlockOperation::LockShared) {
            Err(Errno::INTR) => {}
            result => return result.map(|()| lock).context("flock", &path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_and_their_beginnings() {
        let dir = std::env::temp_dir().join(format!("dayfly-find-{}", std::process::id()));
        let store = dir.to_str().unwrap();
        let (one, two) = ("a".repeat(64), format!("{}b", "a".repeat(63)));
        for digest in [&one, &two] {
            std::fs::create_dir_all(dir.join("images").join(digest)).unwrap();
        }
        let path = Ok(format!("{store}/images/{one}"));
        assert_eq!(find(store, &one), path);
        assert_eq!(find(store, &format!("sha256:{one}")), path);
        let many = Error::ManyImages { reference: "aaaaaaaa".into(), count: 2 };
        assert_eq!(find(store, "aaaaaaaa"), Err(many));
        for none in ["aaaaaaa", "aaaaaaab", "../images", "", &"a".repeat(300)] {
            assert!(matches!(find(store, none), Err(Error::NoImage { .. })), "{none}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn one_image_has_many_spellings() {
        let dir = std::env::temp_dir().join(format!("dayfly-names-{}", std::process::id()));
        let store = dir.to_str().unwrap();
        std::fs::create_dir_all(dir.join("refs")).unwrap();
        // The last one is as older versions wrote it.
        let files =
            ["alpine:latest", "localhost%2Fbox:1", "layout:box", "docker.io%2Flibrary%2Fold:1"];
        for file in files {
            std::os::unix::fs::symlink(format!("../images/{file}"), dir.join("refs").join(file))
                .unwrap();
        }
        for (text, file) in [
            ("alpine", files[0]),
            ("docker.io/alpine", files[0]),
            ("index.docker.io/library/alpine:latest", files[0]),
            ("old:1", files[3]),
            ("docker.io/library/old:1", files[3]),
        ] {
            assert_eq!(find(store, text), Ok(format!("{store}/images/{file}")), "{text}");
        }
        for (text, meant) in [
            ("box", vec!["layout:box", "localhost/box:1"]),
            ("localhost/box", vec!["localhost/box:1"]),
            ("alpine:3", vec!["alpine:latest"]),
            ("registry.test/alpine", vec![]),
            ("", vec![]),
        ] {
            let Err(Error::NoImage { alike, .. }) = find(store, text) else { panic!("{text}") };
            assert_eq!(alike, meant, "{text}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn references_and_their_files() {
        assert_eq!(encode(&with_tag("debian")), "debian:latest");
        assert_eq!(encode(&with_tag("host:5000/a/b%c")), "host:5000%2Fa%2Fb%25c:latest");
        assert_eq!(encode(&with_tag("a/b:1")), "a%2Fb:1");
        assert_eq!(decode("host:5000%2Fa%2Fb%25c:latest"), "host:5000/a/b%c:latest");
        assert_eq!(with_tag("a@sha256:00"), "a@sha256:00");
    }
}
