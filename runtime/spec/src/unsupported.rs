//! What the specification knows and dayfly does not do.
//!
//! Such a property is refused by name: to ignore it would give a container that
//! is not what its author asked for. A feature that gets done leaves this list.
use crate::config::Spec;
use crate::invalid::Invalid;

/// A property's name, and how to see that it is set.
type Property = (&'static str, fn(&Spec<'_>) -> bool);

const UNSUPPORTED: [Property; 5] = [
    ("vm", |spec| spec.vm.is_some()),
    ("solaris", |spec| spec.solaris.is_some()),
    ("windows", |spec| spec.windows.is_some()),
    ("zos", |spec| spec.zos.is_some()),
    ("freebsd", |spec| spec.freebsd.is_some()),
];

/// Refuses what a configuration asks for.
pub(crate) fn refuse(spec: &Spec<'_>) -> Result<(), Invalid> {
    match UNSUPPORTED.iter().find(|(_, is_set)| is_set(spec)) {
        Some((name, _)) => Err(Invalid::Unsupported(name)),
        None => Ok(()),
    }
}
