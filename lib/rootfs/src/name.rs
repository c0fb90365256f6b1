//! Image names as users of engines write them.
//!
//! Docker, Podman and containerd follow the same rules. The first component of a name is a registry's host if it
//! contains a dot, a colon or a capital letter, or is `localhost`. A name without a host belongs to Docker Hub, whose
//! host is `docker.io`. On Docker Hub, a name with only one component is in the namespace `library`. So `alpine`,
//! `docker.io/alpine` and `docker.io/library/alpine` are the same name. The shortest form is called familiar; a store
//! uses it as the image's name.
//!
//! All functions also accept names with a tag or a digest, because neither contains a slash.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

/// Docker Hub's host in names.
pub const HUB: &str = "docker.io";
/// Docker Hub's former host.
const OLD_HUB: &str = "index.docker.io";
/// The namespace on Docker Hub of names with only one component.
const LIBRARY: &str = "library/";

/// Splits off the registry's host, if the name has one.
fn split_host(name: &str) -> Option<(&str, &str)> {
    let (host, rest) = name.split_once('/')?;
    let is_host = host.contains(['.', ':'])
        || host == "localhost"
        || host.bytes().any(|byte| byte.is_ascii_uppercase());
    is_host.then_some((host, rest))
}

/// Splits a name into the registry's host and the repository in that registry.
#[must_use]
pub fn split(name: &str) -> (&str, Cow<'_, str>) {
    let path = match split_host(name) {
        None => name,
        Some((HUB | OLD_HUB, path)) => path,
        Some((host, path)) => return (host, Cow::Borrowed(path)),
    };
    match path.contains('/') {
        true => (HUB, Cow::Borrowed(path)),
        false => (HUB, Cow::Owned(format!("{LIBRARY}{path}"))),
    }
}

/// Returns the shortest form of a name: on Docker Hub, without the host and without `library`.
#[must_use]
pub fn familiar(name: &str) -> &str {
    let path = match split_host(name) {
        None => name,
        Some((HUB | OLD_HUB, path)) => path,
        Some(_) => return name,
    };
    let short = path.strip_prefix(LIBRARY).filter(|rest| !rest.is_empty() && !rest.contains('/'));
    let short = short.unwrap_or(path);
    // Without Docker Hub's host, the first component of this name would be interpreted as a host.
    if split_host(short).is_some() { name } else { short }
}

/// Returns the full form of a name, which all engines interpret in the same way.
#[must_use]
pub fn full(name: &str) -> String {
    let (host, path) = split(name);
    format!("{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_registry_that_engines_take_them_for() {
        for (name, host, path, short) in [
            ("alpine", "docker.io", "library/alpine", "alpine"),
            ("docker.io/alpine", "docker.io", "library/alpine", "alpine"),
            ("index.docker.io/alpine:3", "docker.io", "library/alpine:3", "alpine:3"),
            ("docker.io/library/alpine:3", "docker.io", "library/alpine:3", "alpine:3"),
            ("library/alpine", "docker.io", "library/alpine", "alpine"),
            ("docker.io/library", "docker.io", "library/library", "library"),
            ("library/a/b", "docker.io", "library/a/b", "library/a/b"),
            ("team/web", "docker.io", "team/web", "team/web"),
            ("docker.io/team/web", "docker.io", "team/web", "team/web"),
            ("a.b", "docker.io", "library/a.b", "a.b"),
            ("docker.io", "docker.io", "library/docker.io", "docker.io"),
            ("localhost/web", "localhost", "web", "localhost/web"),
            ("localhost:5000/web:1", "localhost:5000", "web:1", "localhost:5000/web:1"),
            ("[::1]:5000/web", "[::1]:5000", "web", "[::1]:5000/web"),
            ("registry.test/library/a", "registry.test", "library/a", "registry.test/library/a"),
            ("Team/web", "Team", "web", "Team/web"),
            ("docker.io/localhost/web", "docker.io", "localhost/web", "docker.io/localhost/web"),
            ("docker.io/a.b/web", "docker.io", "a.b/web", "docker.io/a.b/web"),
        ] {
            assert_eq!(split(name), (host, Cow::Borrowed(path)), "{name}");
            assert_eq!(familiar(name), short, "{name}");
            // The stored form has the same meaning as the given one.
            assert_eq!(split(short), (host, Cow::Borrowed(path)), "{short}");
            assert_eq!(full(name), format!("{host}/{path}"), "{name}");
            assert_eq!(familiar(&full(name)), short, "{name}");
        }
    }

    #[test]
    fn what_is_no_name_is_left_alone() {
        for name in
            ["", "/", "docker.io/", "docker.io//x", "docker.io/library/", "library/", "a//b"]
        {
            let short = familiar(name);
            assert_eq!(split(short), split(name), "{name:?}");
        }
    }
}
