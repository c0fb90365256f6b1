//! Builds the request from which the plan is compiled, from command line, configuration and host.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use cgroup::systemd::{Instance, Unit};
use plan::step::{Limit, NumberSet};
use plan::{Caller, Kernel, ProgramStart, Request};
use rustix::fd::{AsFd, OwnedFd, RawFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Resource, getrlimit};
use rustix::termios::Winsize;
use spec::{NamespaceKind, Spec};

use crate::create_context::CreateContext;
use crate::layered::Prepared;
use crate::options::{CgroupDriver, CreateOptions};
use crate::snapshot::Snapshot;
use crate::{Error, TemplateUse, template};

/// How the command starts the program. The fields are those of [`Request`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StartMode<'a> {
    pub wait_for_start: bool,
    pub attended: bool,
    pub console: Option<plan::Console<'a>>,
    pub terminal_size: Option<Winsize>,
    pub own_cpus: Option<NumberSet>,
}

impl<'a> CreateContext<'a> {
    /// Returns the request, to which nothing is added later. `filter` is the program of the seccomp profile, `blank`
    /// whether there is a blank mount namespace, `requests` the socket of a container that becomes a template.
    pub(crate) fn request(
        &self,
        mode: StartMode<'a>,
        caller: Caller,
        kernel: Kernel,
        filter: Option<seccomp::Program>,
        blank: bool,
        requests: Option<RawFd>,
    ) -> Result<Request<'_>, Error> {
        let Self { options, bundle, spec, trace, .. } = self;
        trace.point("find", "cgroup")?;
        let StartMode { wait_for_start, attended, console, terminal_size, own_cpus } = mode;
        let rootless = options.rootless.unwrap_or(caller.is_confined());
        let (cgroup, shown_cgroup) = self.cgroups(&caller, rootless)?;
        let rdt = spec.linux.as_ref().and_then(|linux| linux.intel_rdt.as_ref());
        let mut extra_env = Vec::new();
        if self.listen_fds > 0 {
            extra_env.push(format!("LISTEN_FDS={}", self.listen_fds));
            extra_env.push("LISTEN_PID=1".to_string());
        }
        extra_env.extend(self.extra_env.iter().cloned().chain(requests.map(template::variable)));
        let layered = self.prepared.as_ref().map(Prepared::root);
        Ok(Request {
            id: options.id,
            bundle: &bundle.path,
            rootfs: layered.or_else(|| self.snapshot.as_ref().map(Snapshot::root)),
            program_start: match (&self.template, requests) {
                (Some(_), _) => ProgramStart::Forked,
                (None, Some(_)) => match options.template {
                    Some(TemplateUse::Save { .. }) => ProgramStart::Saved,
                    _ => ProgramStart::Reaped,
                },
                (None, None) => ProgramStart::Executed,
            },
            wait_for_start,
            attended,
            no_pivot: options.no_pivot,
            no_new_keyring: options.no_new_keyring,
            preserve_fds: self.passed_fds(),
            console,
            terminal_size,
            extra_env,
            env: options.env,
            cgroup,
            resctrl: rdt.map(|rdt| cgroup::resctrl::Group::resolve(rdt, options.id)).transpose()?,
            filter,
            rootless,
            shown_cgroup,
            own_cpus,
            foreign_network: foreign_network(spec, &caller),
            blank,
            own_nofile: needs_many_descriptors(spec).then(|| {
                let own = getrlimit(Resource::Nofile);
                Limit { resource: Resource::Nofile, soft: own.current, hard: own.maximum }
            }),
            caller,
            kernel,
        })
    }

    /// Returns the container's cgroup; without one, the caller's, if a cgroup mount is to show it.
    fn cgroups(
        &self,
        caller: &Caller,
        rootless: bool,
    ) -> Result<(Option<cgroup::Location>, Option<cgroup::Location>), Error> {
        let Self { options, spec, pooled, .. } = self;
        match options.cgroup_driver {
            CgroupDriver::Cgroupfs => {
                if let Some(taken) = pooled {
                    return Ok((Some(taken.location.clone()), None));
                }
                let path = spec.linux.as_ref().and_then(|linux| linux.cgroups_path.as_deref());
                let hierarchies = cgroup::Hierarchies::detect()?;
                let location = cgroup::Location::resolve(&hierarchies, path, options.id)?;
                match rootless && path.is_none_or(str::is_empty) && !location.is_permitted() {
                    false => Ok((Some(location), None)),
                    true => Ok((None, Some(without_cgroup(spec, &hierarchies, &location)?))),
                }
            }
            CgroupDriver::Systemd => Ok((Some(scope(options, spec, caller)?), None)),
            CgroupDriver::Disabled => {
                let mut kinds = spec.mounts.iter().map(|mount| &*mount.kind);
                let is_shown = kinds.any(|kind| matches!(kind, "cgroup" | "cgroup2"));
                let own = || cgroup::Location::own(&cgroup::Hierarchies::detect()?);
                Ok((None, is_shown.then(own).transpose()?))
            }
        }
    }
}

