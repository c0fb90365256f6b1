//! Access tokens from the token server that a registry names
//! (<https://distribution.github.io/distribution/spec/auth/token/>).

use super::auth::{Credentials, Secret};
use super::failure::Sent;
use super::{Remote, is_loopback};
use crate::oci::DOCUMENT;
use serde::Deserialize;
use ureq::http::Uri;

/// The client id sent to the server.
const CLIENT: &str = "dayfly";

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Remote {
    /// Requests a token for pulling from the server `realm`.
    ///
    /// # Errors
    /// The reason why no token was obtained.
    pub(super) fn token(&self, realm: &str, service: Option<&str>) -> Result<String, String> {
        let uri: Option<Uri> = realm.parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority).map(|host| host.as_str().to_owned());
        let Some(host) = authority else {
            return Err(format!(
                "the registry requires a token from {realm:?}, which is not a URL"
            ));
        };
        // A plain-HTTP registry on this host may use a plain-HTTP token server on this host.
        let is_unread = realm.starts_with("https://") || (self.plain_http && is_loopback(&host));
        if !is_unread {
            return Err(format!("a token from {host} would be transferred without encryption"));
        }
        let scope = format!("repository:{}:pull", self.repository);
        let secret = self.credentials.as_ref().map(|credentials| &credentials.secret);
        let answer = match secret {
            Some(Secret::Identity(token)) => {
                let form = [
                    ("grant_type", "refresh_token".to_owned()),
                    ("service", service.unwrap_or_default().to_owned()),
                    ("client_id", CLIENT.to_owned()),
                    ("scope", scope),
                    ("refresh_token", token.clone()),
                ];
                let request = self.agent.post(realm);
                self.exchange(realm, move || request.send_form(form))
            }
            _ => {
                let mut request = self.agent.get(realm).query("scope", scope);
                if let Some(service) = service {
                    request = request.query("service", service);
                }
                if let Some(basic) = self.credentials.as_ref().and_then(Credentials::basic) {
                    request = request.header("authorization", basic);
                }
                self.exchange(realm, move || request.call())
            }
        };
        let response = answer?;
        if response.status() != 200 {
            let sent = self.credentials.as_ref().map_or(Sent::Nothing, Sent::Password);
            return Err(format!("no token of {host}: {}", self.refused(response, &sent)));
        }
        let text = self.document(response, DOCUMENT).map_err(|error| error.to_string())?;
        let token: Option<Token> = serde_json::from_slice(&text).ok();
        let token = token.and_then(|answer| answer.token.or(answer.access_token));
        // A token with characters that end a header is rejected.
        let is_fit =
            |token: &String| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
        token.filter(is_fit).ok_or_else(|| format!("the answer of {host} has no token"))
    }
}
