//! Credentials from the files that `podman login` and `docker login` write (containers-auth.json(5)), and from the
//! credential helpers named there.

use super::helper;
use crate::error::{Error, Result, if_there, unfit, warn};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rootfs::name::HUB;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The key under which Docker stores the password for Docker Hub.
const HUBS_KEY: &str = "https://index.docker.io/v1/";

/// The secret that authenticates a user.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// A user name and a password in the form of HTTP basic authentication: separated by a colon, in base64.
    Password(String),
    /// An identity token, which the registry's token server exchanges for access tokens.
    Identity(String),
}

impl Secret {
    fn password(name: &str, password: &str) -> Self {
        Self::Password(STANDARD.encode(format!("{name}:{password}")))
    }
}

/// A secret and its source.
#[derive(Clone)]
pub struct Credentials {
    /// The secret.
    pub secret: Secret,
    /// The file or the program that the secret comes from.
    pub from: String,
}

impl Credentials {
    /// Returns the value of `Authorization`, if the secret is a password.
    pub fn basic(&self) -> Option<String> {
        match &self.secret {
            Secret::Password(encoded) => Some(format!("Basic {encoded}")),
            Secret::Identity(_) => None,
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials from {}", self.from)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    auths: Option<BTreeMap<String, Login>>,
    cred_helpers: Option<BTreeMap<String, String>>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Login {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// The registry and repository for which credentials are needed, and the timeout of a helper.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The registry's host, as written in image names.
    pub host: &'a str,
    /// The repository in that registry.
    pub repository: &'a str,
    /// The timeout of a helper.
    pub patience: Duration,
}

/// Returns the credentials from `file`. If `file` is `None`, returns those from the first default file that has any for
/// the registry.
///
/// # Errors
/// `file` cannot be read; a file is malformed.
pub fn find(wanted: Wanted<'_>, file: Option<&Path>) -> Result<Option<Credentials>> {
    if let Some(file) = file {
        let text = fs::read(file).map_err(Error::at("read", file))?;
        return of_file(&text, file, wanted);
    }
    for file in usual_files(|name| env::var_os(name).map(PathBuf::from)) {
        if let Some(text) = if_there(fs::read(&file)).map_err(Error::at("read", &file))?
            && let Some(found) = of_file(&text, &file, wanted)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the files that Podman reads, in the order in which Podman reads them. Docker reads only the last file.
fn usual_files(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
    let docker_config = path("DOCKER_CONFIG").map(|directory| directory.join("config.json"));
    let home = path("HOME");
    let first = path("REGISTRY_AUTH_FILE").or_else(|| docker_config.clone()).unwrap_or_else(|| {
        let user = rustix::process::getuid().as_raw();
        let run = path("XDG_RUNTIME_DIR").map(|run| run.join("containers"));
        run.unwrap_or_else(|| format!("/run/containers/{user}").into()).join("auth.json")
    });
    let config = path("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let docker = docker_config.or_else(|| home.map(|home| home.join(".docker/config.json")));
    let mut files = vec![first];
    files.extend(config.map(|config| config.join("containers/auth.json")));
    files.extend(docker.filter(|docker| *docker != files[0]));
    files
}

fn of_file(text: &[u8], path: &Path, wanted: Wanted<'_>) -> Result<Option<Credentials>> {
    let file: File = crate::oci::parse(text, &path.display().to_string())?;
    let by_helper = of_helper(&file, path, wanted);
    if by_helper.is_some() {
        return Ok(by_helper);
    }
    let from = path.display().to_string();
    let secret = of_entries(&file.auths.unwrap_or_default(), wanted)
        .map_err(|()| unfit!("the entry of {from} for {} is damaged: log in again", wanted.host))?;
    Ok(secret.map(|secret| Credentials { secret, from }))
}

/// Returns the credentials from this registry's helper, else from the default helper. A failing helper only causes a
/// warning, because the image may be public.
fn of_helper(file: &File, path: &Path, wanted: Wanted<'_>) -> Option<Credentials> {
    let mut helpers = file.cred_helpers.iter().flatten();
    let own = helpers.find(|(key, _)| repository_of(key) == wanted.host).map(|(_, name)| name);
    let name = own.or(file.creds_store.as_ref()).filter(|name| !name.is_empty())?;
    let hubs = [HUBS_KEY, HUB];
    let hosts = if wanted.host == HUB { &hubs[..] } else { &[wanted.host] };
    for host in hosts {
        match helper::ask(name, host, wanted.patience) {
            Ok(Some(helper::Answer { username, secret })) => {
                let secret = match username.as_str() {
                    "<token>" => Secret::Identity(secret),
                    name => Secret::password(name, &secret),
                };
                return Some(Credentials { secret, from: helper::program(name) });
            }
            Ok(None) => {}
            Err(reason) => {
                let warning = format!(
                    "{}, which {} names for {}, cannot be asked for a password: {reason}",
                    helper::program(name),
                    path.display(),
                    wanted.host
                );
                warn(&warning);
                return None;
            }
        }
    }
    None
}

/// Converts a key of the file to the form of image names. The key names a registry, a repository,
/// or a prefix of a repository's path.
fn repository_of(key: &str) -> String {
    let plain = key.trim_start_matches("https://").trim_start_matches("http://");
    // A key that is a URL may contain the API version.
    let plain = plain.trim_end_matches('/');
    let plain = match plain == key {
        true => plain,
        false => plain.trim_end_matches("/v1").trim_end_matches("/v2"),
    };
    let (host, rest) = plain.split_at(plain.find('/').unwrap_or(plain.len()));
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => HUB,
        host => host,
    };
    format!("{host}{rest}")
}

/// Returns the entry with the longest matching key: a repository, a prefix of its path, or the host. Among equal keys,
/// the one that is written like an image name is preferred.
fn of_entries(
    entries: &BTreeMap<String, Login>,
    wanted: Wanted<'_>,
) -> std::result::Result<Option<Secret>, ()> {
    let full = format!("{}/{}", wanted.host, wanted.repository);
    let fitting = entries.iter().filter_map(|(key, login)| {
        let place = repository_of(key);
        let rest = full.strip_prefix(&place)?;
        let fits = rest.is_empty() || rest.starts_with('/');
        fits.then_some(((place.len(), *key == place), login))
    });
    let Some((_, login)) = fitting.max_by_key(|(rank, _)| *rank) else { return Ok(None) };
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(token) = given(&login.identitytoken) {
        return Ok(Some(Secret::Identity(token)));
    }
    if let Some(auth) = given(&login.auth) {
        let plain = STANDARD.decode(&auth).ok().filter(|plain| plain.contains(&b':'));
        return plain.ok_or(()).map(|_| Some(Secret::Password(auth)));
    }
    let pair = given(&login.username).zip(given(&login.password));
    Ok(pair.map(|(name, password)| Secret::password(&name, &password)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str, host: &str, repository: &str) -> Option<Secret> {
        let wanted = Wanted { host, repository, patience: Duration::from_secs(5) };
        of_file(text.as_bytes(), Path::new("auth.json"), wanted).expect("file").map(|c| c.secret)
    }

    fn found(text: &str, host: &str, repository: &str) -> Option<String> {
        match secret(text, host, repository)? {
            Secret::Password(encoded) => Some(encoded),
            Secret::Identity(token) => Some(format!("token {token}")),
        }
    }

    #[test]
    fn the_longest_key_that_fits_counts() {
        let text = r#"{ "auths": {
            "registry.test": { "auth": "YTpi" },
            "registry.test/team": { "username": "c", "password": "d" },
            "https://old.test/v1/": { "auth": "ZTpm" },
            "helped.test": {}
        } }"#;
        assert_eq!(found(text, "registry.test", "web").as_deref(), Some("YTpi"));
        assert_eq!(found(text, "registry.test", "team/web").as_deref(), Some("Yzpk"));
        assert_eq!(found(text, "registry.test", "teamwork").as_deref(), Some("YTpi"));
        assert_eq!(found(text, "old.test", "x").as_deref(), Some("ZTpm"));
        assert_eq!(found(text, "helped.test", "x"), None);
        assert_eq!(found(text, "registry.test.evil", "web"), None);
    }

    #[test]
    fn docker_hub_is_known_by_all_its_names() {
        for key in [
            "https://index.docker.io/v1/",
            "index.docker.io",
            "docker.io",
            "registry-1.docker.io",
            "https://registry-1.docker.io/v2/",
        ] {
            let text = format!(r#"{{ "auths": {{ "{key}": {{ "auth": "YTpi" }} }} }}"#);
            assert_eq!(found(&text, HUB, "library/alpine").as_deref(), Some("YTpi"), "{key}");
            assert_eq!(found(&text, "hub.test", "library/alpine"), None, "{key}");
        }
        // Recent Docker versions write these members beside the password.
        let text = r#"{ "auths": {
            "https://index.docker.io/v1/access-token": { "auth": "eDp4" },
            "https://index.docker.io/v1/": { "auth": "YTpi" },
            "docker.io/team": { "auth": "Yzpk" },
            "docker.io/team/web": { "auth": "ZTpm" }
        } }"#;
        assert_eq!(found(text, HUB, "library/alpine").as_deref(), Some("YTpi"));
        assert_eq!(found(text, HUB, "team/box").as_deref(), Some("Yzpk"));
        assert_eq!(found(text, HUB, "team/web").as_deref(), Some("ZTpm"));
        // Podman's own key takes precedence over Docker's, as in Podman itself.
        let text = r#"{ "auths": {
            "docker.io": { "auth": "YTpi" }, "https://index.docker.io/v1/": { "auth": "Yzpk" }
        } }"#;
        assert_eq!(found(text, HUB, "library/alpine").as_deref(), Some("YTpi"));
    }

    #[test]
    fn tokens_and_damaged_entries() {
        let text = r#"{ "auths": { "a.test": { "auth": "eDo=", "identitytoken": "t" } } }"#;
        assert_eq!(found(text, "a.test", "x").as_deref(), Some("token t"));
        let wanted = Wanted { host: "a.test", repository: "x", patience: Duration::from_secs(5) };
        for damaged in ["?", "YWI="] {
            let text = format!(r#"{{ "auths": {{ "a.test": {{ "auth": "{damaged}" }} }} }}"#);
            let error =
                of_file(text.as_bytes(), Path::new("auth.json"), wanted).expect_err(damaged);
            assert_eq!(
                error.to_string(),
                "the entry of auth.json for a.test is damaged: log in again"
            );
        }
        for text in ["", "7", r#"{ "auths": 7 }"#] {
            assert!(of_file(text.as_bytes(), Path::new("auth.json"), wanted).is_err(), "{text}");
        }
    }

    #[test]
    fn a_helper_that_is_not_there_hides_nothing() {
        let text = r#"{ "credsStore": "dayfly-nobody-has-this", "auths": { "a.test": { "auth": "YTpi" } } }"#;
        assert_eq!(found(text, "a.test", "x").as_deref(), Some("YTpi"));
        assert_eq!(found(text, "b.test", "x"), None);
    }

    #[test]
    fn files_are_looked_at_in_podmans_order() {
        let files = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(n, _)| *n == name);
            let files = usual_files(|name| find(name).map(|(_, value)| PathBuf::from(value)));
            files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        let (home, run) = (("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r"));
        assert_eq!(
            files(&[home, run]),
            [
                "/r/containers/auth.json",
                "/h/.config/containers/auth.json",
                "/h/.docker/config.json"
            ]
        );
        let user = rustix::process::getuid().as_raw();
        assert_eq!(files(&[("HOME", "")]), [format!("/run/containers/{user}/auth.json")]);
        assert_eq!(
            files(&[home, run, ("DOCKER_CONFIG", "/d")]),
            ["/d/config.json", "/h/.config/containers/auth.json"]
        );
        assert_eq!(
            files(&[home, run, ("REGISTRY_AUTH_FILE", "/a"), ("XDG_CONFIG_HOME", "/c")]),
            ["/a", "/c/containers/auth.json", "/h/.docker/config.json"]
        );
    }
}
