//! Images of a store, as `run --image` finds them: unpacked, with a bundle's configuration.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, readlinkat};
use rustix::io::Errno;
use spec::{Spec, Str};
use sys::Context;

use crate::Error;

/// An image, and what its container does differently.
#[derive(Debug, Clone, Default)]
pub struct ImageRun<'a> {
    /// The image's directory in the store, absolute.
    pub directory: String,
    /// What to run instead of the image's own command; empty leaves it.
    pub command: &'a [&'a str],
    /// A terminal.
    pub tty: bool,
    /// Further environment.
    pub env: Vec<&'a str>,
    /// Another working directory.
    pub cwd: Option<&'a str>,
    /// Another user and group.
    pub user: Option<(u32, Option<u32>)>,
    /// Nothing may be written to the root filesystem.
    pub read_only: bool,
    /// Its host name.
    pub hostname: Option<&'a str>,
}

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
    Error::Text(format!(
        "no image {reference} in {store}: `dayfly image ls` lists those that are there"
    ))
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
pub(crate) fn lock(store: &str) -> Result<OwnedFd, sys::Error> {
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

impl<'a> ImageRun<'a> {
    /// Changes the image's configuration.
    pub(crate) fn apply(&self, spec: &mut Spec<'a>) -> Result<(), Error> {
        if let Some(root) = &mut spec.root {
            root.readonly |= self.read_only;
        }
        if let Some(name) = self.hostname {
            spec.hostname = Some(Str::new(name));
        }
        let Some(process) = &mut spec.process else { return Ok(()) };
        if !self.command.is_empty() {
            let path = format!("{}/entrypoint", self.directory);
            let words = match sys::fs::read_text(path.as_str()) {
                Ok(text) => text.trim().parse().unwrap_or(0),
                Err(Errno::NOENT) => 0,
                Err(errno) => return Err(sys::Error::new("read", path, errno).into()),
            };
            process.args.truncate(words);
            process.args.extend(self.command.iter().map(|word| Str::new(word)));
        }
        if process.args.is_empty() {
            return Err(Error::text("the image has no command of its own: name one"));
        }
        process.terminal |= self.tty;
        process.env.extend(self.env.iter().map(|entry| Str::new(entry)));
        if let Some(cwd) = self.cwd {
            process.cwd = Str::new(cwd);
        }
        if let Some((uid, gid)) = self.user {
            process.user.uid = uid;
            process.user.gid = gid.unwrap_or(0);
            process.user.additional_gids.clear();
        }
        Ok(())
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
