//! Looking up images of a store by name or digest.

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

/// The number of digits for which a reference is read as a digest's prefix.
const DIGITS: core::ops::RangeInclusive<usize> = 8..=64;
/// The maximum number of similar names in an error.
const MOST_ALIKE: usize = 3;

/// Returns the directory of the image for a reference, a digest, or a digest's prefix.
///
/// # Errors
/// If no image matches, or more than one.
pub fn find(store: &str, reference: &str) -> Result<String, Error> {
    let tagged = with_tag(reference);
    // Names are stored in their familiar form; earlier versions stored them as given.
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

/// Returns the digests of images that start with these digits.
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

/// Returns names of the store that the user may have meant, who wrote only the last part or the tag, or left out the
/// tag.
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

/// Splits a reference into its name and its tag, if it has one.
fn split_tag(reference: &str) -> (&str, &str) {
    let name = reference.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (name, ""),
    }
}

/// Returns a reference with the default tag added if it has none.
fn with_tag(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    match last.contains([':', '@']) {
        true => reference.to_string(),
        false => format!("{reference}:latest"),
    }
}

/// Encodes a reference as a file name.
pub fn encode(reference: &str) -> String {
    reference.replace('%', "%25").replace('/', "%2F")
}

/// Decodes a file name to its reference.
pub fn decode(file: &str) -> String {
    file.replace("%2F", "/").replace("%25", "%")
}

/// Takes a shared lock that keeps images from being removed until it is dropped.
///
/// # Errors
/// If the store cannot be written.
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
        // The last one is in the form of earlier versions.
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
