//! Credential helpers: programs named `docker-credential-NAME` that store the passwords of `docker login`.
//!
//! `docker-credential-NAME get` reads a registry's name from standard input, and writes a user name and a secret as
//! JSON. On failure it writes the reason to standard output.

use crate::apart::{apart, receive};
use serde::Deserialize;
use std::error::Error;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The maximum length of an answer, in bytes.
const LONGEST: u64 = 64 << 10;
/// A helper's message if it has no password for the registry.
const NONE_THERE: &str = "credentials not found";

/// A helper's answer.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct Answer {
    /// The user name, or `<token>` if the secret is a token.
    pub username: String,
    /// The password or token.
    pub secret: String,
}

/// Returns the program of a helper.
pub fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// The result of asking a helper. The error becomes the end of an error message.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Asks a helper for a registry's password and waits for the answer. Returns `None` if the helper has no password for
/// that registry.
///
/// # Errors
/// The reason for the failure.
pub fn ask(name: &str, host: &str, patience: Duration) -> Result<Option<Answer>> {
    if name.contains('/') {
        return Err("a helper's name has no slash".into());
    }
    let mut child = Command::new(program(name))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let answer = talk(&mut child, host, patience);
    if answer.is_err() {
        // The helper may have ended already.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let answer = answer?;
    if status.success() {
        // The parse error is not shown, because the answer contains a secret.
        let answer = serde_json::from_slice(&answer);
        let answer: Answer = answer.map_err(|_| "its answer is not of the form")?;
        return Ok(Some(answer).filter(|answer| !answer.secret.is_empty()));
    }
    let said = String::from_utf8_lossy(&answer);
    let said = said.lines().next().unwrap_or_default().trim();
    match said.contains(NONE_THERE) {
        true => Ok(None),
        false => Err(format!("{status}, {said}").trim_end_matches([' ', ',']).into()),
    }
}

/// Sends the registry's name to the helper and returns its answer.
fn talk(child: &mut Child, host: &str, patience: Duration) -> Result<Vec<u8>> {
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read its input reports its own error.
        let _ = input.write_all(host.as_bytes());
    }
    let Some(output) = child.stdout.take() else { return Ok(Vec::new()) };
    let answer = apart(move || {
        let mut text = Vec::new();
        output.take(LONGEST).read_to_end(&mut text).map(|_| text)
    });
    match receive(&answer, patience)? {
        Some(answer) => Ok(answer?),
        None => Err(format!("no answer in {} s", patience.as_secs()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_told() {
        let ask = |name| ask(name, "a.test", Duration::from_secs(5)).expect_err(name).to_string();
        assert!(ask("dayfly-nobody-has-this").contains("No such file"));
        assert!(ask("../evil").contains("slash"));
    }
}
