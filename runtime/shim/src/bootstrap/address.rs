//! The address of the shim that serves a group. As with containerd's own shims, it is computed from the group's name.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use sys::sha256;

/// The directory of the sockets, if containerd does not specify one.
pub const SOCKETS: &str = "/run/containerd/s";
/// The prefix of an address, before the socket's path.
pub const SCHEME: &str = "unix://";
/// The length of a socket's file name, which is a digest in hexadecimal.
const NAME: usize = 64;

/// Returns the path of the socket of the group `group`, in the namespace `namespace` of the containerd whose socket is
/// `containerd`. If `directory` is missing or empty, the socket is in [`SOCKETS`].
pub fn path(directory: Option<&str>, containerd: &str, namespace: &str, group: &str) -> String {
    let directory = directory.filter(|path| !path.is_empty()).unwrap_or(SOCKETS);
    let digest = sha256::digest(join(&[containerd, namespace, group]).as_bytes());
    let mut path = format!("{directory}/");
    for byte in digest {
        let _ = write!(path, "{byte:02x}");
    }
    path
}

/// Returns the directory and the file name of a shim's socket, if `address` has the form of such a socket's address.
pub fn parse(address: &str) -> Option<(&str, &str)> {
    let (directory, name) = address.trim_ascii().strip_prefix(SCHEME)?.rsplit_once('/')?;
    let is_digest = name.len() == NAME && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (directory.starts_with('/') && is_digest).then_some((directory, name))
}

/// Joins paths as Go's path/filepath.Join does: removes empty components and `.`, and resolves `..`.
fn join(parts: &[&str]) -> String {
    let mut parts = parts.iter().filter(|part| !part.is_empty()).peekable();
    let Some(first) = parts.peek() else { return String::new() };
    let is_absolute = first.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for name in parts.flat_map(|part| part.split('/')) {
        match name {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if is_absolute => {}
            _ => kept.push(name),
        }
    }
    match (is_absolute, kept.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => String::from("."),
        (false, path) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are the results of `filepath.Join` in Go 1.26.
    #[test]
    fn joined_as_go_does() {
        let cases: [(&[&str], &str); 9] = [
            (
                &["/run/containerd/containerd.sock", "k8s.io", "a"],
                "/run/containerd/containerd.sock/k8s.io/a",
            ),
            (&["", "ns", "a"], "ns/a"),
            (&["/a//b/", "./c", "../d"], "/a/b/d"),
            (&["/a", "..", "../.."], "/"),
            (&["a", "..", "../b"], "../b"),
            (&["a", ".."], "."),
            (&["", ""], ""),
            (&["/", "x"], "/x"),
            (&["", "/x"], "/x"),
        ];
        for (parts, joined) in cases {
            assert_eq!(join(parts), joined, "{parts:?}");
        }
    }

    /// The expected digest is the output of `printf %s /run/containerd/containerd.sock/default/web | sha256sum`.
    #[test]
    fn named_as_containerd_does() {
        let digest = "2cde4450fa38c74f53603e01d2afd903b315a27a596f12a151414cd59897d883";
        let path = path(None, "/run/containerd/containerd.sock", "default", "web");
        assert_eq!(path, format!("{SOCKETS}/{digest}"));
        let other = super::path(Some("/x"), "/run/containerd/containerd.sock", "default", "web");
        assert_eq!(parse(&format!("unix://{other}\n")), Some(("/x", digest)));
    }

    #[test]
    fn only_sockets_of_shims() {
        for address in
            ["", "unix:///run/containerd/containerd.sock", "/x", "vsock://3:4", "unix://a"]
        {
            assert_eq!(parse(address), None, "{address}");
        }
    }
}
