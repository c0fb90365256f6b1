//! `Key = value` lines: the part of TOML that options and settings use.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rustix::fs::CWD;
use sys::fs::{Owned, read_owned_at};

use super::Failure;

/// The maximum size of a file in bytes.
const LONGEST: usize = 1 << 20;

/// A TOML value.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Number(u32),
    /// A string in single or double quotes.
    Text(String),
}

/// A line of a document.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The line's number, from 1.
    pub line: usize,
    /// The key as it was written, without quotes.
    pub key: &'a str,
    /// The key in lower case and without underscores: the form in which keys are compared.
    pub name: String,
    /// The value; `None` if it has a type that is not supported.
    pub value: Option<Value>,
}

/// Iterates over the entries before the first table. Lines without `=` are skipped.
pub fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let lines = text.lines().map(str::trim).enumerate();
    lines.take_while(|(_, line)| !line.starts_with('[')).filter_map(|(at, line)| {
        let (key, rest) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        let key = key.trim().trim_matches(['"', '\'']);
        let name = key.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
        Some(Entry { line: at + 1, key, name, value: value(rest.trim()) })
    })
}

/// Reads a regular file that belongs to root. `what` names the kind of file in errors.
///
/// # Errors
/// If the file cannot be read, belongs to another user, or is longer than 1 MiB.
pub fn read_file(what: &str, path: &str) -> Result<Vec<u8>, Failure> {
    match read_owned_at(CWD, path, |owner| owner == 0, LONGEST) {
        Ok(Owned::Read(bytes)) => Ok(bytes),
        Ok(Owned::Foreign(owner)) => {
            Err(format!("{what} {path}: belongs to user {owner}, not to root").into())
        }
        Ok(Owned::Special) => Err(format!("{what} {path}: not a regular file").into()),
        Err(errno) => Err(sys::Error::new("read", format!("{what} {path}"), errno).into()),
    }
}

/// Parses a value, optionally followed by a comment; returns `None` for types that options do not use: arrays, dates
/// and the like.
fn value(text: &str) -> Option<Value> {
    let (value, rest) = match text.as_bytes().first()? {
        b'\'' => {
            let (value, rest) = text.get(1..)?.split_once('\'')?;
            (Value::Text(value.to_string()), rest)
        }
        b'"' => {
            let (value, rest) = quoted(text.get(1..)?)?;
            (Value::Text(value), rest)
        }
        _ => {
            let end = text.find(['#', ' ', '\t']).unwrap_or(text.len());
            let (word, rest) = text.split_at_checked(end)?;
            let value = match word {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => Value::Number(word.replace('_', "").parse().ok()?),
            };
            (value, rest)
        }
    };
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

/// Returns the string in `text` up to its closing quote, with its escapes decoded, and the text after the quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (end, '"') => return Some((value, text.get(end + 1..)?)),
            (_, '\\') => value.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                same @ ('"' | '\\') => same,
                _ => return None,
            }),
            (_, character) => value.push(character),
        }
    }
}
