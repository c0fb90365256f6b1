//! /etc/hostname, /etc/hosts and /etc/resolv.conf of a container that runs an image.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rootfs::EtcFile;
use rustix::fs::CWD;
use spec::Spec;
use sys::fs::{Owned, read_owned_at};

use super::Network;

/// The maximum size in bytes of a copied host file.
const LONGEST: usize = 1 << 16;
const LOCALHOST: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Returns the files to create: those that no mount covers, neither at their path nor at /etc. In the host's network,
/// names are resolved by the host's files. In a joined network, resolv.conf lists only those of the host's name servers
/// that are not on its loopback device. Without a network, there is no resolv.conf.
pub(super) fn files(name: &str, network: Network<'_>, spec: &Spec<'_>) -> Vec<EtcFile> {
    let resolver = match network {
        Network::None => None,
        Network::Host => of_host("/etc/resolv.conf"),
        Network::Join(_) => of_host("/etc/resolv.conf").map(|text| reachable(&text)),
    };
    let hosts = match network {
        Network::Host => of_host("/etc/hosts"),
        Network::None | Network::Join(_) => None,
    };
    let hosts = with_name(hosts.as_deref().unwrap_or(LOCALHOST), name);
    let all = [
        ("hostname", Some(format!("{name}\n"))),
        ("hosts", Some(hosts)),
        ("resolv.conf", resolver),
    ];
    let is_free = |file: &str| {
        let path = format!("/etc/{file}");
        !spec.mounts.iter().any(|mount| mount.destination == "/etc" || *mount.destination == *path)
    };
    all.into_iter()
        .filter(|(file, _)| is_free(file))
        .filter_map(|(file, text)| Some(EtcFile { name: CString::new(file).ok()?, text: text? }))
        .collect()
}

/// Returns the text of a host file; `None` if it is missing, too long or not UTF-8.
fn of_host(path: &str) -> Option<String> {
    // The file itself may be behind a link.
    let path = rustix::fs::readlinkat(CWD, path, Vec::new())
        .ok()
        .and_then(|target| {
            let target = target.into_string().ok()?;
            Some(if target.starts_with('/') { target } else { format!("/etc/{target}") })
        })
        .unwrap_or_else(|| String::from(path));
    match read_owned_at(CWD, path.as_str(), |_| true, LONGEST) {
        Ok(Owned::Read(bytes)) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Returns `hosts` with a line for the container's name and the part of it before the first dot.
fn with_name(hosts: &str, name: &str) -> String {
    let end = if hosts.ends_with('\n') || hosts.is_empty() { "" } else { "\n" };
    match name.split_once('.') {
        Some((first, _)) if !first.is_empty() => format!("{hosts}{end}127.0.1.1\t{name} {first}\n"),
        _ => format!("{hosts}{end}127.0.1.1\t{name}\n"),
    }
}

/// Returns `resolver` without name servers on the host's loopback device, since another network has its own loopback
/// device.
fn reachable(resolver: &str) -> String {
    let is_local = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some("nameserver")
            && words.next().is_some_and(|address| address.starts_with("127.") || address == "::1")
    };
    let mut text = String::new();
    for line in resolver.lines().filter(|line| !is_local(line)) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::{InRoot, Mount};

    #[test]
    fn hosts_have_the_name() {
        assert_eq!(with_name("1.2.3.4 a", "web"), "1.2.3.4 a\n127.0.1.1\tweb\n");
        assert_eq!(with_name("", "web.test"), "127.0.1.1\tweb.test web\n");
    }

    #[test]
    fn servers_of_the_loopback_device_are_left_out() {
        let text = "search test\nnameserver 127.0.0.53\nnameserver ::1\nnameserver 9.9.9.9";
        assert_eq!(reachable(text), "search test\nnameserver 9.9.9.9\n");
    }

    #[test]
    fn nothing_below_a_mount() {
        let mut spec = Spec::default();
        let names = |spec: &Spec<'_>| {
            let all = files("web", Network::None, spec).into_iter();
            all.map(|file| file.name.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(&spec), ["hostname", "hosts"]);
        let on = |place| Mount { destination: InRoot::known(place), ..Mount::default() };
        spec.mounts.push(on("/etc/hosts"));
        assert_eq!(names(&spec), ["hostname"]);
        spec.mounts.push(on("/etc"));
        assert_eq!(names(&spec), [""; 0]);
    }
}
