//! A client of the OCI distribution protocol: reads manifests and blobs of a repository.

mod auth;
mod challenge;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{DOCUMENT, Descriptor, INDEX, MANIFEST};
use crate::reference::Reference;
use auth::Credentials;
use challenge::Challenge;
use serde::Deserialize;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, ResponseExt};

/// How often a blob's download is taken up again where it broke off, without coming any further.
const TRIES: u32 = 4;
/// What a registry gets between that to come back, more each time.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a connection, then an answer, and then each part of it is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a registry is talked to.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// HTTP instead of HTTPS. Only on this host: nothing protects what is sent.
    pub plain_http: bool,
    /// A file with credentials instead of the usual ones.
    pub auth_file: Option<PathBuf>,
}

/// A repository of a registry.
#[derive(Debug)]
pub struct Remote {
    agent: Agent,
    base: String,
    plain_http: bool,
    repository: String,
    credentials: Option<Credentials>,
    /// What is sent as `Authorization`, once the registry has said what it wants.
    authorization: Mutex<Option<String>>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Whether an answer came from where it was asked for, not from somewhere else after a redirection.
fn same_origin(asked: &str, answered: &Uri) -> bool {
    asked.parse::<Uri>().is_ok_and(|asked| {
        asked.scheme() == answered.scheme() && asked.authority() == answered.authority()
    })
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address: Option<std::net::IpAddr> =
        name.trim_start_matches('[').trim_end_matches(']').parse().ok();
    name == "localhost" || address.is_some_and(|address| address.is_loopback())
}

impl Remote {
    /// The repository of `reference`. Nothing is asked yet.
    ///
    /// # Errors
    /// A registry that may not be talked to so; credentials that can't be read.
    pub fn of(reference: &Reference, access: &Access) -> Result<Self> {
        let (host, repository) = reference.registry()?;
        if access.plain_http && !is_loopback(host) {
            return Err(Error::Unfit(format!(
                "--plain-http is for registries on this host, and {host} is none: what it sends could be changed on the way"
            )));
        }
        let scheme = if access.plain_http { "http" } else { "https" };
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!access.plain_http)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .timeout_per_write(Some(PATIENCE))
            .tls_config(tls)
            .user_agent(concat!("dayfly/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: agent.into(),
            base: format!("{scheme}://{host}/v2/{repository}"),
            plain_http: access.plain_http,
            repository: repository.to_owned(),
            credentials: auth::find(host, repository, access.auth_file.as_deref())?,
            authorization: Mutex::new(None),
        })
    }

    /// What the registry has by the tag or digest of `reference`: a manifest or an index, and its text.
    ///
    /// # Errors
    /// Those of the network, what the registry refuses, [`Error::Digest`].
    pub fn find(&self, reference: &Reference) -> Result<(Descriptor, Vec<u8>)> {
        let text = match (&reference.digest, &reference.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.clone().unwrap_or_default(),
        };
        let (kind, document) = self.manifest(&text)?;
        let digest = Digest::of(&document);
        if let Some(expected) = reference.digest {
            expected.same(digest, || format!("{reference}"))?;
        }
        let descriptor = Descriptor {
            media_type: kind,
            digest,
            size: document.len() as u64,
            platform: None,
            annotations: None,
        };
        Ok((descriptor, document))
    }

    /// A manifest or index by tag or digest: its media type and its text.
    fn manifest(&self, reference: &str) -> Result<(String, Vec<u8>)> {
        let url = format!("{}/manifests/{reference}", self.base);
        let accept = [INDEX, MANIFEST].concat().join(", ");
        let response = self.get(&url, &accept, 0)?;
        let kind = header(&response, "content-type")
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        let mut text = Vec::new();
        response
            .into_body()
            .into_reader()
            .take(DOCUMENT + 1)
            .read_to_end(&mut text)
            .map_err(Error::at("read", &url))?;
        if text.len() as u64 > DOCUMENT {
            return Err(Error::Registry { url, reason: "the manifest is too long".to_owned() });
        }
        Ok((kind, text))
    }

    /// A manifest or index that another document names.
    ///
    /// # Errors
    /// Those of fetching it; that it is another one.
    pub fn manifest_of(&self, blob: &Descriptor) -> Result<Vec<u8>> {
        let (_, text) = self.manifest(&blob.digest.to_string())?;
        blob.digest.check(&text, "the manifest")?;
        Ok(text)
    }

