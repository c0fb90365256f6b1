//! Images of a store: found by the name that somebody gave them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, readlinkat};
use rustix::io::Errno;
use sys::Context;

use crate::Error;
use crate::remove::names;

/// Digits of a digest that are taken for one's beginning.
const DIGITS: core::ops::RangeInclusive<usize> = 8..=64;

/// The directory of the image that a reference names, or a digest, or the beginning of one.
///
/// # Errors
/// If there is none, or more than one.
pub fn find(store: &str, reference: &str) -> Result<String, Error> {
    let name = encode(&with_tag(reference));
    match readlinkat(CWD, format!("{store}/refs/{name}").as_str(), Vec::new()) {
        Ok(target) => {
            let target = target.to_string_lossy();
            let digest = target.rsplit('/').next().unwrap_or_default();
            return Ok(format!("{store}/images/{digest}"));
        }
        Err(Errno::NOENT | Errno::NAMETOOLONG) => {}
        Err(errno) => {
            return Err(sys::Error::new("readlink", format!("{store}/refs/{name}"), errno).into());
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
        [] => Err(Error::NoImage { store: store.to_string(), reference: reference.to_string() }),
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

/// A reference with the tag that it has if none is named.
fn with_tag(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    match last.contains([':', '@']) {
        true => reference.to_string(),
        false => format!("{reference}:latest"),
    }
}

/// A reference as a file's name.
fn encode(reference: &str) -> String {
    reference.replace('%', "%25").replace('/', "%2F")
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
    fn references_and_their_files() {
        assert_eq!(encode(&with_tag("debian")), "debian:latest");
        assert_eq!(encode(&with_tag("host:5000/a/b%c")), "host:5000%2Fa%2Fb%25c:latest");
        assert_eq!(encode(&with_tag("a/b:1")), "a%2Fb:1");
        assert_eq!(with_tag("a@sha256:00"), "a@sha256:00");
    }
}
