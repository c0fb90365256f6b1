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
use super::settings::Settings;

/// The largest size in bytes of a copied file.
const LONGEST: usize = 1 << 16;
const LOCALHOST: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Returns the files. A file is left out if a mount covers the file or /etc. With the host's network, /etc/hosts and
/// /etc/resolv.conf are based on the host's files. With another network namespace, /etc/resolv.conf contains the host's
/// name servers without those on the loopback device. If all name servers of the host are on the loopback device,
/// /etc/resolv.conf contains the name servers that systemd-resolved forwards to. Without a network, /etc/resolv.conf is
/// not among the files. `settings` can add lines to /etc/hosts, and replace /etc/resolv.conf.
pub(super) fn files(
    name: &str,
    network: Network<'_>,
    settings: &Settings<'_>,
    spec: &Spec<'_>,
) -> Vec<EtcFile> {
    let resolver = match network {
        _ if settings.resolver.is_some() => settings.resolver.clone(),
        Network::None => None,
        Network::Host => of_host("/etc/resolv.conf"),
        Network::Join(_) | Network::Bridge(_) => of_host("/etc/resolv.conf")
            .map(|text| elsewhere(&text, || of_host("/run/systemd/resolve/resolv.conf"))),
    };
    let hosts = match network {
        Network::Host => of_host("/etc/hosts"),
        Network::None | Network::Join(_) | Network::Bridge(_) => None,
    };
    let mut hosts = with_name(hosts.as_deref().unwrap_or(LOCALHOST), name);
    hosts.push_str(&settings.hosts);
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

/// Reads a file of the host. Returns `None` if it is missing, too long, or not UTF-8.
fn of_host(path: &str) -> Option<String> {
    // The file may be a symbolic link.
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

/// Adds a line with the container's name to `hosts`. If the name contains a dot, the line also contains the part before
/// the dot.
fn with_name(hosts: &str, name: &str) -> String {
    let end = if hosts.ends_with('\n') || hosts.is_empty() { "" } else { "\n" };
    match name.split_once('.') {
        Some((first, _)) if !first.is_empty() => format!("{hosts}{end}127.0.1.1\t{name} {first}\n"),
        _ => format!("{hosts}{end}127.0.1.1\t{name}\n"),
    }
}

/// Returns the content of /etc/resolv.conf for a network namespace other than the host's. `resolved` returns the name
/// servers that systemd-resolved, a server on the loopback device, forwards to (systemd-resolved(8)).
fn elsewhere(host: &str, resolved: impl FnOnce() -> Option<String>) -> String {
    let text = reachable(host);
    if has_servers(&text) {
        return text;
    }
    resolved().map(|servers| reachable(&servers)).filter(|text| has_servers(text)).unwrap_or(text)
}

fn has_servers(resolver: &str) -> bool {
    resolver.lines().any(|line| line.split_ascii_whitespace().next() == Some("nameserver"))
}

/// Removes name servers on the loopback device, which is a different device in other network namespaces.
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
        assert_eq!(elsewhere(text, || panic!("not needed")), "search test\nnameserver 9.9.9.9\n");
    }

    #[test]
    fn the_servers_behind_systemd_resolved() {
        let stub = "# a stub\nnameserver 127.0.0.53\noptions edns0\n";
        let servers = || Some("nameserver 192.0.2.1\nsearch test\n".into());
        assert_eq!(elsewhere(stub, servers), "nameserver 192.0.2.1\nsearch test\n");
        assert_eq!(elsewhere("", servers), "nameserver 192.0.2.1\nsearch test\n");
        let left = "# a stub\noptions edns0\n";
        assert_eq!(elsewhere(stub, || None), left);
        assert_eq!(elsewhere(stub, || Some("nameserver 127.0.0.1\n".into())), left);
    }

    #[test]
    fn nothing_below_a_mount() {
        let mut spec = Spec::default();
        let names = |spec: &Spec<'_>| {
            let all = files("web", Network::None, &Settings::default(), spec).into_iter();
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
