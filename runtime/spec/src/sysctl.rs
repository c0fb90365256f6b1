//! Kernel parameters: the syntax of their names, and which parameters a container may set.
//!
//! /proc/sys is only partly namespaced. A parameter that does not belong to one of the container's own namespaces is
//! refused, since it would be changed for the host. Source: runc's rules.

use alloc::string::String;

use crate::config::Spec;
use crate::invalid::{Invalid, invalid};
use crate::kinds::NamespaceKind;
use crate::linux::Linux;
use crate::text::Str;

/// Parameters of System V IPC, which belong to the ipc namespace.
const IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Returns the parameter's file below /proc/sys.
///
/// The first separator in a name decides whether dots or slashes separate its components (sysctl(8)). In a name with
/// slashes, dots are ordinary characters; in a name with dots, a slash stands for a dot within a component. So
/// `net/ipv4/conf/eth0.1/forwarding` and `net.ipv4.conf.eth0/1.forwarding` are the same parameter.
pub fn path(name: &str) -> String {
    if has_slashes(name) { name.into() } else { swap_separators(name) }
}

/// Returns the error to report if a joined namespace of type `kind` turns out to be the host's own: the configuration
/// alone does not show this, and the configured parameters would be changed for the host. Returns `None` if the
/// configuration sets no parameter that belongs to this type of namespace.
pub fn refused_of_host(linux: &Linux<'_>, kind: NamespaceKind) -> Option<Invalid> {
    let mut names = linux.sysctl.keys().map(|name| dotted(name));
    match kind {
        NamespaceKind::Network | NamespaceKind::Ipc => {
            names.find(|name| owner(name) == Some(kind)).map(|name| refused(&name))
        }
        _ => None,
    }
}

/// Returns the type of namespace to which a parameter belongs.
fn owner(name: &str) -> Option<NamespaceKind> {
    match name {
        "kernel.domainname" | "kernel.hostname" => Some(NamespaceKind::Uts),
        _ if is_ipc(name) => Some(NamespaceKind::Ipc),
        _ if name.starts_with("net.") => Some(NamespaceKind::Network),
        // Without a user namespace of its own, a container would set the host's limits on namespaces.
        _ if name.starts_with("user.") => Some(NamespaceKind::User),
        _ => None,
    }
}

fn is_ipc(name: &str) -> bool {
    IPC.contains(&name) || name.starts_with("fs.mqueue.")
}

/// Checks that every parameter belongs to a namespace of the container.
pub(crate) fn validate(linux: &Linux<'_>) -> Result<(), Invalid> {
    for name in linux.sysctl.keys() {
        // `net.//.x` would be the file net/../x, so names with adjacent separators are refused.
        if path(name).split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid!("sysctl {name:?} is not a valid name"));
        }
        allow(&dotted(name), |kind| linux.namespace(kind).is_some())?;
    }
    Ok(())
}

/// Checks that the parameter `kernel.domainname`, which is written last, does not undo the property `domainname`.
pub(crate) fn validate_domainname(spec: &Spec<'_>) -> Result<(), Invalid> {
    let (Some(domainname), Some(linux)) = (&spec.domainname, &spec.linux) else { return Ok(()) };
    let differs = |(name, value): &(&Str<'_>, &Str<'_>)| {
        dotted(name) == "kernel.domainname" && *value != domainname
    };
    match linux.sysctl.iter().find(differs) {
        Some(_) => Err(conflicting("kernel.domainname", "domainname")),
        None => Ok(()),
    }
}

/// Refuses a parameter unless it belongs to a namespace of the container. The components of `name` are separated by
/// dots; `has` returns whether the container has a namespace of a given type.
fn allow(name: &str, has: impl Fn(NamespaceKind) -> bool) -> Result<(), Invalid> {
    match owner(name) {
        Some(kind) if has(kind) && name == "kernel.hostname" => Err(conflicting(name, "hostname")),
        Some(kind) if has(kind) => Ok(()),
        _ => Err(refused(name)),
    }
}

/// Returns the error for a parameter that would be changed for the host.
fn refused(name: &str) -> Invalid {
    match owner(name) {
        Some(NamespaceKind::Ipc) => {
            invalid!("sysctl {name:?} is not allowed in the hosts ipc namespace")
        }
        Some(NamespaceKind::Network) => {
            invalid!("sysctl {name:?} not allowed in host network namespace")
        }
        Some(NamespaceKind::User) => {
            invalid!("setting ucounts without a user namespace not allowed: {name}")
        }
        _ => invalid!("sysctl {name:?} is not in a separate kernel namespace"),
    }
}

fn conflicting(name: &str, field: &str) -> Invalid {
    invalid!("sysctl {name:?} is not allowed as it conflicts with the OCI {field:?} field")
}

fn has_slashes(name: &str) -> bool {
    name.chars().find(|c| matches!(c, '.' | '/')) == Some('/')
}

fn dotted(name: &str) -> String {
    if has_slashes(name) { swap_separators(name) } else { name.into() }
}

fn swap_separators(name: &str) -> String {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, Str};

    fn check(name: &'static str, kinds: &[NamespaceKind]) -> Result<(), String> {
        let namespaces = kinds.iter().map(|&kind| Namespace { kind, path: None }).collect();
        let sysctl = [(Str::new(name), Str::new("1"))].into();
        validate(&Linux { sysctl, namespaces, ..Linux::default() }).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_files() {
        assert_eq!(path("net.ipv4.ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path("net/ipv4/ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path("net.ipv4.conf.eth0/1.forwarding"), "net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(path("net/ipv4/conf/eth0.1/forwarding"), "net/ipv4/conf/eth0.1/forwarding");
    }

    #[test]
    fn each_of_its_namespace() {
        use NamespaceKind::{Ipc, Network, User, Uts};
        for (name, kind) in [
            ("kernel.shmmax", Ipc),
            ("kernel/shmmax", Ipc),
            ("fs.mqueue.msg_max", Ipc),
            ("net.core.somaxconn", Network),
            ("net/ipv4/conf/eth0.1/forwarding", Network),
            ("user.max_user_namespaces", User),
            ("kernel.domainname", Uts),
        ] {
            assert_eq!(check(name, &[kind]), Ok(()), "{name}");
            assert!(check(name, &[]).is_err(), "{name}");
        }
    }

    #[test]
    fn messages() {
        let refused = |name| check(name, &[]).unwrap_err();
        assert_eq!(
            refused("kernel.sem"),
            "sysctl \"kernel.sem\" is not allowed in the hosts ipc namespace"
        );
        assert_eq!(
            refused("net/core/somaxconn"),
            "sysctl \"net.core.somaxconn\" not allowed in host network namespace"
        );
        assert_eq!(
            refused("user.max_user_namespaces"),
            "setting ucounts without a user namespace not allowed: user.max_user_namespaces"
        );
        let not_namespaced = "is not in a separate kernel namespace";
        for name in ["vm.swappiness", "kernel.domainname", "kernel.hostname", "kernel.panic"] {
            assert_eq!(refused(name), format!("sysctl {name:?} {not_namespaced}"));
        }
        assert_eq!(
            check("kernel.hostname", &[NamespaceKind::Uts]).unwrap_err(),
            "sysctl \"kernel.hostname\" is not allowed as it conflicts with the OCI \"hostname\" field"
        );
    }

    #[test]
    fn no_way_out_of_proc_sys() {
        for name in ["net.//.vm.x", "net/../vm/x", "net..x", "", "net.", "/net/x", "net/./x"] {
            assert!(check(name, &[NamespaceKind::Network]).is_err(), "{name}");
        }
    }
}
