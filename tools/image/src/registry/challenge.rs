//! The authentication that a registry demands (`WWW-Authenticate`, RFC 9110 §11).

/// A supported challenge.
#[derive(Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A user name and a password.
    Basic,
    /// A token from a token server.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The service to request the token for.
        service: Option<String>,
    },
}

impl Challenge {
    /// Parses the header's value. Returns `None` for unknown schemes.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        for (name, value) in parameters(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer { realm: realm?, service })
    }
}

/// Parses parameters `name="value"` or `name=value`, separated by commas. A quoted value may contain commas.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let Some((name, rest)) = text.trim_start_matches([' ', ',', '\t']).split_once('=') {
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        all.push((name.trim().to_owned(), value.trim().to_owned()));
        text = rest;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        let text =
            "Bearer realm=\"https://auth.test/token\",service=\"a, b\",scope=\"repository:x:pull\"";
        let realm = "https://auth.test/token".to_owned();
        assert_eq!(
            Challenge::parse(text),
            Some(Challenge::Bearer { realm, service: Some("a, b".to_owned()) })
        );
        assert_eq!(Challenge::parse("Negotiate"), None);
        assert_eq!(Challenge::parse("Bearer service=x"), None);
        assert_eq!(Challenge::parse(""), None);
    }
}
