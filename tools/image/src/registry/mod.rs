//! A client of the OCI distribution protocol, for manifests and blobs of a repository.
//!
//! It uses `ureq`, which blocks and brings 33 crates with TLS. Crates for this protocol would bring an asynchronous
//! runtime and 188 crates. A password is sent to the registry and to the token server that the registry names, but not
//! to a host to which the registry redirects.

mod asked_host;
mod auth;
mod challenge;
mod download;
mod failure;
mod helper;
mod token;
mod transfer;
mod trust;

use crate::apart::{apart, receive};
use crate::digest::Digest;
use crate::error::{Error, Result, ensure, unfit};
use crate::oci::{DOCUMENT, Descriptor, INDEX, MANIFEST};
use crate::reference::Reference;
use asked_host::{Remembering, last_asked};
use auth::{Credentials, Wanted};
use challenge::Challenge;
use download::Download;
use failure::Sent;
use report::{interrupt, time};
use rootfs::name::HUB;
use std::fmt::Display;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use transfer::{PROGRESS, Transfer};
use ureq::http::{Response, Uri};
use ureq::tls::TlsConfig;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, ResponseExt};

/// The host that serves Docker Hub.
const HUBS_HOST: &str = "registry-1.docker.io";
/// The maximum number of bytes that are read from the body of an error response.
const REFUSAL: u64 = 64 << 10;

/// Options for accessing a registry.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The registry")]
pub struct Access {
    /// Use HTTP instead of HTTPS, only for a registry on this host
    #[arg(long)]
    pub plain_http: bool,
    /// Timeout of an answer of the registry, and of each 64 KiB of a layer
    #[arg(long = "timeout", value_name = "TIME", default_value = "30s", value_parser = patience)]
    pub patience: Duration,
    /// A file with passwords, as in containers-auth.json(5)
    #[arg(long = "authfile", value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
}

fn patience(text: &str) -> Result<Duration, String> {
    time::within(time::seconds(text)?, Duration::from_secs(1), Duration::from_secs(3600))
}

/// A repository of a registry.
#[derive(Debug)]
pub struct Remote {
    agent: Agent,
    base: String,
    plain_http: bool,
    patience: Duration,
    /// The name of the repository with its registry.
    name: String,
    repository: String,
    credentials: Option<Credentials>,
    /// The value of the `Authorization` header, once the registry has demanded authentication.
    authorization: Mutex<Option<String>>,
}

