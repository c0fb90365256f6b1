//! A configuration read without its seccomp profile, whose text is set aside before.
//!
//! The profile is most of a configuration, and a start whose filter is kept does not look into it. So
//! its end is found by its braces alone, at a fifth of what it takes a JSON reader to step over it, and
//! a number put in its place. Whoever compiles the profile reads it in full. Where anything about this
//! is unusual, the text is read as it is.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::config::Spec;
use crate::misspelt::{self, Misspelt};
use crate::profile_text::ProfileText;

const KEY: &str = "\"seccomp\"";
/// What stands in for the profile: nothing that could be one.
const NUMBER: &str = "0";

/// Reads a configuration but for its profile. `None` if that cannot be set aside, or for any error.
pub(crate) fn read(text: &str) -> Option<(Spec<'_>, Vec<Misspelt>)> {
    let profile = find(text)?;
    let (before, after) = (text.get(..profile.start)?, text.get(profile.end..)?);
    // Borrowed from like the text itself, and read once in a process.
    let short: &'static str = String::leak([before, NUMBER, after].concat());
    let (mut spec, misspelt): (Spec<'_>, _) = misspelt::read(short).ok()?;
    let place = &mut spec.linux.as_mut()?.seccomp;
    // It may have been some other object of this name.
    if *place != Some(ProfileText::new(NUMBER)) {
        return None;
    }
    *place = text.get(profile).map(ProfileText::new);
    Some((spec, misspelt))
}

/// Where the value of the first key of this name is, if it is an object.
fn find(text: &str) -> Option<Range<usize>> {
    let key = text.find(KEY)?;
    // Quotes within a string are escaped.
    if text.as_bytes().get(key.checked_sub(1)?) == Some(&b'\\') {
        return None;
    }
    let rest = text.get(key + KEY.len()..)?;
    let value = rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
    let start = text.len() - value.len();
    Some(start..start + end_of_object(value.as_bytes())?)
}

/// The length of the object that `text` begins with.
fn end_of_object(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => at += length_of_string(text.get(at + 1..)?)? + 1,
            // Something else than an object.
            _ if depth == 0 => return None,
            _ => {}
        }
        at += 1;
    }
}

/// The length of the string whose first quote is before `text`.
fn length_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        // What is escaped.
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Option<&str> {
        Some(read(text)?.0.linux?.seccomp?.get())
    }

    #[test]
    fn the_profile_is_set_aside_as_it_stands() {
        let text = r#"{"linux": {"seccomp" : {"a": ["}\"{", {}]} , "cgroupsPath": "/x"}}"#;
        let spec = read(text).unwrap();
        let linux = spec.0.linux.unwrap();
        assert_eq!(linux.seccomp.map(|profile| profile.get()), Some(r#"{"a": ["}\"{", {}]}"#));
        assert_eq!(linux.cgroups_path.unwrap().as_str(), "/x");
        let text = r#"{"annotations": {"a": "\"seccomp\": {}"}, "linux": {"seccomp": {"b": 1}}}"#;
        assert_eq!(profile(text), Some(r#"{"b": 1}"#));
    }

    #[test]
    fn what_is_unusual_is_left_to_the_reader() {
        for text in [
            "{}",
            r#"{"linux": {}}"#,
            r#"{"linux": {"seccomp": null}}"#,
            r#"{"linux": {"seccomp": 0}}"#,
            r#"{"linux": {"seccomp": {"a": 1}"#,
            r#"{"seccomp": {"a": 1}, "linux": {}}"#,
            r#"{"x": {"seccomp": {"a": 1}}, "linux": {"seccomp": {"b": 2}}}"#,
            r#"{"linux": {"seccomp": {"a": 1}, "seccomp": {"b": 2}}}"#,
            r#"{"linux": {"seccomp": {"a": "\"#,
            r#"{"linux": {"seccomp": }}"#,
            "\"seccomp\"",
        ] {
            assert_eq!(profile(text), None, "{text}");
        }
    }
}
