//! Error messages for failed requests to a registry, with advice.

use super::auth::Credentials;
use super::is_loopback;
use serde_json::Value;
use std::io::ErrorKind;
use std::time::Duration;
use ureq::Error;

/// The maximum length, in characters, of a registry's message that is quoted in an error.
const LONGEST: usize = 200;

/// Explains why there was no answer of `host` (which may have a port) within `patience`, or of the proxy that was asked
/// instead.
pub fn unanswered(error: &Error, host: &str, proxy: Option<&str>, patience: Duration) -> String {
    let text = error.to_string();
    let text = text.trim_start_matches("io: ");
    let by = proxy.map_or_else(String::new, |proxy| format!(" (by the proxy {proxy})"));
    let kind = match error {
        Error::Io(error) => error.kind(),
        Error::Timeout(_) => ErrorKind::TimedOut,
        _ => ErrorKind::Other,
    };
    if matches!(error, Error::HostNotFound) || text.contains("lookup address") {
        let cause = text.rsplit(": ").next().unwrap_or_default();
        return format!(
            "the name {host} is not found{by}, {cause}: is there a network? \"dayfly image import\" takes an image from a file"
        );
    }
    if let Some((_, reason)) = text.split_once("invalid peer certificate: ")
        && reason != "UnknownIssuer"
    {
        return format!("the certificate of {host} is refused{by}: {reason}");
    }
    match kind {
        _ if text.contains("received corrupt message") => {
            let advice = match is_loopback(host) {
                true => "--plain-http uses HTTP without TLS",
                false => {
                    "--plain-http is for registries on this host; \"ssh -L\" forwards a registry of another host"
                }
            };
            format!("{host} does not talk TLS{by}: {advice}")
        }
        _ if text.contains("UnknownIssuer") || text.contains("No CA certificates") => format!(
            "the certificate of {host} is of an authority that this host does not know{by}: add the authority to those of this host (update-ca-certificates), or name a file with it in SSL_CERT_FILE"
        ),
        ErrorKind::ConnectionRefused => {
            format!("nobody listens at {host}{by}: is the registry running?")
        }
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => format!(
            "{host} is not reachable{by}: is there a network? \"dayfly image import\" takes an image from a file"
        ),
        ErrorKind::TimedOut => {
            let seconds = patience.as_secs();
            format!("{host} does not answer within {seconds} s{by}; --timeout waits longer")
        }
        _ => format!("{host} cannot be asked{by}: {text}"),
    }
}

/// Explains an error status. `sent` describes the request's authentication.
pub fn refused(status: u16, body: &[u8], wait: &str, sent: &Sent<'_>) -> String {
    let said = said(body);
    let status_and = |meaning: &str| match &said {
        Some(said) => format!("{meaning}, status {status} ({said})"),
        None => format!("{meaning}, status {status}"),
    };
    match status {
        401 | 403 => format!("{}: {}", status_and("not allowed"), sent.advice()),
        404 => status_and("not there"),
        429 => {
            let wait = match wait.parse::<u64>() {
                Ok(seconds) => format!("wait {seconds} s"),
                Err(_) => "wait for a while".to_owned(),
            };
            let log_in = match sent {
                Sent::Nothing | Sent::Token => ", or log in if that raises the limit",
                _ => "",
            };
            format!("{}: {wait}{log_in}", status_and("too many requests"))
        }
        // TLS servers answer a request without TLS with this status, in plain text.
        400 if String::from_utf8_lossy(body).contains("HTTPS") => {
            format!("{}: without --plain-http, requests use TLS", status_and("refused"))
        }
        500.. => format!("{}: try again later", status_and("the registry failed")),
        _ => status_and("refused"),
    }
}

/// The authentication of a request.
pub enum Sent<'a> {
    /// No authentication.
    Nothing,
    /// A user name and a password.
    Password(&'a Credentials),
    /// An anonymous token.
    Token,
    /// A token obtained with credentials.
    TokenFor(&'a Credentials),
}

impl Sent<'_> {
    fn advice(&self) -> String {
        match self {
            Self::Password(Credentials { from, .. }) => format!(
                "the registry refuses the name and password of {from}: log in again, or ask for the right to pull"
            ),
            Self::TokenFor(Credentials { from, .. }) => {
                format!("it does not exist, or the login of {from} has no access to it")
            }
            Self::Nothing | Self::Token => "it does not exist, or it is not for everybody: log in with \"docker login\" or \"podman login\"".to_owned(),
        }
    }
}

