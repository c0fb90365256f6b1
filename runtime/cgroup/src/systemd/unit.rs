//! The systemd unit of a container, and the unit's cgroup.

use alloc::format;
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};

use crate::systemd::{Error, Instance};

/// The default prefix of unit names.
const DEFAULT_PREFIX: &str = "dayfly";
/// The maximum length of a unit's name (systemd.unit(5)).
const MAX_NAME: usize = 255;

/// A transient scope of systemd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The unit's name, `PREFIX-NAME.scope`.
    pub name: String,
    /// The slice that contains the unit.
    pub slice: String,
    /// The instance of systemd that manages the unit.
    pub instance: Instance,
}

impl Unit {
    /// Parses `linux.cgroupsPath` as `SLICE:PREFIX:NAME`. Without a path, the unit is named after the container; its
    /// slice is system.slice, or user.slice for a user's instance of systemd. An empty SLICE means the same default
    /// slice.
    ///
    /// # Errors
    /// [`Error::BadPath`] for any other form, and for names that systemd rejects.
    pub fn parse(cgroups_path: Option<&str>, id: &str, instance: Instance) -> Result<Self, Error> {
        let path = cgroups_path.unwrap_or_default();
        let bad = |reason| Error::BadPath { path: path.to_string(), reason };
        let (slice, prefix, name) = if path.is_empty() {
            ("", DEFAULT_PREFIX, id)
        } else {
            let mut parts = path.split(':');
            match (parts.next(), parts.next(), parts.next(), parts.next()) {
                (Some(slice), Some(prefix), Some(name), None) => (slice, prefix, name),
                _ => {
                    return Err(bad(
                        "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd \
                         cgroups",
                    ));
                }
            }
        };
        if name.ends_with(".slice") {
            return Err(bad("a container is a scope and cannot be a slice"));
        }
        let unit = format!("{prefix}-{name}.scope");
        if name.is_empty() || unit.len() > MAX_NAME || !unit.chars().all(is_unit_character) {
            return Err(bad("its unit would have a name that systemd does not accept"));
        }
        let slice = if slice.is_empty() { instance.default_slice() } else { slice };
        expand(slice).ok_or_else(|| bad("invalid slice name"))?;
        Ok(Self { name: unit, slice: slice.to_string(), instance })
    }

    /// Returns the path of the unit's cgroup, which is the same in each hierarchy.
    pub fn path(&self) -> String {
        let above = match &self.instance {
            Instance::User { cgroup, .. } => cgroup,
            _ => "",
        };
        format!("{above}{}/{}", expand(&self.slice).unwrap_or_default(), self.name)
    }
}

/// Returns whether systemd allows the character in unit names. Quotes and slashes are not allowed.
fn is_unit_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || ":-_.\\@".contains(c)
}

/// Returns the cgroup path of a slice. Dashes in its name separate levels: the path of `a-b.slice` is
/// `/a.slice/a-b.slice`. The path of the root slice, `-.slice`, is empty.
fn expand(slice: &str) -> Option<String> {
    let name = slice.strip_suffix(".slice").filter(|_| slice.len() <= MAX_NAME)?;
    if !name.chars().all(is_unit_character) {
        return None;
    }
    let mut path = String::new();
    if name == "-" {
        return Some(path);
    }
    let mut end = 0;
    for part in name.split('-') {
        if part.is_empty() {
            return None;
        }
        end += part.len();
        path.push('/');
        path.push_str(name.get(..end)?);
        path.push_str(".slice");
        end += 1;
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(cgroups_path: &str) -> Result<String, Error> {
        Unit::parse(Some(cgroups_path), "id", Instance::System).map(|unit| unit.path())
    }

    #[test]
    fn slices_nest_by_their_dashes() {
        for (slice, wanted) in [
            ("system.slice", Some("/system.slice")),
            ("a-b.slice", Some("/a.slice/a-b.slice")),
            ("a-b-c.slice", Some("/a.slice/a-b.slice/a-b-c.slice")),
            ("-.slice", Some("")),
            ("-a.slice", None),
            ("a--b.slice", None),
            ("a-.slice", None),
            (".slice", None),
            ("a", None),
            ("a/b.slice", None),
            ("a'b.slice", None),
        ] {
            assert_eq!(expand(slice).as_deref(), wanted, "{slice}");
        }
    }

    #[test]
    fn paths_of_engines() {
        let podman = "machine.slice:libpod:0af3";
        assert_eq!(path(podman).unwrap(), "/machine.slice/libpod-0af3.scope");
        let kubelet = "kubepods-burstable-pod7.slice:cri-containerd:9";
        assert_eq!(
            path(kubelet).unwrap(),
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice/cri-containerd-9.scope"
        );
        assert_eq!(path(":docker:x").unwrap(), "/system.slice/docker-x.scope");
        assert_eq!(path("-.slice:p:x").unwrap(), "/p-x.scope");
        assert_eq!(path("").unwrap(), "/system.slice/dayfly-id.scope");
        assert_eq!(Unit::parse(None, "id", Instance::System).unwrap().name, "dayfly-id.scope");
    }

    #[test]
    fn other_paths_are_refused() {
        let long = format!("a.slice:p:{}", "x".repeat(250));
        for bad in [
            "/a/b",
            "a",
            "a:b",
            "a.slice:b:c:d",
            "a:b:c",
            "a.slice:b:",
            "a.slice:b:c.slice",
            "a.slice:b/../..:c",
            "../a.slice:b:c",
            "a.slice:b:c'd",
            "a.slice:b:c d",
            &long,
        ] {
            assert!(matches!(path(bad), Err(Error::BadPath { .. })), "{bad}: {:?}", path(bad));
        }
    }

    proptest! {
        #[test]
        fn a_path_never_leaves_the_hierarchy(text in "[-a.:/']{0,30}") {
            if let Ok(path) = path(&text) {
                prop_assert!(path.starts_with('/') && !path.contains("//"), "{}", path);
                prop_assert!(path.split('/').all(|part| part != "." && part != ".."), "{}", path);
            }
        }
    }
}
