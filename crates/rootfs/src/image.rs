//! Images of a store: found by the name that somebody gave them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, readlinkat};
use rustix::io::Errno;
use sys::Context;

use crate::Error;

/// The directory of the image that a reference names.
///
/// # Errors
/// If there is none.
pub fn find(store: &str, reference: &str) -> Result<String, Error> {
    if let Some(digest) = reference.strip_prefix("sha256:") {
        let plain = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = format!("{store}/images/{digest}");
        let there = || rustix::fs::access(path.as_str(), rustix::fs::Access::EXISTS).is_ok();
        if plain && there() {
            return Ok(path);
        }
        return Err(unknown(store, reference));
    }
    let name = encode(&with_tag(reference));
    match readlinkat(CWD, format!("{store}/refs/{name}").as_str(), Vec::new()) {
        Ok(target) => {
            let target = target.to_string_lossy();
            let digest = target.rsplit('/').next().unwrap_or_default();
            Ok(format!("{store}/images/{digest}"))
        }
        Err(Errno::NOENT) => Err(unknown(store, reference)),
        Err(errno) => {
            Err(sys::Error::new("readlink", format!("{store}/refs/{name}"), errno).into())
        }
    }
}

fn unknown(store: &str, reference: &str) -> Error {
    Error::NoImage { store: store.to_string(), reference: reference.to_string() }
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
    fn references_and_their_files() {
        assert_eq!(encode(&with_tag("debian")), "debian:latest");
        assert_eq!(encode(&with_tag("host:5000/a/b%c")), "host:5000%2Fa%2Fb%25c:latest");
        assert_eq!(encode(&with_tag("a/b:1")), "a%2Fb:1");
        assert_eq!(with_tag("a@sha256:00"), "a@sha256:00");
    }
}
