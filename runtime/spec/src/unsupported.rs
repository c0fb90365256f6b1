//! Properties of the specification that dayfly does not support.
//!
//! Such a property is refused by name: if it were ignored, the container would not be as configured. Remove a property
//! from this list when it is implemented.

use crate::config::Spec;
use crate::invalid::{Invalid, invalid};

/// Refuses unsupported properties in a configuration.
pub(crate) fn refuse(spec: &Spec<'_>) -> Result<(), Invalid> {
    // A new property of the specification has to be put on one of the two sides.
    let Spec {
        oci_version: _,
        process: _,
        root: _,
        hostname: _,
        domainname: _,
        mounts: _,
        hooks: _,
        annotations: _,
        linux: _,
        vm,
        solaris,
        windows,
        zos,
        freebsd,
    } = spec;
    let unsupported = [
        ("vm", vm),
        ("solaris", solaris),
        ("windows", windows),
        ("zos", zos),
        ("freebsd", freebsd),
    ];
    match unsupported.into_iter().find(|(_, section)| section.is_some()) {
        Some((name, _)) => Err(invalid!("{name} is not supported yet by dayfly")),
        None => Ok(()),
    }
}
