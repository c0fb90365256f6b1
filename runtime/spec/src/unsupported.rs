//! Properties of the specification that dayfly does not support.
//!
//! Such a property is refused by name: if it were ignored, the container would not be as configured. Remove a property
//! from this list when it is implemented.
use crate::config::Spec;
use crate::invalid::Invalid;

/// A property's name, and a function that returns whether the property is set.
type Property = (&'static str, fn(&Spec<'_>) -> bool);

const UNSUPPORTED: [Property; 5] = [
    ("vm", |spec| spec.vm.is_some()),
    ("solaris", |spec| spec.solaris.is_some()),
    ("windows", |spec| spec.windows.is_some()),
    ("zos", |spec| spec.zos.is_some()),
    ("freebsd", |spec| spec.freebsd.is_some()),
];

/// Refuses unsupported properties in a configuration.
pub(crate) fn refuse(spec: &Spec<'_>) -> Result<(), Invalid> {
    match UNSUPPORTED.iter().find(|(_, is_set)| is_set(spec)) {
        Some((name, _)) => Err(Invalid::Unsupported(name)),
        None => Ok(()),
    }
}
