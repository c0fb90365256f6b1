//! The top level of `config.json`: root, mounts, hooks and the platform sections.
//!
//! Source: runtime-spec 1.3, config.md.
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use crate::in_root::{InRoot, clean};
use crate::linux::{IdMapping, Linux};
use crate::object::{Absent, object};
use crate::process::Process;
use crate::text::{Str, drop_if_empty};

object! {
    /// A container's configuration, as read from `config.json`.
    pub struct Spec<'a> {
        /// Version of the runtime specification that the bundle follows.
        pub oci_version: Str<'a>,
        /// The process to run; may be absent until `start`.
        pub process: Option<Process<'a>>,
        /// The root filesystem.
        pub root: Option<Root<'a>>,
        /// Host name inside the UTS namespace.
        pub hostname: Option<Str<'a>>,
        /// NIS domain name inside the UTS namespace.
        pub domainname: Option<Str<'a>>,
        /// Mounts on top of the root filesystem, in order.
        pub mounts: Vec<Mount<'a>>,
        /// Programs that are run at fixed points of the container's lifecycle.
        pub hooks: Hooks<'a>,
        /// Free-form metadata, sorted by key.
        pub annotations: BTreeMap<Str<'a>, Str<'a>>,
        /// The Linux part.
        pub linux: Option<Box<Linux<'a>>>,
        /// Virtual-machine section; only its presence is checked.
        pub vm: Option<&'a RawValue>,
        /// Solaris section; only its presence is checked.
        pub solaris: Option<&'a RawValue>,
        /// Windows section; only its presence is checked.
        pub windows: Option<&'a RawValue>,
        /// z/OS section; only its presence is checked.
        pub zos: Option<&'a RawValue>,
        /// FreeBSD section; only its presence is checked.
        pub freebsd: Option<&'a RawValue>,
    }
}

impl Spec<'_> {
    /// Removes the path of the root filesystem from destinations that begin with it, as runc does: some callers name
    /// mount points by their paths on the host.
    pub fn strip_root(&mut self, bundle: &str) {
        let Some(Root { path, .. }) = &self.root else { return };
        let root = match path.starts_with('/') {
            true => clean(path),
            false => clean(&format!("{bundle}/{path}")).into_owned().into(),
        };
        if &*root == "/" {
            return;
        }
        for mount in &mut self.mounts {
            if let Some(rest) = mount.destination.strip_prefix(&*root)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                mount.destination = InRoot::from(format!("/{rest}"));
            }
        }
    }
}

object! {
    /// The root filesystem (`root`).
    pub struct Root<'a> {
        /// Directory, absolute or relative to the bundle.
        pub path: Str<'a>,
        /// Whether the root filesystem is read-only in the container.
        pub readonly: bool,
    }
}

object! {
    /// One entry of `mounts`.
    pub struct Mount<'a> {
        /// The mount point in the container.
        pub destination: InRoot<'a>,
        /// Filesystem type; for bind mounts it is empty or ignored.
        #[serde(rename = "type")]
        pub kind: Str<'a>,
        /// For a bind mount, a path; a relative path is relative to the bundle. For other mounts, a device or a name.
        pub source: Option<Str<'a>>,
        /// fstab-style options, see [`MountOptions`](crate::mount_options::MountOptions).
        pub options: Vec<Str<'a>>,
        /// User id mappings of an idmapped mount.
        pub uid_mappings: Vec<IdMapping>,
        /// Group id mappings of an idmapped mount.
        pub gid_mappings: Vec<IdMapping>,
    }
}

object! {
    /// Programs that are run at fixed points of the container's lifecycle (`hooks`).
    pub struct Hooks<'a> {
        /// Deprecated hooks, run before `create_runtime` in the runtime's namespaces.
        pub prestart: Vec<Hook<'a>>,
        /// Hooks run during create, in the runtime's namespaces.
        pub create_runtime: Vec<Hook<'a>>,
        /// Hooks run during create, in the container's namespaces, before its root directory is changed.
        pub create_container: Vec<Hook<'a>>,
        /// Hooks run during start, in the container.
        pub start_container: Vec<Hook<'a>>,
        /// Hooks run after start, in the runtime's namespaces.
        pub poststart: Vec<Hook<'a>>,
        /// Hooks run after delete, in the runtime's namespaces.
        pub poststop: Vec<Hook<'a>>,
    }
}

object! {
    /// One hook.
    pub struct Hook<'a> {
        /// Absolute path of the executable.
        pub path: Str<'a>,
        /// Arguments, beginning with the name of the program (`argv[0]`).
        pub args: Vec<Str<'a>>,
        /// Environment as `NAME=value`. If absent, `createContainer` hooks get an empty environment, `startContainer`
        /// hooks that of the container's process, and other hooks that of the dayfly command. For `createContainer` and
        /// `startContainer` hooks, an empty list counts as absent, as in runc.
        pub env: Option<Vec<Str<'a>>>,
        /// Timeout in seconds.
        pub timeout: Option<i64>,
    }
}

impl<'a> Hooks<'a> {
    /// Returns every list of hooks with its property name, in the order in which the lists are run.
    pub fn lists(&self) -> [(&'static str, &[Hook<'a>]); 6] {
        [
            ("prestart", &self.prestart),
            ("createRuntime", &self.create_runtime),
            ("createContainer", &self.create_container),
            ("startContainer", &self.start_container),
            ("poststart", &self.poststart),
            ("poststop", &self.poststop),
        ]
    }
}

impl Absent for Hooks<'_> {
    fn is_absent(&self) -> bool {
        self.lists().iter().all(|(_, hooks)| hooks.is_empty())
    }
}

impl Spec<'_> {
    /// Replaces empty strings by `None` in properties where an empty string and an absent one mean the same, as in the
    /// Go types that engines serialize.
    pub(crate) fn drop_empty(&mut self) {
        drop_if_empty(&mut self.hostname);
        drop_if_empty(&mut self.domainname);
        for mount in &mut self.mounts {
            drop_if_empty(&mut mount.source);
        }
        if let Some(process) = &mut self.process {
            process.drop_empty();
        }
        if let Some(linux) = &mut self.linux {
            linux.drop_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_may_begin_with_the_root() {
        let stripped = |root: &str, destination: &str| {
            let json = format!(
                r#"{{"root":{{"path":"{root}"}},"mounts":[{{"destination":"{destination}"}}]}}"#
            );
            let mut spec: Spec<'_> = serde_json::from_str(&json).unwrap();
            spec.strip_root("/b");
            String::from(&*spec.mounts[0].destination)
        };
        assert_eq!(stripped("rootfs", "/b/rootfs/data"), "/data");
        assert_eq!(stripped("/r/./x", "/r/x"), "/");
        for other in ["/b/rootfs2", "/data", "/b"] {
            assert_eq!(stripped("rootfs", other), other);
        }
        assert_eq!(stripped("/", "/data"), "/data");
    }
}
