//! Settings of `run --image` that few containers have: capabilities, devices, namespaces of the host and others.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use spec::defaults::CAPABILITIES;
use spec::resources::DeviceRule;
use spec::{Device, InRoot, Linux, NamespaceKind, Process, ProfileText, Rlimit, Spec, Str};

use crate::Warn;

/// The annotation with the stop signal of an image (image-spec, conversion.md), and of `--stop-signal`.
pub const STOP_SIGNAL: &str = "org.opencontainers.image.stopSignal";
/// The directory for POSIX shared memory.
const SHM: InRoot<'static> = InRoot::known("/dev/shm");

/// Settings for one container.
#[derive(Debug, Clone, Default)]
pub struct Settings<'a> {
    /// Annotations: labels, and the stop signal.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// Capabilities that the program has besides the image's, as full names.
    pub added_capabilities: Vec<Str<'a>>,
    /// Returns the default seccomp profile for a container with these capabilities. A function of the caller, because
    /// the shim, which runs no images, is smaller without it.
    pub profile_for: Option<fn(&[&str]) -> Value>,
    /// Capabilities that the program lacks.
    pub dropped_capabilities: Vec<Str<'a>>,
    /// Whether the program has only the added capabilities.
    pub drops_all: bool,
    /// Whether execve(2) may not raise privileges.
    pub no_new_privileges: bool,
    /// Whether there is no seccomp filter.
    pub unfiltered: bool,
    /// Devices of the host, with the permitted access.
    pub devices: Vec<(Device<'a>, DeviceRule)>,
    /// Resource limits of the process.
    pub rlimits: Vec<Rlimit<'a>>,
    /// Kernel parameters.
    pub sysctls: Vec<(&'a str, &'a str)>,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Score adjustment for the OOM killer.
    pub oom_score_adj: Option<i32>,
    /// The size of /dev/shm in bytes.
    pub shm_size: Option<u64>,
    /// Namespaces that the container shares with the host.
    pub of_host: Vec<NamespaceKind>,
    /// Lines for /etc/hosts.
    pub hosts: String,
    /// The content of /etc/resolv.conf.
    pub resolver: Option<String>,
}

impl<'a> Settings<'a> {
    /// Changes everything but the process.
    pub(super) fn apply(&self, spec: &mut Spec<'a>, warn: Warn<'_>) {
        for (name, value) in &self.annotations {
            spec.annotations.insert(Str::new(name), Str::new(value));
        }
        let shm = self.shm_size.zip(spec.mounts.iter_mut().find(|mount| mount.destination == SHM));
        if let Some((size, mount)) = shm {
            mount.options.retain(|option| !option.starts_with("size="));
            mount.options.push(Str::from(alloc::format!("size={size}")));
        }
        let linux = spec.linux.get_or_insert_default();
        linux.namespaces.retain(|namespace| !self.of_host.contains(&namespace.kind));
        for (name, value) in &self.sysctls {
            linux.sysctl.insert(Str::new(name), Str::new(value));
        }
        if self.unfiltered {
            linux.seccomp = None;
            spec.annotations.insert(Str::new(super::SECCOMP), Str::new("none"));
        }
        self.add_devices(linux);
        self.allow_calls(linux, warn);
        if self.of_host.contains(&NamespaceKind::Uts) {
            spec.hostname = None;
        }
    }

    /// Lets the filter follow the capabilities, if it is dayfly's own: with a capability, it allows the system calls that
    /// need it.
    fn allow_calls(&self, linux: &mut Linux<'a>, warn: Warn<'_>) {
        let own = self.profile_for.filter(|_| !self.added_capabilities.is_empty());
        let Some((profile, own)) = linux.seccomp.zip(own) else { return };
        let mut capabilities = CAPABILITIES.to_vec();
        capabilities.extend(self.added_capabilities.iter().map(Str::as_str));
        let wanted = own(&capabilities);
        let usual = own(CAPABILITIES);
        if wanted == usual {
            return;
        }
        let found: Option<Value> = serde_json::from_str(profile.get()).ok();
        if found != Some(usual) {
            return (warn.print)(
                "--cap-add: the image was not imported with the present default seccomp profile, so its filter does \
                 not follow the capabilities",
            );
        }
        // The text is needed until the program is executed.
        linux.seccomp = Some(ProfileText::new(wanted.to_string().leak()));
    }

    fn add_devices(&self, linux: &mut Linux<'a>) {
        for (device, rule) in &self.devices {
            linux.devices.retain(|there| there.path != device.path);
            linux.devices.push(device.clone());
            linux.resources.get_or_insert_with(Box::default).devices.push(rule.clone());
        }
    }

    /// Changes the process.
    pub(super) fn apply_to(&self, process: &mut Process<'a>) {
        self.set_capabilities(process);
        process.no_new_privileges |= self.no_new_privileges;
        for limit in &self.rlimits {
            process.rlimits.retain(|there| there.kind != limit.kind);
            process.rlimits.push(limit.clone());
        }
        process.user.additional_gids.extend(&self.groups);
        if self.oom_score_adj.is_some() {
            process.oom_score_adj = self.oom_score_adj;
        }
    }

    /// For a user other than root, the bounding set alone matters: execve(2) clears the others.
    fn set_capabilities(&self, process: &mut Process<'a>) {
        let Some(sets) = &mut process.capabilities else { return };
        for set in [&mut sets.bounding, &mut sets.effective, &mut sets.permitted] {
            set.retain(|name| !self.drops_all && !self.dropped_capabilities.contains(name));
            for name in &self.added_capabilities {
                if !set.contains(name) {
                    set.push(name.clone());
                }
            }
        }
    }
}
