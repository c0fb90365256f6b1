//! Trusted certificate authorities: this host's, and those in Docker's and Podman's directories for a single registry
//! (containers-certs.d(5)).

use crate::error::{Error, Result, bail, if_there};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

/// Returns the trusted authorities for `host`.
///
/// # Errors
/// A file in the registry's directory cannot be read or contains no certificate.
pub fn roots(host: &str) -> Result<RootCerts> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let mut own = Vec::new();
    for directory in directories(host, home.as_deref()) {
        own.extend(certificates(&directory)?);
    }
    if own.is_empty() {
        return Ok(RootCerts::PlatformVerifier);
    }
    // Unreadable certificates of the host cause an error only if they are needed.
    let hosts = rustls_native_certs::load_native_certs().certs;
    own.extend(hosts.iter().map(|der| Certificate::from_der(der).to_owned()));
    Ok(RootCerts::new_with_certs(&own))
}

fn directories(host: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let all = ["/etc/docker/certs.d", "/etc/containers/certs.d"].map(PathBuf::from);
    let own = home.map(|home| home.join(".config/containers/certs.d"));
    all.into_iter().chain(own).map(|directory| directory.join(host)).collect()
}

/// Reads the certificates in a directory's `*.crt` files.
fn certificates(directory: &Path) -> Result<Vec<Certificate<'static>>> {
    let entries = match fs::read_dir(directory) {
        // Directories that only root may read are ignored for other users.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        entries => if_there(entries).map_err(Error::at("read", directory))?,
    };
    let mut all = Vec::new();
    for entry in entries.into_iter().flatten() {
        let path = entry.map_err(Error::at("read", directory))?.path();
        if path.extension().is_none_or(|end| end != "crt") {
            continue;
        }
        let text = fs::read(&path).map_err(Error::at("read", &path))?;
        let before = all.len();
        all.extend(parse_pem(&text).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        }));
        if all.len() == before {
            let path = path.display();
            bail!("{path} contains no certificate in PEM format");
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registrys_directory_is_read() {
        assert_eq!(
            directories("a.test:5000", Some(Path::new("/h"))),
            [
                "/etc/docker/certs.d/a.test:5000",
                "/etc/containers/certs.d/a.test:5000",
                "/h/.config/containers/certs.d/a.test:5000"
            ]
            .map(PathBuf::from)
        );
        let directory = env::temp_dir().join(format!("dayfly-trust-{}", std::process::id()));
        assert!(certificates(&directory).expect("nothing").is_empty());
        fs::create_dir(&directory).expect("make");
        fs::write(directory.join("client.key"), "no certificate").expect("write");
        assert!(certificates(&directory).expect("other files").is_empty());
        fs::write(directory.join("ca.crt"), "no certificate").expect("write");
        let error = certificates(&directory).expect_err("damaged").to_string();
        assert!(error.contains("ca.crt contains no certificate"), "{error}");
        fs::remove_dir_all(directory).expect("remove");
    }
}
