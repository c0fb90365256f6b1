//! Annotations of containers: names, and warnings of those that name dayfly or crun and have no effect.

use alloc::format;
use alloc::string::String;

use spec::Spec;

use crate::{checkpoint, image, template, tracing};

/// The annotation that chooses where the root filesystem is mounted: with `host`, in the bundle's directory, where the
/// host's processes see it.
pub const PLACE: &str = "run.dayfly.rootfs";
/// The annotation equivalent to `--pin`.
pub(crate) const PIN: &str = "run.dayfly.pin";
/// The annotation equivalent to `--pool`, and its former name.
pub(crate) const POOL: [&str; 2] = ["run.dayfly.pool", "run.dayfly.tier"];

/// dayfly's annotations, and the only value that has an effect, if there is only one.
const OWN: [(&str, Option<&str>); 11] = [
    (checkpoint::ANNOTATION, None),
    (image::NAME, None),
    (image::SECCOMP, Some("none")),
    (PIN, None),
    (POOL[0], None),
    (POOL[1], None),
    (PLACE, Some("host")),
    (template::ANNOTATION, None),
    (template::FORKED, None),
    (template::FOR, None),
    (tracing::ANNOTATION, None),
];
/// The beginning of the names of dayfly's annotations.
const PREFIX: &str = "run.dayfly.";
/// The beginning of the names of crun's annotations.
const CRUN: &str = "run.oci.";
/// crun's annotation for SELinux labels of mounts. Podman sets it for every container.
const CONTEXT: &str = "run.oci.mount_context_type";

/// Returns whether the configuration has the annotation `KEY=VALUE`.
pub(crate) fn has(spec: &Spec<'_>, pair: &str) -> bool {
    pair.split_once('=').is_some_and(|(key, value)| {
        spec.annotations.get(key).is_some_and(|found| found.as_str() == value)
    })
}

/// Returns warnings of annotations without effect. An empty value of an annotation asks for nothing.
pub(crate) fn without_effect<'a>(spec: &'a Spec<'_>) -> impl Iterator<Item = String> + 'a {
    let pairs = spec.annotations.iter().map(|(name, value)| (&**name, &**value));
    pairs.filter(|(name, value)| !value.is_empty() && name.starts_with("run.")).filter_map(warning)
}

#[cold]
fn warning((name, value): (&str, &str)) -> Option<String> {
    if name.starts_with(CRUN) && ![plan::KEEP_GROUPS, CONTEXT].contains(&name) {
        return Some(format!("annotation {name} has no effect: dayfly does not support it"));
    }
    if !name.starts_with(PREFIX) {
        return None;
    }
    match OWN.iter().find(|(own, _)| *own == name) {
        None => Some(format!("annotation {name} has no effect: dayfly has none of this name")),
        Some((_, Some(only))) if *only != value => {
            Some(format!("annotation {name}={value} has no effect: the value would be {only}"))
        }
        Some(_) => None,
    }
}