    /// Opens a blob. Where its download breaks off it is taken up again.
    ///
    /// # Errors
    /// Those of the first answer.
    pub fn blob(&self, blob: &Descriptor) -> Result<Box<dyn Read + Send + '_>> {
        let url = format!("{}/blobs/{}", self.base, blob.digest);
        let body = self.open(&url, 0)?;
        Ok(Box::new(Download { remote: self, url, body, at: 0, size: blob.size, tries: TRIES }))
    }

    fn open(&self, url: &str, at: u64) -> Result<Box<dyn Read + Send>> {
        let response = self.get(url, "*/*", at)?;
        let partial = response.status() == 206;
        let mut body = response.into_body().into_reader();
        if at > 0 && !partial {
            io::copy(&mut (&mut body).take(at), &mut io::sink()).map_err(Error::at("read", url))?;
        }
        Ok(Box::new(body))
    }

    /// Asks; once more with what the registry wants to know.
    fn get(&self, url: &str, accept: &str, at: u64) -> Result<Response<Body>> {
        let mut asked = false;
        loop {
            let sent = self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let response = self.send(url, accept, at, sent.as_deref())?;
            match response.status().as_u16() {
                200 | 206 => return Ok(response),
                // Who is redirected to may be anybody: passwords are the registry's alone to ask for.
                401 if !asked && same_origin(url, response.get_uri()) => {
                    asked = true;
                    let new = self.authorize(url, &header(&response, "www-authenticate"))?;
                    *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                }
                status => return Err(self.refused(url, status, response)),
            }
        }
    }

    fn send(
        &self,
        url: &str,
        accept: &str,
        at: u64,
        authorization: Option<&str>,
    ) -> Result<Response<Body>> {
        let mut request = self.agent.get(url).header("accept", accept);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        if at > 0 {
            request = request.header("range", format!("bytes={at}-"));
        }
        request
            .call()
            .map_err(|error| Error::Registry { url: url.to_owned(), reason: error.to_string() })
    }

    /// What to send as `Authorization` after that challenge.
    fn authorize(&self, url: &str, challenge: &str) -> Result<String> {
        let refused =
            |reason: &str| Error::Registry { url: url.to_owned(), reason: reason.to_owned() };
        match Challenge::parse(challenge) {
            Some(Challenge::Basic) => {
                let credentials = self.credentials.as_ref().ok_or_else(|| {
                    refused("the registry wants a password: log in with \"podman login\" or \"docker login\", or name a file with --authfile")
                })?;
                Ok(credentials.basic())
            }
            Some(Challenge::Bearer { realm, service }) => {
                self.token(&realm, service.as_deref()).map(|token| format!("Bearer {token}"))
            }
            None => Err(refused("the registry refuses and does not say what it wants")),
        }
    }

    fn token(&self, realm: &str, service: Option<&str>) -> Result<String> {
        let failed = |reason: String| Error::Registry { url: realm.to_owned(), reason };
        let here = |realm: &str| {
            let uri: Option<Uri> = realm.parse().ok();
            uri.is_some_and(|uri| uri.authority().is_some_and(|host| is_loopback(host.as_str())))
        };
        let unread = realm.starts_with("https://") || (self.plain_http && here(realm));
        if !unread {
            return Err(failed("a token would be fetched without encryption".to_owned()));
        }
        let mut request =
            self.agent.get(realm).query("scope", format!("repository:{}:pull", self.repository));
        if let Some(service) = service {
            request = request.query("service", service);
        }
        if let Some(credentials) = &self.credentials {
            request = request.header("authorization", credentials.basic());
        }
        let response = request.call().map_err(|error| failed(error.to_string()))?;
        if response.status() != 200 {
            return Err(failed(format!(
                "no token, status {}{}",
                response.status(),
                if self.credentials.is_some() { ": is the password right?" } else { "" }
            )));
        }
        let mut text = Vec::new();
        response
            .into_body()
            .into_reader()
            .take(DOCUMENT)
            .read_to_end(&mut text)
            .map_err(Error::at("read", realm))?;
        let token: Token = crate::oci::parse(&text, "the token")?;
        token
            .token
            .or(token.access_token)
            .ok_or_else(|| failed("the answer has no token".to_owned()))
    }

    fn refused(&self, url: &str, status: u16, response: Response<Body>) -> Error {
        let mut text = String::new();
        let _ = response.into_body().into_reader().take(500).read_to_string(&mut text);
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let meaning = match status {
            401 | 403 => "not allowed",
            404 => "not there",
            429 => "too many requests; try later",
            _ => "refused",
        };
        Error::Registry {
            url: url.to_owned(),
            reason: format!("{meaning}, status {status} {}", text.trim()),
        }
    }
}

fn header(response: &Response<Body>, name: &str) -> String {
    response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// A blob that is being read.
struct Download<'a> {
    remote: &'a Remote,
    url: String,
    body: Box<dyn Read + Send>,
    at: u64,
    size: u64,
    tries: u32,
}

impl Read for Download<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let cause = match self.body.read(buffer) {
                Ok(0) if self.at < self.size && !buffer.is_empty() => {
                    io::ErrorKind::UnexpectedEof.into()
                }
                Ok(count) => {
                    self.at += count as u64;
                    self.tries = TRIES;
                    return Ok(count);
                }
                Err(error) => error,
            };
            self.tries -= 1;
            if self.tries == 0 {
                return Err(cause);
            }
            thread::sleep(PAUSE * (TRIES - self.tries));
            if let Ok(body) = self.remote.open(&self.url, self.at) {
                self.body = body;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        let same = |answered: &str| {
            same_origin("https://a.test:5000/v2/x", &answered.parse().expect("address"))
        };
        assert!(same("https://a.test:5000/other?x=y"));
        for other in ["https://a.test/v2/x", "http://a.test:5000/v2/x", "https://b.test:5000/v2/x"]
        {
            assert!(!same(other), "{other}");
        }
    }

    #[test]
    fn plain_http_is_for_this_host() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["registry.test", "10.0.0.1:5000", "localhost.test", "127.0.0.1.test:80"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
