//! Where the collector is.

use alloc::string::{String, ToString};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::Error;

/// Where everything goes, unless [`TRACES_ENDPOINT`] says otherwise: a base to which `/v1/traces` is added.
pub const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where traces go: taken as it is.
pub const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// OTLP over HTTP.
const PORT: u16 = 4318;

/// A collector's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Host and port, as the URL has them.
    pub host: String,
    /// The path to post to.
    pub path: String,
}

impl Endpoint {
    /// What the environment names; by default the collector of this host.
    ///
    /// # Errors
    /// A URL of another scheme than http, or a host by name.
    pub fn from_environment(args: sys::Args) -> Result<Self, Error> {
        let of = |name| args.env(name).filter(|url| !url.is_empty());
        match of(TRACES_ENDPOINT) {
            Some(url) => Self::parse(url, ""),
            None => Self::parse(of(ENDPOINT).unwrap_or("http://localhost:4318"), "/v1/traces"),
        }
    }

    /// Reads `http://HOST[:PORT][/PATH]`, and adds `path`.
    ///
    /// # Errors
    /// As [`Self::from_environment`].
    pub fn parse(url: &str, path: &str) -> Result<Self, Error> {
        let rest = url.strip_prefix("http://").ok_or(Error::Endpoint("only http:// is spoken"))?;
        let (host, base) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // What would end the line of a header.
        if rest.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return Err(Error::Endpoint("control characters"));
        }
        let name = host.strip_prefix("localhost");
        let address = match name.map(|port| port.strip_prefix(':').unwrap_or(port)) {
            Some("") => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT)),
            Some(port) => {
                port.parse().ok().map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))
            }
            None => {
                let alone = host.trim_start_matches('[').trim_end_matches(']');
                let alone = alone.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
                host.parse().ok().or(alone)
            }
        };
        let why = "the host must be an address or localhost: names are not looked up";
        let path = alloc::format!("{}{path}", base.trim_end_matches('/'));
        let path = if path.is_empty() { "/".to_string() } else { path };
        Ok(Self { address: address.ok_or(Error::Endpoint(why))?, host: host.to_string(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Option<(String, String)> {
        let endpoint = Endpoint::parse(url, "/v1/traces").ok()?;
        Some((endpoint.address.to_string(), endpoint.path))
    }

    #[test]
    fn reads_urls() {
        for (url, address, path) in [
            ("http://localhost", "127.0.0.1:4318", "/v1/traces"),
            ("http://localhost:9/", "127.0.0.1:9", "/v1/traces"),
            ("http://10.0.0.1:80/otel", "10.0.0.1:80", "/otel/v1/traces"),
            ("http://10.0.0.1", "10.0.0.1:4318", "/v1/traces"),
            ("http://[::1]:5", "[::1]:5", "/v1/traces"),
            ("http://[::1]", "[::1]:4318", "/v1/traces"),
        ] {
            assert_eq!(of(url), Some((address.to_string(), path.to_string())), "{url}");
        }
        assert_eq!(Endpoint::parse("http://localhost:1", "").unwrap().path, "/");
    }

    #[test]
    fn refuses_what_it_can_not_reach() {
        for url in [
            "",
            "https://localhost",
            "http://collector:4318",
            "http://localhost:x",
            "http://a\r\nb",
        ] {
            assert_eq!(of(url), None, "{url}");
        }
    }
}