/// Returns the registry's own error message: `{"errors": [{"code": …, "message": …}]}`, or a line of text.
fn said(body: &[u8]) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::trim).unwrap_or_default().to_owned();
    let said = match serde_json::from_slice::<Value>(body) {
        Ok(answer) => match answer["errors"].as_array().and_then(|errors| errors.first()) {
            Some(error) if text(&error["message"]).is_empty() => text(&error["code"]),
            Some(error) => text(&error["message"]),
            // Token servers use formats of their own.
            None => text(&answer["details"]) + &text(&answer["message"]),
        },
        // An HTML page is useless here.
        Err(_) => str::from_utf8(body).unwrap_or_default().trim().to_owned(),
    };
    let is_page = said.contains('<');
    let said: String =
        said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    Some(said).filter(|said| !said.is_empty() && !is_page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::auth::Secret;

    #[test]
    fn a_registrys_own_words_are_taken_from_its_json() {
        let text =
            br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{}}]}"#;
        assert_eq!(
            refused(404, text, "", &Sent::Token),
            "not there, status 404 (manifest unknown)"
        );
        for nothing in
            [&b""[..], b"<html>", b"[]", b"{}", b"7", br#"{"errors":[]}"#, b"{\"errors\":7}"]
        {
            assert_eq!(refused(404, nothing, "", &Sent::Token), "not there, status 404");
        }
        let text = br#"{"errors":[{"code":"DENIED","message":""}]}"#;
        assert_eq!(said(text).as_deref(), Some("DENIED"));
        assert_eq!(said(br#"{"details":"a wrong\n one"}"#).as_deref(), Some("a wrong  one"));
        assert_eq!(said(b"later\n").as_deref(), Some("later"));
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "x".repeat(900));
        assert_eq!(said(long.as_bytes()).map(|said| said.len()), Some(LONGEST));
    }

    #[test]
    fn who_is_refused_is_told_what_to_do() {
        let credentials =
            Credentials { secret: Secret::Identity(String::new()), from: "auth.json".to_owned() };
        for (status, wait, sent, wanted) in [
            (401, "", Sent::Token, "log in"),
            (401, "", Sent::Password(&credentials), "password of auth.json"),
            (403, "", Sent::TokenFor(&credentials), "login of auth.json"),
            (429, "17", Sent::Token, "status 429: wait 17 s, or log in"),
            (429, "Wed, 21 Oct", Sent::TokenFor(&credentials), "wait for a while"),
            (503, "", Sent::Token, "try again later"),
        ] {
            let text = refused(status, b"", wait, &sent);
            assert!(text.contains(wanted), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
        let text =
            refused(400, b"Client sent an HTTP request to an HTTPS server.\n", "", &Sent::Nothing);
        assert!(text.contains("--plain-http"), "{text}");
    }

    #[test]
    fn who_gets_no_answer_is_told_what_to_do() {
        let unanswered = |error: &Error, host, proxy| {
            super::unanswered(error, host, proxy, Duration::from_secs(3))
        };
        let io = |kind, text: &str| Error::Io(std::io::Error::new(kind, text.to_owned()));
        let lookup = "failed to lookup address information: Temporary failure in name resolution";
        for (error, wanted) in [
            (io(ErrorKind::Other, lookup), "a.test is not found, Temporary failure in name"),
            (io(ErrorKind::ConnectionRefused, ""), "nobody listens at a.test: is the registry"),
            (io(ErrorKind::NetworkUnreachable, ""), "a.test is not reachable: is there a network?"),
            (io(ErrorKind::TimedOut, ""), "within 3 s; --timeout"),
            (
                io(ErrorKind::InvalidData, "received corrupt message of type X"),
                "--plain-http is for registries on this host; \"ssh -L",
            ),
            (
                io(ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer"),
                "SSL_CERT_FILE",
            ),
            (io(ErrorKind::InvalidData, "invalid peer certificate: Expired"), "refused: Expired"),
            (Error::TooManyRedirects, "cannot be asked"),
        ] {
            let text = unanswered(&error, "a.test", None);
            assert!(text.contains(wanted), "{text}");
        }
        let error = io(ErrorKind::InvalidData, "received corrupt message");
        let text = unanswered(&error, "localhost:5000", Some("p.test:3128"));
        assert!(text.contains("by the proxy p.test:3128): --plain-http uses HTTP"), "{text}");
    }
}
