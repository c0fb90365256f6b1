//! Credential helpers: programs `docker-credential-NAME` that keep passwords for `docker login`.
//!
//! `docker-credential-NAME get` reads a registry's name from standard input, and writes a name and a secret in JSON.
//! Where it fails it says why on standard output.

use crate::apart::{apart, receive};
use serde::Deserialize;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 10;
/// What a helper says that has no password for the registry.
const NONE_THERE: &str = "credentials not found";

/// What a helper knows of a registry.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct Answer {
    /// The name; `<token>` if the secret is a token.
    pub username: String,
    /// The password or token.
    pub secret: String,
}

/// The program of a helper.
#[must_use]
pub fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// Asks a helper for a registry's password, and waits for it. None if it has none.
///
/// # Errors
/// Why it did not answer, as the end of a sentence.
pub fn ask(name: &str, host: &str, patience: Duration) -> Result<Option<Answer>, String> {
    if name.contains('/') {
        return Err("a helper's name has no slash".to_owned());
    }
    let mut child = Command::new(program(name))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let answer = talk(&mut child, host, patience);
    if answer.is_err() {
        // It may be gone.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let answer = answer?;
    match status.success() {
        true => {
            // What is wrong is not told: the answer is a secret.
            let answer: Answer = serde_json::from_slice(&answer)
                .map_err(|_| "its answer is not of the form".to_owned())?;
            Ok(Some(answer).filter(|answer| !answer.secret.is_empty()))
        }
        false => {
            let said = String::from_utf8_lossy(&answer);
            let said = said.lines().next().unwrap_or_default().trim();
            match said.contains(NONE_THERE) {
                true => Ok(None),
                false => Err(format!("{status}, {said}").trim_end_matches([' ', ',']).to_owned()),
            }
        }
    }
}

/// Tells the helper the registry's name, and reads what it says.
fn talk(child: &mut Child, host: &str, patience: Duration) -> Result<Vec<u8>, String> {
    if let Some(mut input) = child.stdin.take() {
        // One that reads nothing has its own reasons, and tells them.
        let _ = input.write_all(host.as_bytes());
    }
    let Some(output) = child.stdout.take() else { return Ok(Vec::new()) };
    let answer = apart(move || {
        let mut text = Vec::new();
        output.take(LONGEST).read_to_end(&mut text).map(|_| text)
    });
    match receive(&answer, patience) {
        Ok(Some(answer)) => answer.map_err(|error| error.to_string()),
        Ok(None) => Err(format!("no answer in {} s", patience.as_secs())),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_told() {
        let ask = |name| ask(name, "a.test", Duration::from_secs(5)).expect_err(name);
        assert!(ask("dayfly-nobody-has-this").contains("No such file"));
        assert!(ask("../evil").contains("slash"));
    }
}
