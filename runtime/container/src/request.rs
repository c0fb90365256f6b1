//! Builds the request from which the plan is compiled, from command line, configuration and host.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use cgroup::pool::Taken;
use cgroup::systemd::{Instance, Unit};
use plan::step::Limit;
use plan::{Caller, Kernel, Request};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Resource, getrlimit};
use spec::{NamespaceKind, Spec};

use crate::bundle::Bundle;
use crate::create_context::Purpose;
use crate::options::{CgroupDriver, CreateOptions};
use crate::{Error, Trace, placement};

/// Applies the requested CPUs and pool to the container.
pub(crate) fn place(
    spec: &mut Spec<'_>,
    options: &CreateOptions<'_>,
    trace: &Trace,
    purpose: Purpose,
) -> Result<Option<Taken>, Error> {
    trace.point("place", options.id)?;
    placement::pin(spec, options)?;
    match purpose {
        Purpose::Start => placement::pool(spec, options),
        Purpose::Plan => Ok(None),
    }
}

pub(crate) fn request<'a>(
    options: &CreateOptions<'a>,
    bundle: &'a Bundle,
    spec: &Spec<'_>,
    wait_for_start: bool,
    console: Option<plan::Console<'a>>,
    pooled: Option<&Taken>,
) -> Result<Request<'a>, Error> {
    let caller = Caller::probe(options.env.env("PATH"));
    let rootless = options.rootless.unwrap_or(caller.is_confined());
    let mut shown_cgroup = None;
    let cgroup = match options.cgroup_driver {
        CgroupDriver::Cgroupfs if pooled.is_some() => pooled.map(|taken| taken.location.clone()),
        CgroupDriver::Cgroupfs => {
            let path = spec.linux.as_ref().and_then(|linux| linux.cgroups_path.as_deref());
            let hierarchies = cgroup::Hierarchies::detect()?;
            let location = cgroup::Location::resolve(&hierarchies, path, options.id)?;
            match rootless && path.is_none_or(str::is_empty) && !location.is_permitted() {
                false => Some(location),
                true => {
                    shown_cgroup = Some(without_cgroup(spec, &hierarchies, &location)?);
                    None
                }
            }
        }
        CgroupDriver::Systemd => Some(scope(options, spec, &caller)?),
        CgroupDriver::Disabled => {
            if spec.mounts.iter().any(|mount| matches!(&*mount.kind, "cgroup" | "cgroup2")) {
                shown_cgroup = Some(cgroup::Location::own(&cgroup::Hierarchies::detect()?)?);
            }
            None
        }
    };
    let rdt = spec.linux.as_ref().and_then(|linux| linux.intel_rdt.as_ref());
    let resctrl = rdt.map(|rdt| cgroup::resctrl::Group::resolve(rdt, options.id)).transpose()?;
    let listen_fds = listen_fds(options.env);
    let mut extra_env = Vec::new();
    if listen_fds > 0 {
        extra_env.push(format!("LISTEN_FDS={listen_fds}"));
        extra_env.push("LISTEN_PID=1".to_string());
    }
    let own_nofile = needs_many_descriptors(spec).then(|| {
        let own = getrlimit(Resource::Nofile);
        Limit { resource: Resource::Nofile, soft: own.current, hard: own.maximum }
    });
    let kernel = Kernel { fast_paths: options.fast_paths, ..Kernel::probe() };
    Ok(Request {
        wait_for_start,
        no_pivot: options.no_pivot,
        no_new_keyring: options.no_new_keyring,
        preserve_fds: options.preserve_fds.saturating_add(listen_fds),
        console,
        extra_env,
        env: options.env,
        cgroup,
        resctrl,
        rootless,
        shown_cgroup,
        foreign_network: foreign_network(spec, &caller),
        own_nofile,
        caller,
        ..Request::new(options.id, &bundle.path, kernel)
    })
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
        return Err(Error::LimitsWithoutCgroup { directory: wanted.directory().into() });
    }
    Ok(cgroup::Location::own(hierarchies)?)
}

/// Returns the number of descriptors that a service manager has passed to this process (sd_listen_fds(3)), or 0 if they
/// were passed to an ancestor.
pub(crate) fn listen_fds(env: sys::Args) -> u32 {
    let number = |name| env.env(name).and_then(|text| text.parse::<u32>().ok());
    let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    match number("LISTEN_FDS") {
        Some(count) if number("LISTEN_PID") == Some(own) => count,
        _ => 0,
    }
}
