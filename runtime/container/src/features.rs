//! The features of dayfly (runtime-spec, features.md), printed by `dayfly features` and reported to containerd by the
//! shim.
//!
//! In the specification, a missing list means "unknown". Unsupported features are therefore an empty list or `false`.

use alloc::vec::Vec;

use serde::Serialize;
use spec::{NamespaceKind, capability, memory_policy, mount_options};

use crate::checkpoint::CONFIG_ANNOTATION;

/// The version of this build.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prefixes of annotations that change dayfly's behaviour: properties of a systemd scope; dayfly's
/// own annotations, for pinning, pools and traces; crun's annotation that keeps the caller's
/// groups; and runc's annotation that names a file of options for criu, which can make criu execute
/// programs.
const OBEYED_ANNOTATIONS: [&str; 4] =
    ["org.systemd.property.", "run.dayfly.", plan::KEEP_GROUPS, CONFIG_ANNOTATION];

/// The features document (features.md).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    oci_version_min: &'static str,
    oci_version_max: &'static str,
    hooks: [&'static str; 6],
    mount_options: Vec<&'static str>,
    linux: Linux,
    annotations: Annotations,
    potentially_unsafe_config_annotations: [&'static str; 4],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    namespaces: Vec<&'static str>,
    capabilities: Vec<&'static str>,
    cgroup: Cgroup,
    seccomp: Seccomp,
    apparmor: Enabled,
    selinux: Enabled,
    intel_rdt: IntelRdt,
    memory_policy: MemoryPolicy,
    mount_extensions: MountExtensions,
    net_devices: Enabled,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cgroup {
    v1: bool,
    v2: bool,
    systemd: bool,
    systemd_user: bool,
    rdma: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Seccomp {
    enabled: bool,
    actions: Vec<&'static str>,
    operators: Vec<&'static str>,
    archs: Vec<&'static str>,
    known_flags: Vec<&'static str>,
    supported_flags: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Enabled {
    enabled: bool,
}

#[derive(Debug, Serialize)]
struct IntelRdt {
    enabled: bool,
    schemata: bool,
    monitoring: bool,
}

#[derive(Debug, Serialize)]
struct MemoryPolicy {
    modes: Vec<&'static str>,
    flags: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct MountExtensions {
    idmap: Enabled,
}

#[derive(Debug, Serialize)]
struct Annotations {
    #[serde(rename = "org.dayfly.version")]
    version: &'static str,
    /// The test-only features of a test build; omitted otherwise.
    #[serde(rename = "org.dayfly.built-for-tests", skip_serializing_if = "Option::is_none")]
    test_build: Option<&'static str>,
    #[serde(rename = "org.opencontainers.runc.checkpoint.enabled")]
    checkpoint: &'static str,
    /// The version of runc whose command line is implemented. features.md permits runtimes other than runc to report
    /// it.
    #[serde(rename = "org.opencontainers.runc.version")]
    runc_version: &'static str,
}

/// Returns the features of this build, regardless of what the running kernel supports. The one exception is the list of
/// supported seccomp flags.
pub fn features() -> Features {
    let mut namespaces = Vec::from(NamespaceKind::ALL.map(NamespaceKind::name));
    namespaces.sort_unstable();
    let enabled = || Enabled { enabled: true };
    Features {
        oci_version_min: "1.0.0",
        oci_version_max: spec::VERSION,
        hooks: spec::Hooks::default().lists().map(|(name, _)| name),
        mount_options: mount_options::known().collect(),
        linux: Linux {
            namespaces,
            capabilities: (0..=capability::LAST).filter_map(capability::name).collect(),
            cgroup: Cgroup { v1: true, v2: true, systemd: true, systemd_user: true, rdma: true },
            seccomp: seccomp(),
            apparmor: enabled(),
            selinux: enabled(),
            intel_rdt: IntelRdt { enabled: true, schemata: true, monitoring: true },
            memory_policy: MemoryPolicy {
                modes: names(&memory_policy::MODES),
                flags: names(&memory_policy::FLAGS),
            },
            mount_extensions: MountExtensions { idmap: enabled() },
            net_devices: enabled(),
        },
        annotations: Annotations {
            version: VERSION,
            test_build: sys::defence::TEST_BUILD,
            checkpoint: "true",
            runc_version: "1.5.1",
        },
        potentially_unsafe_config_annotations: OBEYED_ANNOTATIONS,
    }
}

/// Returns the actions, operators, architectures and flags that the seccomp compiler accepts. As in runc, flags are
/// included only if the running kernel supports them.
fn seccomp() -> Seccomp {
    let known_flags = names(&seccomp::FLAGS);
    let supported = seccomp::FLAGS.iter().filter(|(_, bit)| {
        // Flags for listeners are valid only together with SECCOMP_FILTER_FLAG_NEW_LISTENER.
        sys::seccomp::flags_known(*bit)
            || sys::seccomp::flags_known(bit | sys::seccomp::NEW_LISTENER)
    });
    let mut supported_flags: Vec<&'static str> = supported.map(|(name, _)| *name).collect();
    supported_flags.sort_unstable();
    let mut archs = Vec::from(seccomp::Arch::ALL.map(seccomp::Arch::name));
    archs.sort_unstable();
    Seccomp {
        enabled: true,
        actions: names(&seccomp::ACTIONS),
        operators: names(&seccomp::OPERATORS),
        archs,
        known_flags,
        supported_flags,
    }
}

/// Returns the names in a table of the compiler, sorted.
fn names<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = table.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names
}
