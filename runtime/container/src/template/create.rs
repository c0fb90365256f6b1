//! A container that becomes a template.

use alloc::format;
use alloc::string::{String, ToString};

use plan::Caller;
use rustix::fd::RawFd;
use spec::{NamespaceKind, Spec};

use super::{FOR, VARIABLE, cgroups, find};
use crate::{CgroupDriver, CreateOptions, Error};

/// The number of starts that may wait for a template at the same time.
pub(crate) const BACKLOG: i32 = 128;

/// Turns the configuration of a container into that of a template for such containers: the program is root of its user
/// namespace with all capabilities there, since a child can only give capabilities up. It has neither a filter nor
/// no_new_privs, because both are inherited and cannot be taken back. The children get what the configuration says.
///
/// # Errors
/// If the configuration lacks a namespace that a template needs, or asks for a terminal.
pub(crate) fn prepare(
    spec: &mut Spec<'_>,
    options: &CreateOptions<'_>,
    allowed: Option<&str>,
) -> Result<(), Error> {
    if Caller::probe(None).is_confined() {
        return Err(Error::text("a template can be made only by root of the host"));
    }
    if let Some(lack) = find::lack() {
        return Err(Error::text(format!("a template {lack}")));
    }
    let linux = spec.linux.as_mut().ok_or_else(|| lacks("user"))?;
    for (kind, name) in [
        (NamespaceKind::User, "user"),
        (NamespaceKind::Pid, "pid"),
        (NamespaceKind::Mount, "mount"),
    ] {
        if linux.namespace(kind).is_none_or(|namespace| namespace.path.is_some()) {
            return Err(lacks(name));
        }
    }
    if let Some(reason) = find::maps_root(linux) {
        return Err(Error::text(format!("a template {reason}")));
    }
    linux.seccomp = None;
    linux.cgroups_path = match options.cgroup_driver {
        CgroupDriver::Cgroupfs => {
            let configured = linux.cgroups_path.as_deref();
            Some(cgroups::of_template(configured, options.id).into())
        }
        // The path in the configuration is that of a container.
        CgroupDriver::Systemd | CgroupDriver::Disabled => None,
    };
    // With the mount option nsdelegate, a process cannot fork into a cgroup outside its cgroup namespace.
    linux.namespaces.retain(|namespace| namespace.kind != NamespaceKind::Cgroup);
    if let Some(allowed) = allowed {
        if !allowed.contains('=') {
            return Err(Error::text("--for: must be KEY=VALUE, an annotation of containers"));
        }
        spec.annotations.insert(FOR.into(), allowed.to_string().into());
    }
    let Some(process) = &mut spec.process else { return Ok(()) };
    if process.terminal {
        return Err(Error::text("a template has no terminal: set process.terminal to false"));
    }
    process.user.uid = 0;
    process.user.gid = 0;
    process.user.additional_gids.clear();
    process.no_new_privileges = false;
    let labels = [&process.apparmor_profile, &process.selinux_label];
    if labels.iter().any(|label| label.as_ref().is_some_and(|label| !label.is_empty())) {
        return Err(Error::text(
            "a template has neither an AppArmor profile nor an SELinux label: remove them from process",
        ));
    }
    process.capabilities = None;
    Ok(())
}

fn lacks(name: &str) -> Error {
    Error::text(format!(
        "a template needs a new {name} namespace: add {{\"type\": {name:?}}} to linux.namespaces"
    ))
}

/// Returns the environment entry that tells the program the number of the socket, which is the same in init.
pub(crate) fn variable(socket: RawFd) -> String {
    format!("{VARIABLE}={socket}")
}
