//! The id mappings of a container in a user namespace. criu restores the mappings in the images,
//! and the files of the root filesystem belong to the ids of the configuration's mappings, so the
//! two must be equal.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::criu::{IdExtent, UserNamespace};
use spec::{IdMapping, NamespaceKind, Spec};

use crate::Error;
use crate::options::{LayeredOptions, UserNamespace as Mapped};

/// Refuses images whose id mappings differ from those of the configuration. The mappings of a joined user namespace are
/// not in the configuration.
///
/// # Errors
/// The error contains both mappings.
pub(super) fn check(saved: Option<&UserNamespace>, spec: &Spec<'_>) -> Result<(), Error> {
    let linux = spec.linux.as_ref();
    let namespace = linux.and_then(|linux| linux.namespace(NamespaceKind::User));
    let wanted = namespace.zip(linux).map(|(namespace, linux)| {
        (namespace.path.is_some(), [&linux.uid_mappings[..], &linux.gid_mappings[..]])
    });
    match (saved, wanted) {
        (None, None) | (Some(_), Some((true, _))) => Ok(()),
        (Some(saved), Some((false, wanted))) => {
            let kinds = [("user", &saved.uid_map), ("group", &saved.gid_map)];
            for ((kind, saved), wanted) in kinds.into_iter().zip(wanted) {
                let saved: Vec<_> = saved.iter().map(of_image).collect();
                let wanted: Vec<_> = wanted.iter().map(of_configuration).collect();
                if sorted(&saved) != sorted(&wanted) {
                    return Err(Error::Text(format!(
                        "the checkpoint has the {kind} id mappings {}, the configuration has {}: \
                         a restore requires the same mappings",
                        text(&saved),
                        text(&wanted)
                    )));
                }
            }
            Ok(())
        }
        (Some(_), None) => Err(Error::text(
            "the checkpoint is of a container in a user namespace, and the configuration has none",
        )),
        (None, Some(_)) => Err(Error::text(
            "the configuration has a user namespace, and the checkpoint is of a container without one",
        )),
    }
}

/// Returns the options for layers, changed so that the container gets the saved range of ids
/// instead of a free range.
pub(super) fn with_saved_range<'a>(
    options: &LayeredOptions<'a>,
    saved: Option<&UserNamespace>,
) -> LayeredOptions<'a> {
    let first = saved.and_then(|saved| saved.uid_map.first()).map(|extent| extent.lower_first);
    match (options.user_namespace, first) {
        (Mapped::Auto, Some(first)) => {
            LayeredOptions { user_namespace: Mapped::Range(first), ..options.clone() }
        }
        _ => options.clone(),
    }
}

/// The first id in the container, the first id on the host, and the number of ids.
type Line = (u32, u32, u32);

fn of_image(extent: &IdExtent) -> Line {
    (extent.first, extent.lower_first, extent.count)
}

fn of_configuration(map: &IdMapping) -> Line {
    (map.container_id, map.host_id, map.size)
}

fn sorted(lines: &[Line]) -> Vec<Line> {
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    lines
}

fn text(lines: &[Line]) -> String {
    let lines: Vec<String> =
        lines.iter().map(|(first, host, count)| format!("{first}:{host}:{count}")).collect();
    if lines.is_empty() { "none".to_string() } else { lines.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(linux: &str) -> String {
        format!(r#"{{"ociVersion": "1.2.0", "linux": {{{linux}}}}}"#)
    }

    #[test]
    fn the_same_mappings_only() {
        let map = |lower_first| Vec::from([IdExtent { first: 0, lower_first, count: 10 }]);
        let saved = UserNamespace { uid_map: map(100), gid_map: map(200) };
        let maps = r#""uidMappings": [{"containerID": 0, "hostID": 100, "size": 10}],
            "gidMappings": [{"containerID": 0, "hostID": 200, "size": 10}]"#;
        let own = spec(&format!(r#"{maps}, "namespaces": [{{"type": "user"}}]"#));
        let joined = spec(r#""namespaces": [{"type": "user", "path": "/x"}]"#);
        let none = spec("");
        let read = |text| serde_json::from_str::<Spec<'_>>(text).unwrap();
        check(Some(&saved), &read(&own)).unwrap();
        check(Some(&saved), &read(&joined)).unwrap();
        check(None, &read(&none)).unwrap();
        assert!(check(Some(&saved), &read(&none)).is_err());
        assert!(check(None, &read(&own)).is_err());
        let other = UserNamespace { gid_map: map(300), ..saved };
        let error = check(Some(&other), &read(&own)).unwrap_err().to_string();
        assert!(
            error.contains("group id mappings 0:300:10") && error.contains("0:200:10"),
            "{error}"
        );
    }
}
