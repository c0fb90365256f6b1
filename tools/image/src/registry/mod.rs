//! A client of the OCI distribution protocol: reads manifests and blobs of a repository.

mod auth;
mod challenge;
mod transfer;

use crate::apart::{apart, receive};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{DOCUMENT, Descriptor, INDEX, MANIFEST};
use crate::reference::Reference;
use auth::Credentials;
use challenge::Challenge;
use report::interrupt;
use serde::Deserialize;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use transfer::{PROGRESS, Transfer, of_reader};
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder, ResponseExt};

/// How often a blob's download is taken up again where it broke off, without coming any further: by less than
/// [`PROGRESS`].
const TRIES: u32 = 4;
/// How many times a blob's length may be received again and thrown away: a registry that does not know ranges sends
/// everything anew each time.
const REPEATS: u64 = 8;
/// What a registry gets between that to come back, more each time.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a connection, then an answer, and then each [`PROGRESS`] of a blob is waited for, by default.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a registry is talked to.
#[derive(Debug, Clone)]
pub struct Access {
    /// HTTP instead of HTTPS. Only on this host: nothing protects what is sent.
    pub plain_http: bool,
    /// A file with credentials instead of the usual ones.
    pub auth_file: Option<PathBuf>,
    /// How long a connection, then an answer, and then each part of it is waited for.
    pub patience: Duration,
}

/// A repository of a registry.
#[derive(Debug)]
pub struct Remote {
    agent: Agent,
    base: String,
    plain_http: bool,
    patience: Duration,
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
            .timeout_resolve(Some(access.patience))
            .timeout_connect(Some(access.patience))
            .timeout_recv_response(Some(access.patience))
            .timeout_per_read(Some(access.patience))
            .timeout_per_write(Some(access.patience))
            .tls_config(tls)
            .user_agent(concat!("dayfly/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: agent.into(),
            base: format!("{scheme}://{host}/v2/{repository}"),
            plain_http: access.plain_http,
            patience: access.patience,
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
        let text = self.document(response, DOCUMENT + 1).map_err(read_from(&url))?;
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
        let body = self.open(&url, 0, &mut 0)?;
        Ok(Box::new(Download {
            remote: self,
            url,
            body: Some(body),
            at: 0,
            size: blob.size,
            progress: 0,
            tries: TRIES,
            repeated: 0,
        }))
    }

    /// Opens a blob at an offset. What is received for nothing, since the registry knows no ranges, is added to
    /// `repeated`.
    fn open(&self, url: &str, at: u64, repeated: &mut u64) -> Result<Transfer> {
        let response = self.get(url, "*/*", at)?;
        let partial = response.status() == 206;
        let mut body = Transfer::new(response.into_body().into_reader(), self.patience, PROGRESS);
        if at > 0 && !partial {
            *repeated = repeated.saturating_add(at);
            io::copy(&mut (&mut body).take(at), &mut io::sink()).map_err(read_from(url))?;
        }
        Ok(body)
    }

    /// The first `most` bytes of a document, which is short: all of it comes in the time of one part of a blob.
    fn document(&self, response: Response<Body>, most: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let body = response.into_body().into_reader().take(most);
        Transfer::new(body, self.patience, u64::MAX).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Sends a request and waits for the answer's head. Between its own times the client cannot be interrupted.
    fn exchange(
        &self,
        request: RequestBuilder<WithoutBody>,
    ) -> std::result::Result<Response<Body>, String> {
        let answer = apart(move || request.call());
        // Resolving a name, connecting, sending and the answer have their times each.
        match receive(&answer, self.patience * 5) {
            Ok(Some(answer)) => answer.map_err(|error| error.to_string()),
            Ok(None) => Err("no answer".to_owned()),
            Err(error) => Err(error.to_string()),
        }
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
        self.exchange(request).map_err(|reason| failed(url, reason))
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
        let failed = |reason: String| failed(realm, reason);
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
        let response = self.exchange(request).map_err(failed)?;
        if response.status() != 200 {
            return Err(failed(format!(
                "no token, status {}{}",
                response.status(),
                if self.credentials.is_some() { ": is the password right?" } else { "" }
            )));
        }
        let text = self.document(response, DOCUMENT).map_err(read_from(realm))?;
        let token: Token = crate::oci::parse(&text, "the token")?;
        token
            .token
            .or(token.access_token)
            .ok_or_else(|| failed("the answer has no token".to_owned()))
    }

    fn refused(&self, url: &str, status: u16, response: Response<Body>) -> Error {
        let text = self.document(response, 500).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
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

/// What is wrong at that address; that a signal came, where one did.
fn failed(url: &str, reason: String) -> Error {
    interrupt::check().err().map_or(Error::Registry { url: url.to_owned(), reason }, Error::from)
}

/// The same of a reader.
fn read_from(url: &str) -> impl FnOnce(io::Error) -> Error {
    move |cause| failed(url, cause.to_string())
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
    /// None after an error: what is left of an old body is not read.
    body: Option<Transfer>,
    at: u64,
    size: u64,
    /// What came since the last try counted as none.
    progress: u64,
    tries: u32,
    /// Bytes that came again and were thrown away.
    repeated: u64,
}

impl Download<'_> {
    /// Reads on, from a new body if there is none. The end before its time is an error.
    fn read_on(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let body = match &mut self.body {
            Some(body) => body,
            none => none.insert(
                self.remote.open(&self.url, self.at, &mut self.repeated).map_err(of_reader)?,
            ),
        };
        match body.read(buffer)? {
            0 if self.at < self.size && !buffer.is_empty() => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            count => Ok(count),
        }
    }
}

impl Read for Download<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let cause = match self.read_on(buffer) {
                Ok(count) => {
                    self.at += count as u64;
                    self.progress += count as u64;
                    if self.progress >= PROGRESS {
                        (self.progress, self.tries) = (0, TRIES);
                    }
                    return Ok(count);
                }
                Err(error) => error,
            };
            self.body = None;
            interrupt::check().map_err(|interrupted| of_reader(interrupted.into()))?;
            self.tries = self.tries.saturating_sub(1);
            if self.tries == 0 || self.repeated / REPEATS > self.size {
                let reason = format!("given up after {} of {} bytes: {cause}", self.at, self.size);
                return Err(of_reader(failed(&self.url, reason)));
            }
            self.progress = 0;
            thread::sleep(PAUSE * (TRIES - self.tries));
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
