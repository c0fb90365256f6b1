//! Parses JSON text into the types of this crate.
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;

use crate::config::Spec;
use crate::locate;
use crate::misspelt::{self, Misspelt};
use crate::process::Process;
use crate::resources::Resources;
use crate::without_profile;

impl<'a> Spec<'a> {
    /// Parses a `config.json`; the result borrows from `json`. The seccomp profile is not parsed; [`Spec::parse_whole`]
    /// checks that it is JSON.
    ///
    /// # Errors
    /// The text is not JSON, or a property does not have the type that the specification requires.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(json: &'a T) -> Result<Self, ParseError> {
        Self::from_bytes(json.as_ref()).map(|(spec, _)| spec)
    }

    /// Parses like [`Spec::parse`], and also returns the keys that differ from known ones only in case.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub fn parse_and_tell(json: &'a [u8]) -> Result<(Self, Vec<Misspelt>), ParseError> {
        Self::from_bytes(json)
    }

    /// Parses a `config.json`, and checks that its seccomp profile is JSON.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub fn parse_whole<T: AsRef<[u8]> + ?Sized>(json: &'a T) -> Result<Self, ParseError> {
        Self::from_whole_bytes(json.as_ref()).map(|(spec, _)| spec)
    }

    // This function is not generic: otherwise the large parser would be instantiated in every crate that calls it.
    fn from_bytes(json: &'a [u8]) -> Result<(Self, Vec<Misspelt>), ParseError> {
        let text = core::str::from_utf8(json).ok();
        match text.and_then(without_profile::read) {
            Some((mut spec, misspelt)) => {
                spec.drop_empty();
                Ok((spec, misspelt))
            }
            None => Self::from_whole_bytes(json),
        }
    }

    fn from_whole_bytes(json: &'a [u8]) -> Result<(Self, Vec<Misspelt>), ParseError> {
        let (mut spec, misspelt): (Self, _) = read(json)?;
        spec.drop_empty();
        Ok((spec, misspelt))
    }
}

impl<'a> Process<'a> {
    /// Reads a process file (`exec --process`); the result borrows from `json`.
    ///
    /// # Errors
    /// The text is not JSON, or a property does not have the type that the specification requires.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(json: &'a T) -> Result<Self, ParseError> {
        Self::parse_and_tell(json.as_ref()).map(|(process, _)| process)
    }

    /// Parses like [`Process::parse`], and also returns the keys that differ from known ones only in case.
    ///
    /// # Errors
    /// As [`Process::parse`].
    pub fn parse_and_tell(json: &'a [u8]) -> Result<(Self, Vec<Misspelt>), ParseError> {
        let (mut process, misspelt): (Self, _) = read(json)?;
        process.drop_empty();
        Ok((process, misspelt))
    }
}

impl Resources {
    /// Parses a document of limits (`update --resources`), and also returns the keys that differ from known ones only
    /// in case.
    ///
    /// # Errors
    /// The text is not JSON, or a property does not have the type that the specification requires.
    pub fn parse_and_tell(json: &[u8]) -> Result<(Self, Vec<Misspelt>), ParseError> {
        read(json)
    }
}

/// A parse error with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 right after a line break.
    pub column: usize,
    /// The property at this position, such as `process.user.uid` or `mounts[2].options`; empty at the top level.
    pub property: String,
    /// The reason.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.property.is_empty() {
            write!(f, "{}: ", self.property)?;
        }
        write!(f, "{} at line {} column {}", self.message, self.line, self.column)
    }
}

impl core::error::Error for ParseError {}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<(T, Vec<Misspelt>), ParseError> {
    // UTF-8 is checked once here for the whole text, so that the parser does not check every string.
    let text = match core::str::from_utf8(json) {
        Ok(text) => text,
        Err(error) => return Err(not_utf8(json, error.valid_up_to())),
    };
    misspelt::read(text).map_err(|error| describe(text, &error))
}

#[cold]
fn not_utf8(json: &[u8], offset: usize) -> ParseError {
    let before = json.get(..offset).unwrap_or(json);
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
    let property = locate::property_at(before);
    ParseError { line, column, property, message: "invalid UTF-8".into() }
}

