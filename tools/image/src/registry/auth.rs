//! Names and passwords, from the files that `podman login` and `docker login` write (containers-auth.json(5)).
//!
//! Credential helpers are not asked: where the file has only the name of one, the registry is asked without.

use crate::error::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A name and a password, as they are sent.
#[derive(Clone)]
pub struct Credentials(String);

impl Credentials {
    /// The value of `Authorization`.
    #[must_use]
    pub fn basic(&self) -> String {
        format!("Basic {}", self.0)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Login>,
}

#[derive(Deserialize)]
struct Login {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// Those for a repository of the registry `host`: from `file`, else from the first of the usual files that
/// has some.
///
/// # Errors
/// A file that was named and cannot be read; one that is not of the form.
pub fn find(host: &str, repository: &str, file: Option<&Path>) -> Result<Option<Credentials>> {
    if let Some(file) = file {
        let text = fs::read(file).map_err(Error::at("read", file))?;
        return of_file(&text, file, host, repository);
    }
    for file in usual_files() {
        match fs::read(&file) {
            Ok(text) => {
                if let Some(found) = of_file(&text, &file, host, repository)? {
                    return Ok(Some(found));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::at("read", &file)(error)),
        }
    }
    Ok(None)
}

fn usual_files() -> Vec<PathBuf> {
    let path = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = path("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let run = path("XDG_RUNTIME_DIR").map(|run| run.join("containers/auth.json"));
    let home = path("HOME");
    let config = path("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let docker = path("DOCKER_CONFIG").or_else(|| home.map(|home| home.join(".docker")));
    run.into_iter()
        .chain(config.map(|config| config.join("containers/auth.json")))
        .chain(docker.map(|docker| docker.join("config.json")))
        .collect()
}

fn of_file(text: &[u8], path: &Path, host: &str, repository: &str) -> Result<Option<Credentials>> {
    let file: File = crate::oci::parse(text, &path.display().to_string())?;
    let full = format!("{host}/{repository}");
    // The longest key that fits: a repository, a part of its path, the host.
    let fitting = file.auths.iter().filter_map(|(key, login)| {
        let key = key.trim_start_matches("https://").trim_start_matches("http://");
        let key = key.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/v2");
        let rest = full.strip_prefix(key)?;
        (rest.is_empty() || rest.starts_with('/')).then_some((key.len(), login))
    });
    let Some((_, login)) = fitting.max_by_key(|(length, _)| *length) else { return Ok(None) };
    let encoded = match (&login.auth, &login.username, &login.password) {
        (Some(auth), ..) if !auth.is_empty() => {
            STANDARD.decode(auth).ok().filter(|plain| plain.contains(&b':')).ok_or_else(|| {
                Error::Unfit(format!(
                    "the entry of {} for {host} is damaged: log in again",
                    path.display()
                ))
            })?;
            auth.clone()
        }
        (_, Some(name), Some(password)) => STANDARD.encode(format!("{name}:{password}")),
        _ => return Ok(None),
    };
    Ok(Some(Credentials(encoded)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, host: &str, repository: &str) -> Option<String> {
        of_file(text.as_bytes(), Path::new("auth.json"), host, repository)
            .expect("file")
            .map(|credentials| credentials.basic())
    }

    #[test]
    fn the_longest_key_that_fits_counts() {
        let text = r#"{ "auths": {
            "registry.test": { "auth": "YTpi" },
            "registry.test/team": { "username": "c", "password": "d" },
            "https://old.test/v1/": { "auth": "ZTpm" },
            "helped.test": {}
        } }"#;
        assert_eq!(found(text, "registry.test", "web").as_deref(), Some("Basic YTpi"));
        assert_eq!(found(text, "registry.test", "team/web").as_deref(), Some("Basic Yzpk"));
        assert_eq!(found(text, "registry.test", "teamwork").as_deref(), Some("Basic YTpi"));
        assert_eq!(found(text, "old.test", "x").as_deref(), Some("Basic ZTpm"));
        assert_eq!(found(text, "helped.test", "x"), None);
        assert_eq!(found(text, "registry.test.evil", "web"), None);
    }
}