/// Returns whether a start may need more descriptors than the lowest limit that callers usually have. A start of an
/// ordinary configuration does not read its limit.
fn needs_many_descriptors(spec: &Spec<'_>) -> bool {
    const FEW: usize = 64;
    let devices = spec.linux.as_ref().map_or(0, |linux| linux.devices.len());
    spec.mounts.len() + devices > FEW
}

/// Returns whether the container joins or inherits a network namespace that is owned by a user namespace other than the
/// container's. This is checked only if the container mounts a sysfs. If the owner cannot be determined, returns false;
/// the mount of the sysfs may then fail.
pub(crate) fn foreign_network(spec: &Spec<'_>, caller: &Caller) -> bool {
    let Some(linux) = &spec.linux else { return false };
    let path = |kind| linux.namespace(kind).map(|namespace| namespace.path.as_deref());
    let (network, user) = (path(NamespaceKind::Network), path(NamespaceKind::User));
    let is_asked = spec.mounts.iter().any(|mount| mount.kind == "sysfs")
        && network != Some(None)
        && user != Some(None)
        && (user.is_some() || caller.is_confined());
    if !is_asked {
        return false;
    }
    let open = |path: Option<Option<&str>>, own: &'static str| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(CWD, path.flatten().unwrap_or(own), flags, Mode::empty())
    };
    match (open(network, "/proc/self/ns/net"), open(user, "/proc/self/ns/user")) {
        (Ok(network), Ok(user)) => {
            let is_same = |owner: OwnedFd| sys::nsfs::is_same(owner.as_fd(), user.as_fd());
            // EPERM: the network namespace's owner is an ancestor of the caller's user namespace.
            sys::nsfs::owner(network.as_fd()).and_then(is_same) != Ok(true)
        }
        _ => false,
    }
}

/// Returns a scope of the host's systemd. If the caller may not use the host's systemd, returns a scope of the user's
/// own systemd.
fn scope(
    options: &CreateOptions<'_>,
    spec: &Spec<'_>,
    caller: &Caller,
) -> Result<cgroup::Location, Error> {
    let owner = cgroup::systemd::host_owner().map_err(cgroup::Error::from)?;
    let hierarchies = cgroup::Hierarchies::detect()?;
    let env = |name| options.env.env(name);
    // Root of a user namespace may be an ordinary user outside it (Podman), or root of a system container with its own
    // systemd.
    let instance = match options.rootless.unwrap_or(caller.is_rootless() || owner != 0) {
        true => cgroup::user_instance(
            &hierarchies,
            env("DBUS_SESSION_BUS_ADDRESS"),
            env("XDG_RUNTIME_DIR"),
        )?,
        false => Instance::system(env("DBUS_SYSTEM_BUS_ADDRESS")),
    };
    let path = spec.linux.as_ref().and_then(|linux| linux.cgroups_path.as_deref());
    let unit = Unit::parse(path, options.id, instance).map_err(cgroup::Error::from)?;
    Ok(cgroup::Location::of_unit(&hierarchies, unit))
}

/// Returns the caller's own cgroup, in which a container without limits may stay if the caller may not create another
/// cgroup. Fails if the container has limits.
fn without_cgroup(
    spec: &Spec<'_>,
    hierarchies: &cgroup::Hierarchies,
    wanted: &cgroup::Location,
) -> Result<cgroup::Location, Error> {
    let resources = spec.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    if resources.is_some_and(|resources| resources.has_limits()) {
        return Err(Error::Text(format!(
            "rootless needs no limits + no cgrouppath when no permission is granted for cgroups: mkdir {}: \
             permission denied; leave the limits out, or delegate a cgroup (docs/rootless.md)",
            wanted.directory()
        )));
    }
    Ok(cgroup::Location::own(hierarchies)?)
}

/// Returns the number of descriptors that a service manager has passed to this process (sd_listen_fds(3)), or 0 if they
/// were passed to an ancestor.
pub(crate) fn listen_fds(env: sys::Args) -> u32 {
    let number = |name| env.env(name).and_then(|text| text.parse::<u32>().ok());
    let own = || rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    match number("LISTEN_FDS") {
        Some(count) if number("LISTEN_PID") == Some(own()) => count,
        _ => 0,
    }
}