#[cold]
fn describe(text: &str, error: &serde_json::Error) -> ParseError {
    let (line, column) = (error.line(), error.column());
    let mut message = error.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    let start_of_line: usize =
        text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut read = text.as_bytes().get(..start_of_line + column).unwrap_or(text.as_bytes());
    // If the text contains a list where another type is expected, the error names the property whose value is the list,
    // not an element of the list.
    if message.starts_with("invalid type: sequence") {
        let begin = read.iter().rposition(|byte| *byte == b'[');
        read = begin.and_then(|begin| read.get(..begin)).unwrap_or(read);
    }
    ParseError { line, column, property: locate::property_at(read), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> ParseError {
        Spec::parse(text).unwrap_err()
    }

    #[test]
    fn errors_say_where() {
        let wrong = error("{\n  \"process\": {\n    \"user\": {\"uid\": -1}\n  }\n}");
        assert_eq!((wrong.line, wrong.property.as_str()), (3, "process.user.uid"));
        let shown = wrong.to_string();
        assert!(shown.starts_with("process.user.uid: invalid value: integer `-1`"), "{shown}");
        assert!(shown.ends_with("at line 3 column 22"), "{shown}");
    }

    #[test]
    fn a_list_is_no_object() {
        for (text, property) in
            [("[]", ""), ("[\"1.0.0\"]", ""), (r#"{"root": ["rootfs"]}"#, "root")]
        {
            let wrong = error(text);
            assert_eq!(wrong.property, property, "{text}");
            assert_eq!(wrong.message, "invalid type: sequence, expected an object", "{text}");
        }
    }

    #[test]
    fn keys_in_another_case_are_told() {
        let text = r#"{"Hostname": "a", "annotations": {"Root": "x"}, "mounts": [{"Options": []}, {"Type": "x", "other": {"args": 1}}],
            "linux": {"resources": {"Memory": {"limit": 5}, "hugepageLimits": [{"pageSize": "2MB", "Limit" : 1, "limit": 2}], "memory": null},
            "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "Syscalls": []}, "rootfsPropagation": "private"}, "hostname": "b"}"#;
        let known = [
            ("Hostname", "hostname"),
            ("mounts[0].Options", "options"),
            ("mounts[1].Type", "type"),
            ("linux.resources.Memory", "memory"),
            ("linux.resources.hugepageLimits[0].Limit", "limit"),
        ];
        let (spec, told) = Spec::parse_and_tell(text.as_bytes()).unwrap();
        let told: Vec<_> = told.iter().map(|one| (one.property.as_str(), one.known)).collect();
        assert_eq!(told, known);
        assert_eq!(spec.hostname.unwrap(), "b");
        let (_, told) = Spec::from_whole_bytes(text.as_bytes()).unwrap();
        assert_eq!(told.len(), known.len());
        let (_, told) = Process::parse_and_tell(br#"{"Args": [], "x": 1}"#).unwrap();
        assert_eq!(
            told[0].to_string(),
            "Args is ignored: the key is \"args\"; keys are case-sensitive"
        );
        let (_, told) = Resources::parse_and_tell(br#"{"pids": {"LIMIT": 1}}"#).unwrap();
        assert_eq!((told.len(), told[0].property.as_str()), (1, "pids.LIMIT"));
    }

    #[test]
    fn errors_in_lists_have_an_index() {
        let text = r#"{"linux": {"namespaces": [{"type": "pid"}, {"type": "net"}]}}"#;
        let wrong = error(text);
        assert_eq!(wrong.property, "linux.namespaces[1].type");
        assert_eq!(wrong.message, "namespace \"net\" does not exist");
    }

    #[test]
    fn broken_text() {
        for (text, line) in [("", 1), ("{", 1), ("{}\nx", 2), ("[1", 1), ("{\"a\":\n\n!}", 3)] {
            assert_eq!(error(text).line, line, "{text:?}");
        }
        assert_eq!(error("{} {}").message, "trailing characters");
    }

    #[test]
    fn not_utf8_is_an_error() {
        let wrong = Spec::parse(b"{\n \"hostname\": \"\xff\"}").unwrap_err();
        assert_eq!((wrong.line, wrong.column, wrong.property.as_str()), (2, 15, "hostname"));
    }

    #[test]
    fn nul_is_an_error() {
        let wrong = error(r#"{"hostname": "a\u0000b"}"#);
        assert_eq!(wrong.property, "hostname");
        assert!(wrong.message.contains("NUL"));
    }

    #[test]
    fn only_escapes_are_copied() {
        let text = r#"{"hostname": "plain", "domainname": "a\/b"}"#;
        let spec = Spec::parse(text).unwrap();
        assert!(spec.hostname.unwrap().is_borrowed());
        let domainname = spec.domainname.unwrap();
        assert!(!domainname.is_borrowed() && domainname == "a/b");
    }

    #[test]
    fn null_and_empty_are_absent() {
        let text = r#"{"process": {"capabilities": null, "terminal": null, "user": null, "args": null,
            "selinuxLabel": "", "oomScoreAdj": null}, "mounts": null, "hooks": null, "hostname": "",
            "annotations": null, "linux": {"seccomp": null, "sysctl": null, "resources": null,
            "namespaces": [{"type": "pid", "path": ""}]}, "vm": null}"#;
        let spec = Spec::parse(text).unwrap();
        let process = spec.process.unwrap();
        assert!(process.capabilities.is_none() && process.selinux_label.is_none());
        assert!(spec.mounts.is_empty() && spec.hostname.is_none() && spec.vm.is_none());
        let linux = spec.linux.unwrap();
        assert!(linux.seccomp.is_none() && linux.resources.is_none());
        assert!(linux.namespaces[0].path.is_none());
    }

    #[test]
    fn unknown_properties_are_ignored() {
        let text = r#"{"future": [{}], "root": {"path": "r", "future": 1}}"#;
        assert_eq!(Spec::parse(text).unwrap().root.unwrap().path, "r");
    }

    #[test]
    fn a_process_alone() {
        let process = Process::parse(r#"{"args": ["true"], "cwd": "/"}"#).unwrap();
        assert_eq!(process.args, ["true"]);
        assert!(Process::parse("{").is_err());
    }
}
