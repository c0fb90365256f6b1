//! Paths as the plan has them: made absolute, cleaned, and relative to the root.

use alloc::borrow::Cow;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::Error;

/// A string for the kernel; one with a NUL byte in it is refused.
pub fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, Error> {
    CString::new(text).map_err(|error| {
        Error::config(format!(
            "{:?} contains a NUL byte",
            String::from_utf8_lossy(&error.into_vec())
        ))
    })
}

/// `path` if it is absolute, else below `base`.
pub fn absolute(base: &str, path: &str) -> String {
    match path.starts_with('/') {
        true => clean(path).into_owned(),
        false => clean(&format!("{base}/{path}")).into_owned(),
    }
}

/// The shortest name of the same place, by text alone: no `.`, no `//`, and `..` goes up but not
/// above `/`. Always absolute.
pub fn clean(path: &str) -> Cow<'_, str> {
    // What engines write is clean already, and there is much of it.
    if is_plain(path) || is_clean(path) {
        return Cow::Borrowed(path);
    }
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
    Cow::Owned(format!("/{}", parts.join("/")))
}

/// Whether an absolute path has no empty names and none that begins with a dot: what almost all are, and
/// quickly seen.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    let odd = |(before, after): (&u8, &u8)| *before == b'/' && matches!(after, b'/' | b'.');
    let any_odd = pairs.fold(false, |any, pair| any | odd(pair));
    path.starts_with('/') && !any_odd && (path.len() == 1 || !path.ends_with('/'))
}

/// Whether every name of an absolute path is an ordinary one. One pass over the bytes.
fn is_clean(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    // Whether a name is under way, and whether it consists of dots only so far.
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

/// A path of the container as the steps have it: cleaned, relative to the root.
pub fn in_root(path: &str) -> Result<CString, Error> {
    c_string(clean(path).trim_start_matches('/'))
}

/// The directory and the last name of a path.
pub fn split(path: &str) -> (String, String) {
    let path = clean(path);
    match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name.into()),
        None => ("/".into(), path.into_owned()),
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
        assert_eq!(absolute("/bundle", "rootfs"), "/bundle/rootfs");
        assert_eq!(absolute("/bundle", "/r"), "/r");
        assert_eq!(in_root("/dev/../etc").unwrap().to_str(), Ok("etc"));
        assert_eq!(split("/dev/net/tun"), ("/dev/net/".into(), "tun".into()));
        assert_eq!(split("/x"), ("/".into(), "x".into()));
    }
}
