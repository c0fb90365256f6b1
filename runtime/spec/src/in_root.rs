//! Paths in the container, normalized when the configuration is parsed.
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::Str;

/// A path in the container's root: absolute, and in the form that [`clean`] returns. If symbolic links are ignored, two
/// paths name the same file only if they are equal. An empty path stays empty; validation refuses an empty path where a
/// path is required.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InRoot<'a>(Str<'a>);

impl<'a> InRoot<'a> {
    /// Returns the normalized form of a path.
    pub fn new(path: impl Into<Str<'a>>) -> Self {
        let path = path.into();
        match needs_cleaning(&path) {
            false => Self(path),
            true => Self(Str::from(cleaned(&path))),
        }
    }

    /// Wraps a path known to be clean; usable in constants.
    pub const fn known(path: &'a str) -> Self {
        Self(Str::new(path))
    }

    /// Returns the path, with its leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path relative to the root, as used in the steps of a plan: empty for the root itself.
    pub fn relative(&self) -> &str {
        self.0.trim_start_matches('/')
    }

    /// Splits the path into directory and last component.
    pub fn split(&self) -> (InRoot<'_>, &str) {
        match self.0.rsplit_once('/') {
            Some(("", name)) => (InRoot::known("/"), name),
            Some((directory, name)) => (InRoot::known(directory), name),
            None => (InRoot::known("/"), &self.0),
        }
    }
}

/// Returns the shortest absolute path for `path`, without following symbolic links: `.` and `//` are removed, and `..`
/// removes the component before it, but does not go above `/`.
pub fn clean(path: &str) -> Cow<'_, str> {
    match path.is_empty() || needs_cleaning(path) {
        false => Cow::Borrowed(path),
        true => Cow::Owned(cleaned(path)),
    }
}

fn needs_cleaning(path: &str) -> bool {
    // The paths that engines write are nearly always clean, so they are checked before anything is copied.
    !(path.is_empty() || is_plain(path) || is_clean(path))
}

fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns whether `path` is absolute, without empty components and without components that begin with a dot. Nearly
/// all paths pass this fast check.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    let odd = |(before, after): (&u8, &u8)| *before == b'/' && matches!(after, b'/' | b'.');
    let any_odd = pairs.fold(false, |any, pair| any | odd(pair));
    path.starts_with('/') && !any_odd && (path.len() == 1 || !path.ends_with('/'))
}

/// Returns whether `path` is absolute, without empty components and without components that consist only of dots.
fn is_clean(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    // Whether a component has begun, and whether the component so far consists only of dots.
    let (mut begun, mut dots) = (true, false);
    for byte in path.bytes() {
        match byte {
            b'/' if !begun || dots => return false,
            b'/' => (begun, dots) = (false, false),
            b'.' => (begun, dots) = (true, dots || !begun),
            _ => (begun, dots) = (true, false),
        }
    }
    path.starts_with('/') && begun && !dots
}

impl Deref for InRoot<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<'a> From<&'a str> for InRoot<'a> {
    fn from(path: &'a str) -> Self {
        Self::new(path)
    }
}

impl From<String> for InRoot<'_> {
    fn from(path: String) -> Self {
        Self::new(path)
    }
}

impl PartialEq<&str> for InRoot<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<str> for InRoot<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl fmt::Debug for InRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for InRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for InRoot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for InRoot<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Str::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_by_text() {
        assert_eq!(clean("/a//b/./c/../d/"), "/a/b/d");
        assert_eq!(clean("/../../x"), "/x");
        assert_eq!(clean(""), "/");
        for path in ["/", "/a", "/a/b.c/.d/..e/...x"] {
            assert!(is_clean(path) && clean(path) == path, "{path}");
        }
        for path in ["", "a", "/a/", "//a", "/a//b", "/.", "/a/..", "/a/./b", "/a/../b", "a/b"] {
            assert!(!is_clean(path) && !is_plain(path), "{path}");
        }
    }

    #[test]
    fn the_root_begins_every_path() {
        assert_eq!(InRoot::new("dev/../etc"), "/etc");
        assert_eq!(InRoot::new("/dev/../etc").relative(), "etc");
        assert_eq!(InRoot::new("/..").relative(), "");
        assert_eq!(InRoot::new(""), "");
        assert_eq!(InRoot::new("/dev/net/tun").split(), (InRoot::known("/dev/net"), "tun"));
        assert_eq!(InRoot::new("/x").split(), (InRoot::known("/"), "x"));
    }
}
