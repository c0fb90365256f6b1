//! The inputs that long runs have found: `corpus/TARGET.found` contains one input per line, escaped as in a Rust byte
//! string, the shortest first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The maximum size of a `.found` file, in bytes. The inputs that do not fit are the longest ones; long runs soon find
/// them again.
const ROOM: usize = 64 << 10;

/// Returns the path of a target's file.
fn file(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target).with_extension("found")
}

/// Returns the stored inputs of a target; empty if there is no file.
///
/// # Errors
/// If the file cannot be read, or a line is not an escaped input.
pub fn inputs(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let text = match fs::read_to_string(file(target)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result?,
    };
    let wrong = |line| io::Error::other(format!("{}: no input: {line}", file(target).display()));
    text.lines().map(|line| unescape(line).ok_or_else(|| wrong(line))).collect()
}

/// Stores the files of a directory as the inputs of a target, replacing the earlier inputs. Returns the number of
/// inputs that fit.
///
/// # Errors
/// If the directory cannot be read, or the file cannot be written.
pub fn keep(target: &str, directory: &Path) -> io::Result<usize> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    for entry in fs::read_dir(directory)? {
        found.push(fs::read(entry?.path())?);
    }
    found.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    let mut text = String::new();
    let mut count = 0;
    for input in found.iter().filter(|input| !input.is_empty()) {
        let line = input.escape_ascii().to_string();
        if text.len() + line.len() < ROOM {
            text += &line;
            text.push('\n');
            count += 1;
        }
    }
    fs::write(file(target), text)?;
    Ok(count)
}

/// Writes each stored input of a target to a file, for libFuzzer.
///
/// # Errors
/// As for [`inputs`], or if a file cannot be written.
pub fn lay_out(target: &str, directory: &Path) -> io::Result<usize> {
    let inputs = inputs(target)?;
    for (number, input) in inputs.iter().enumerate() {
        fs::write(directory.join(format!("found-{number}")), input)?;
    }
    Ok(inputs.len())
}

/// Decodes a text written by `escape_ascii`.
fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut bytes = line.bytes();
    let mut input = Vec::with_capacity(line.len());
    while let Some(byte) = bytes.next() {
        input.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => hexadecimal(bytes.next()?)? << 4 | hexadecimal(bytes.next()?)?,
                quoted @ (b'\\' | b'\'' | b'"') => quoted,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(input)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&all.escape_ascii().to_string()), Some(all));
    }

    #[test]
    fn no_input() {
        for line in ["\\", "\\x", "\\x1", "\\xg0", "\\q"] {
            assert_eq!(unescape(line), None, "{line}");
        }
    }
}
