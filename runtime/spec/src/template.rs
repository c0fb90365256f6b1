//! The configuration that `dayfly spec` writes for a new bundle.
//!
//! Its settings are those of `runc spec`: a shell on a terminal in `rootfs`, in its own namespaces, with three
//! capabilities.
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::config::{Mount, Root, Spec};
use crate::in_root::InRoot;
use crate::kinds::NamespaceKind;
use crate::linux::{IdMapping, Linux, Namespace};
use crate::process::{Capabilities, Process, Rlimit};
use crate::resources::{DeviceRule, Resources};
use crate::text::Str;

/// The version of the specification in new configurations.
pub const VERSION: &str = "1.3.0";

/// Returns a configuration for a container run by root. On a host with cgroup v2 only, the container gets a cgroup
/// namespace as well.
pub fn template(cgroup_v2: bool) -> Spec<'static> {
    use NamespaceKind::{Cgroup, Ipc, Mount, Network, Pid, Uts};
    let mut kinds = vec![Pid, Network, Ipc, Uts, Mount];
    kinds.extend(cgroup_v2.then_some(Cgroup));
    Spec {
        oci_version: Str::new(VERSION),
        process: Some(process()),
        root: Some(Root { path: Str::new("rootfs"), readonly: true }),
        hostname: Some(Str::new("dayfly")),
        mounts: mounts(),
        linux: Some(Box::new(Linux {
            resources: Some(Box::new(no_devices())),
            namespaces: kinds.into_iter().map(|kind| Namespace { kind, path: None }).collect(),
            masked_paths: MASKED_PATHS.map(InRoot::known).into(),
            readonly_paths: READONLY_PATHS.map(InRoot::known).into(),
            ..Linux::default()
        })),
        ..Spec::default()
    }
}

/// Returns a configuration for a container run by a user other than root. It has a user namespace, in which the host's
/// `uid` and `gid` become 0, shares the host's network and /sys, and has no settings that need privileges on the host.
pub fn rootless_template(cgroup_v2: bool, uid: u32, gid: u32) -> Spec<'static> {
    let mut spec = template(cgroup_v2);
    for mount in &mut spec.mounts {
        if mount.destination == "/sys" {
            // sysfs cannot be mounted without a network namespace of the container's own.
            *mount = new_mount("/sys", "none", "/sys", "rbind,nosuid,noexec,nodev,ro");
        }
        // Only id 0 is mapped in the user namespace.
        mount.options.retain(|option| !option.starts_with("gid=") && !option.starts_with("uid="));
    }
    if let Some(linux) = &mut spec.linux {
        linux.namespaces.retain(|namespace| namespace.kind != NamespaceKind::Network);
        linux.namespaces.push(Namespace { kind: NamespaceKind::User, path: None });
        linux.uid_mappings = vec![IdMapping { container_id: 0, host_id: uid, size: 1 }];
        linux.gid_mappings = vec![IdMapping { container_id: 0, host_id: gid, size: 1 }];
        linux.resources = None;
    }
    spec
}

impl Spec<'_> {
    /// Returns the configuration as JSON, indented with tabs like runc's.
    ///
    /// # Errors
    /// None occur for configurations built from this crate's types.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let spaced = serde_json::to_string_pretty(self)?;
        let mut text = String::with_capacity(spaced.len());
        // Strings contain no raw line breaks, so leading spaces are indentation.
        for line in spaced.split_inclusive('\n') {
            let content = line.trim_start_matches(' ');
            let depth = (line.len() - content.len()) / 2;
            text.extend(core::iter::repeat_n('\t', depth));
            text.push_str(content);
        }
        Ok(text)
    }
}

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const CAPABILITIES: [&str; 3] = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"];

const MASKED_PATHS: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
    "/proc/scsi",
];

const READONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The mounts, ordered so that each comes after the mount that contains its mount point.
const MOUNTS: [(&str, &str, &str, &str); 7] = [
    ("/proc", "proc", "proc", ""),
    ("/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"),
    ("/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5"),
    ("/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777,size=65536k"),
    ("/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev"),
    ("/sys", "sysfs", "sysfs", "nosuid,noexec,nodev,ro"),
    ("/sys/fs/cgroup", "cgroup", "cgroup", "nosuid,noexec,nodev,relatime,ro"),
];

fn process() -> Process<'static> {
    let capabilities = || CAPABILITIES.map(Str::new).to_vec();
    Process {
        terminal: true,
        args: vec![Str::new("sh")],
        env: vec![Str::new(PATH), Str::new("TERM=xterm")],
        cwd: Str::new("/"),
        capabilities: Some(Capabilities {
            bounding: capabilities(),
            effective: capabilities(),
            permitted: capabilities(),
            ..Capabilities::default()
        }),
        rlimits: vec![Rlimit { kind: Str::new("RLIMIT_NOFILE"), hard: 1024, soft: 1024 }],
        no_new_privileges: true,
        ..Process::default()
    }
}

fn mounts() -> Vec<Mount<'static>> {
    MOUNTS
        .into_iter()
        .map(|(destination, kind, source, options)| new_mount(destination, kind, source, options))
        .collect()
}

fn new_mount(
    destination: &'static str,
    kind: &'static str,
    source: &'static str,
    options: &'static str,
) -> Mount<'static> {
    Mount {
        destination: InRoot::known(destination),
        kind: Str::new(kind),
        source: Some(Str::new(source)),
        options: options.split(',').filter(|word| !word.is_empty()).map(Str::new).collect(),
        ..Mount::default()
    }
}

/// Returns resources that deny all devices except the default ones.
fn no_devices() -> Resources {
    let everything = DeviceRule {
        allow: false,
        kind: Default::default(),
        major: None,
        minor: None,
        access: "rwm".into(),
    };
    Resources { devices: vec![everything], ..Resources::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;

    const RUNC: &str = include_str!("../tests/data/runc-spec.json");
    const RUNC_ROOTLESS: &str = include_str!("../tests/data/runc-spec-rootless.json");

    /// Returns the template without the host name, as comparable text.
    fn normal(mut spec: Spec<'_>) -> String {
        assert_eq!(validate(&spec), Ok(()));
        spec.hostname = None;
        spec.to_json().unwrap()
    }

    #[test]
    fn says_what_runc_says() {
        assert_eq!(normal(template(false)), normal(Spec::parse(RUNC).unwrap()));
        let rootless = rootless_template(false, 0, 0);
        assert_eq!(normal(rootless), normal(Spec::parse(RUNC_ROOTLESS).unwrap()));
    }

    #[test]
    fn cgroup_namespace_on_v2() {
        let linux = template(true).linux.unwrap();
        assert!(linux.namespace(NamespaceKind::Cgroup).is_some());
        assert_eq!(linux.namespaces.len(), 6);
    }

    #[test]
    fn is_indented_with_tabs() {
        let text = template(false).to_json().unwrap();
        assert!(text.starts_with("{\n\t\"ociVersion\": \"1.3.0\",\n\t\"process\": {\n\t\t"));
        assert!(!text.contains("null") && !text.contains("[]") && !text.contains("{}"), "{text}");
    }

    #[test]
    fn reads_back() {
        let spec = rootless_template(true, 1000, 100);
        let text = spec.to_json().unwrap();
        let again = Spec::parse(&text).unwrap();
        assert_eq!(again.to_json().unwrap(), text);
        assert_eq!(again.linux.unwrap().gid_mappings[0].host_id, 100);
    }
}
