//! Paths of a plan: functions that make them absolute and convert them to C strings.

use alloc::borrow::Cow;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use spec::{InRoot, clean};

use crate::{Error, keep};

/// Converts a text to a C string. Fails if the text contains a NUL byte.
pub fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, Error> {
    CString::new(text).map_err(|error| {
        Error::config(format!(
            "{:?} contains a NUL byte",
            String::from_utf8_lossy(&error.into_vec())
        ))
    })
}

/// Converts a text to a C string for a step of init. The string is never freed.
pub fn c_str(text: impl Into<Vec<u8>>) -> Result<&'static CStr, Error> {
    c_string(text).map(keep::c_str)
}

/// Returns `path` if it is absolute, otherwise `path` below `base`.
pub fn absolute(base: &str, path: &str) -> String {
    made_absolute(base, path).into_owned()
}

/// Makes a path absolute. Returns `path` itself if it is absolute and clean.
pub(crate) fn made_absolute<'p>(base: &str, path: &'p str) -> Cow<'p, str> {
    match path.starts_with('/') {
        true => clean(path),
        false => Cow::Owned(clean(&format!("{base}/{path}")).into_owned()),
    }
}

/// Returns a path of the container for a step of init: relative to the root.
pub fn in_root(path: &InRoot<'_>) -> Result<&'static CStr, Error> {
    c_str(path.relative())
}

/// If a clean path is `place` or lies below it, returns the part of the path after `place`; this part is empty if the
/// path is `place`. Otherwise returns `None`. If `place` is `/`, returns `None` for all paths but `/`.
pub fn below<'p>(path: &'p str, place: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(place)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns whether a clean path equals `above` or lies below it; everything lies below `/`.
pub fn is_at_or_below(path: &str, above: &str) -> bool {
    above == "/" || below(path, above).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_begin_at_their_base() {
        assert_eq!(absolute("/bundle", "rootfs"), "/bundle/rootfs");
        assert_eq!(absolute("/bundle", "/r"), "/r");
        assert_eq!(in_root(&InRoot::new("/dev/../etc")).unwrap().to_str(), Ok("etc"));
    }
}
