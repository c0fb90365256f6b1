//! Parses a configuration without its seccomp profile, which is cut out of the text before parsing.
//!
//! The profile is most of a configuration's text, and is not needed if the compiled filter is cached. This module finds
//! the profile's end by counting braces, in a fifth of the time that a JSON parser needs to skip the profile, and puts
//! a number in the profile's place. If the filter is not cached, the compiler of seccomp profiles parses the profile's
//! text. If the profile cannot be cut out, the caller parses the text unchanged.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::config::Spec;
use crate::misspelt::{self, Misspelt};
use crate::profile_text::ProfileText;

const KEY: &str = "\"seccomp\"";
/// The placeholder for the profile: a value that is never a valid profile.
const NUMBER: &str = "0";

/// Parses a configuration without its profile. Returns `None` if the profile cannot be cut out, or on any error.
pub(crate) fn read(text: &str) -> Option<(Spec<'_>, Vec<Misspelt>)> {
    let profile = find(text)?;
    let (before, after) = (text.get(..profile.start)?, text.get(profile.end..)?);
    // The shortened text is leaked, since the result borrows from it. A process parses only one configuration.
    let short: &'static str = String::leak([before, NUMBER, after].concat());
    let (mut spec, misspelt): (Spec<'_>, _) = misspelt::read(short).ok()?;
    let place = &mut spec.linux.as_mut()?.seccomp;
    // The object that was cut out may have been another one with the key `seccomp`.
    if *place != Some(ProfileText::new(NUMBER)) {
        return None;
    }
    *place = text.get(profile).map(ProfileText::new);
    Some((spec, misspelt))
}

/// Returns the range of the value of the first key `seccomp`, if this value is an object.
fn find(text: &str) -> Option<Range<usize>> {
    let key = text.find(KEY)?;
    // A quote after a backslash belongs to a string that contains the text of the key.
    if text.as_bytes().get(key.checked_sub(1)?) == Some(&b'\\') {
        return None;
    }
    let rest = text.get(key + KEY.len()..)?;
    let value = rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
    let start = text.len() - value.len();
    Some(start..start + end_of_object(value.as_bytes())?)
}

/// Returns the length of the object at the beginning of `text`.
fn end_of_object(text: &[u8]) -> Option<usize> {
    // If the value is not an object (but null, for example), the next braces would belong to a later object.
    text.first().filter(|first| **first == b'{')?;
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        at += quiet(text.get(at..)?, |bytes| has(bytes, b'"') | has_bracket(bytes));
        match text.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => at += length_of_string(text.get(at + 1..)?)? + 1,
            _ => {}
        }
        at += 1;
    }
}

/// Returns the length of the string whose opening quote is the byte before `text`.
fn length_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += quiet(text.get(at..)?, |bytes| has(bytes, b'"') | has(bytes, b'\\'));
        match text.get(at)? {
            b'"' => return Some(at),
            // The escaped character.
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the length of a prefix of `text` in which `find` matches no byte. `find` checks words of eight bytes; bytes
/// after the last whole word never belong to the prefix.
fn quiet(text: &[u8], find: impl Fn(u64) -> u64) -> usize {
    let (words, _) = text.as_chunks::<8>();
    let mut length = 0;
    for word in words {
        // The first match in a word is exact; later matches may be wrong, because of a borrow in the subtraction of
        // `has`.
        let found = find(u64::from_le_bytes(*word));
        if found != 0 {
            return length + found.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns a word that marks the first byte of `bytes` that equals `byte`: the highest bit of this byte is set. In
/// later bytes, the highest bit is meaningless.
fn has(bytes: u64, byte: u8) -> u64 {
    let zeros = bytes ^ (ONES * u64::from(byte));
    zeros.wrapping_sub(ONES) & !zeros & (ONES << 7)
}

/// Returns a word like [`has`] for the bytes `{`, `}`, `[` and `]`, and for other bytes that differ from them only in
/// the bits of `DIFFERENT`.
fn has_bracket(bytes: u64) -> u64 {
    const DIFFERENT: u64 = ONES * 0x26;
    has(bytes | DIFFERENT, 0x7f)
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
    fn every_place_in_a_word_is_looked_at() {
        for before in 0..20 {
            for inside in 0..20 {
                let (before, inside) = (" ".repeat(before), "Y_y[".repeat(inside));
                let object = format!(
                    r#"{{{before}"{inside}}}\"{inside}\\"{before}: [{before}"{inside}"{before}] }}"#
                );
                let text = format!(r#"{{"linux": {{"seccomp": {object}, "x": "{inside}"}}}}"#);
                assert_eq!(profile(&text), Some(object.as_str()), "{text}");
            }
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_the_reader() {
        for text in [
            "{}",
            r#"{"linux": {}}"#,
            r#"{"linux": {"seccomp": null}}"#,
            r#"{"linux": {"seccomp": null, "namespaces": [{"type": "pid"}], "sysctl": {}}}"#,
            r#"{"linux": {"seccomp": 0}}"#,
            r#"{"linux": {"seccomp": "a", "resources": {}}}"#,
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