/// Returns whether the response came from the request's origin, rather than from another origin after a redirect.
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
    /// Returns the repository of `reference`. No request is sent yet.
    ///
    /// # Errors
    /// Plain HTTP to a host other than this one; a file with certificates or credentials cannot be read.
    pub fn of(reference: &Reference, access: &Access) -> Result<Self> {
        let (host, repository) = reference.registry()?;
        ensure!(
            !access.plain_http || is_loopback(&host),
            "--plain-http is for registries on this host, but {host} is another host: data could be modified in transit"
        );
        let scheme = if access.plain_http { "http" } else { "https" };
        let tls = TlsConfig::builder().root_certs(trust::roots(&host)?).build();
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
        let wanted = Wanted { host: &host, repository: &repository, patience: access.patience };
        let credentials = auth::find(wanted, access.auth_file.as_deref())?;
        let server = if host == HUB { HUBS_HOST } else { &host };
        Ok(Self {
            agent: Agent::with_parts(agent, DefaultConnector::default(), Remembering::default()),
            base: format!("{scheme}://{server}/v2/{repository}"),
            plain_http: access.plain_http,
            patience: access.patience,
            name: format!("{host}/{repository}"),
            repository,
            credentials,
            authorization: Mutex::new(None),
        })
    }

    /// Fetches the manifest or index with the tag or digest of `reference`; returns its descriptor and its text.
    ///
    /// # Errors
    /// Those of the network and the registry; the digest differs.
    pub fn find(&self, reference: &Reference) -> Result<(Descriptor, Vec<u8>)> {
        let text = match (&reference.digest, &reference.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.clone().unwrap_or_default(),
        };
        let (kind, document) = self.manifest(&text)?;
        let digest = Digest::of(&document);
        if let Some(expected) = reference.digest {
            expected.check(digest, reference)?;
        }
        Ok((Descriptor::new(&kind, digest, document.len() as u64), document))
    }

    /// Fetches a manifest or index by tag or digest; returns its media type and text.
    ///
    /// # Errors
    /// Those of the network and the registry.
    pub fn manifest(&self, reference: &str) -> Result<(String, Vec<u8>)> {
        let mark = if reference.contains(':') { '@' } else { ':' };
        let document = Document {
            url: format!("{}/manifests/{reference}", self.base),
            what: format!("{}{mark}{reference}", self.name),
        };
        let accept = [INDEX, MANIFEST].concat().join(", ");
        let response = self.get(&document, &accept, 0)?;
        let kind = header(&response, "content-type");
        let kind = kind.split(';').next().unwrap_or_default().trim().to_owned();
        let text = self.document(response, DOCUMENT + 1).map_err(read_from(&document.what))?;
        if text.len() as u64 > DOCUMENT {
            return Err(failed(&document.what, "the manifest is too long"));
        }
        Ok((kind, text))
    }

    /// Opens a blob. An interrupted download is resumed.
    ///
    /// # Errors
    /// Those of the first response.
    pub fn blob(&self, blob: &Descriptor) -> Result<Box<dyn Read + Send + '_>> {
        let document = Document {
            url: format!("{}/blobs/{}", self.base, blob.digest),
            what: format!("blob {} of {}", blob.digest, self.name),
        };
        let body = self.open(&document, 0, &mut 0)?;
        Ok(Box::new(Download::new(self, document, body, blob.size)))
    }

    /// Opens a blob at an offset. If the registry does not support range requests, the bytes received again are added
    /// to `repeated`.
    fn open(&self, document: &Document, at: u64, repeated: &mut u64) -> Result<Transfer> {
        let response = self.get(document, "*/*", at)?;
        let partial = response.status() == 206;
        let mut body = Transfer::new(response.into_body().into_reader(), self.patience, PROGRESS);
        if at > 0 && !partial {
            *repeated = repeated.saturating_add(at);
            io::copy(&mut (&mut body).take(at), &mut io::sink())
                .map_err(read_from(&document.what))?;
        }
        Ok(body)
    }

    /// Reads up to `most` bytes of a short document. The whole document must arrive within the timeout that applies to
    /// each part of a blob.
    fn document(&self, response: Response<Body>, most: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let body = response.into_body().into_reader().take(most);
        Transfer::new(body, self.patience, u64::MAX).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Sends a request to `url` and waits for the head of the response. `call` runs in a separate thread, because the
    /// HTTP client does not react to signals before its own timeouts.
    fn exchange(
        &self,
        url: &str,
        call: impl FnOnce() -> Result<Response<Body>, ureq::Error> + Send + 'static,
    ) -> Result<Response<Body>, String> {
        let answer = apart(move || last_asked(call));
        let uri: Option<Uri> = url.parse().ok();
        let host = uri.as_ref().and_then(Uri::authority).map_or(url, |host| host.as_str());
        let proxy = self
            .agent
            .config()
            .proxy()
            .filter(|proxy| uri.as_ref().is_none_or(|uri| !proxy.is_no_proxy(uri)));
        let proxy = proxy.map(|proxy| format!("{}:{}", proxy.host(), proxy.port()));
        let unanswered = |error: &ureq::Error, last: Option<String>| {
            // A proxy is asked instead of each host.
            let last = last.filter(|_| proxy.is_none());
            let host = last.as_deref().unwrap_or(host);
            failure::unanswered(error, host, proxy.as_deref(), self.patience)
        };
        // Resolving, connecting, sending and the response have separate timeouts.
        match receive(&answer, self.patience * 5) {
            Ok(Some((answer, last))) => answer.map_err(|error| unanswered(&error, last)),
            Ok(None) => Err(format!("{host} does not answer")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a request. If the registry demands authentication, sends the request once more with an `Authorization`
    /// header.
    fn get(&self, document: &Document, accept: &str, at: u64) -> Result<Response<Body>> {
        let mut asked = false;
        loop {
            let sent = self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let response = self.send(document, accept, at, sent.as_deref())?;
            match response.status().as_u16() {
                200 | 206 => return Ok(response),
                // A redirect may lead to any server, but only the registry itself may demand credentials.
                401 if !asked && same_origin(&document.url, response.get_uri()) => {
                    asked = true;
                    let new =
                        self.authorize(&document.what, &header(&response, "www-authenticate"))?;
                    *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                }
                _ => {
                    let reason = self.refused(response, &self.sent(sent.as_deref()));
                    return Err(failed(&document.what, reason));
                }
            }
        }
    }

    fn send(
        &self,
        document: &Document,
        accept: &str,
        at: u64,
        authorization: Option<&str>,
    ) -> Result<Response<Body>> {
        let mut request = self.agent.get(&document.url).header("accept", accept);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        if at > 0 {
            request = request.header("range", format!("bytes={at}-"));
        }
        self.exchange(&document.url, move || request.call())
            .map_err(|reason| failed(&document.what, reason))
    }

    /// Returns the value of the `Authorization` header that answers a challenge.
    fn authorize(&self, what: &str, challenge: &str) -> Result<String> {
        let (realm, service) = match Challenge::parse(challenge) {
            Some(Challenge::Bearer { realm, service }) => (realm, service),
            Some(Challenge::Basic) => {
                let basic = self.credentials.as_ref().and_then(Credentials::basic);
                return basic.ok_or_else(|| {
                    failed(what, "the registry wants a password: log in with \"podman login\" or \"docker login\", or name a file with --authfile")
                });
            }
            None => {
                let reason =
                    "the registry refuses access, and does not state the required authentication";
                return Err(failed(what, reason));
            }
        };
        let token = self.token(&realm, service.as_deref());
        token.map(|token| format!("Bearer {token}")).map_err(|reason| failed(what, reason))
    }

    /// Describes the authentication of a request.
    fn sent(&self, authorization: Option<&str>) -> Sent<'_> {
        match (authorization, &self.credentials) {
            (None, _) => Sent::Nothing,
            (Some(text), Some(credentials)) if text.starts_with("Basic") => {
                Sent::Password(credentials)
            }
            (Some(_), Some(credentials)) => Sent::TokenFor(credentials),
            (Some(_), None) => Sent::Token,
        }
    }

    /// Explains an error response.
    fn refused(&self, response: Response<Body>, sent: &Sent<'_>) -> String {
        let status = response.status().as_u16();
        let wait = header(&response, "retry-after");
        let text = self.document(response, REFUSAL).unwrap_or_default();
        failure::refused(status, &text, &wait, sent)
    }
}

/// An object of a repository: its URL and its name for messages.
#[derive(Debug)]
struct Document {
    url: String,
    what: String,
}

/// Returns the error of a request, or [`Error::Interrupted`] if a signal has arrived.
fn failed(what: &str, reason: impl Display) -> Error {
    interrupt::check().err().map_or_else(|| unfit!("{what}: {reason}"), Error::from)
}

/// Returns a function that makes the error of reading a response, or [`Error::Interrupted`] if a signal has arrived.
fn read_from(what: &str) -> impl FnOnce(io::Error) -> Error {
    move |cause| failed(what, cause)
}

fn header(response: &Response<Body>, name: &str) -> String {
    response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
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
