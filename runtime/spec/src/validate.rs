//! Checks that need only the configuration itself.
//!
//! Other crates make the checks that depend on the host: whether the rootfs exists, whether a joined network namespace
//! is the host's own, and whether a rootless user may use the mappings.

use crate::config::{Mount, Spec};
use crate::invalid::{Invalid, invalid};
use crate::kinds::{DeviceKind, NamespaceKind};
use crate::linux::{Device, IdMapping, IntelRdt, Linux};
use crate::mount_options::{MountOptions, Propagation};
use crate::process::{Process, Rlimit};
use crate::text::Str;
use crate::{rlimit, scheduling, sysctl, unsupported};

/// Checks a configuration against the specification and dayfly's features.
///
/// A missing `process` is valid here, since it is required only at `start`. A user namespace without mappings is valid,
/// too, since default mappings are used for it. Mappings without a user namespace are valid and have no effect, as in
/// runc.
///
/// # Errors
/// The first error found.
pub fn validate(spec: &Spec<'_>) -> Result<(), Invalid> {
    if !is_supported_version(&spec.oci_version) {
        return Err(invalid!(
            "ociVersion {:?} is not supported: it must be 1.0.0 or a later 1.x",
            spec.oci_version
        ));
    }
    let root = spec.root.as_ref().ok_or_else(|| invalid!("root must be specified"))?;
    if root.path.is_empty() {
        return Err(invalid!("root.path must not be empty"));
    }
    if let Some(process) = &spec.process {
        validate_process(process)?;
    }
    validate_names(spec)?;
    sysctl::validate_domainname(spec)?;
    for mount in &spec.mounts {
        validate_mount(mount, spec.linux.as_deref())?;
    }
    validate_hooks(spec)?;
    if let Some(linux) = &spec.linux {
        validate_linux(linux)?;
    }
    unsupported::refuse(spec)
}

/// Checks the process of a configuration or of `exec`.
///
/// # Errors
/// The first error found.
pub fn validate_process(process: &Process<'_>) -> Result<(), Invalid> {
    if process.cwd.is_empty() {
        return Err(invalid!("Cwd property must not be empty"));
    }
    if !process.cwd.starts_with('/') {
        return Err(invalid!("Cwd must be an absolute path"));
    }
    if process.args.is_empty() {
        return Err(invalid!("args must not be empty"));
    }
    for variable in &process.env {
        let lacks = match variable.find('=') {
            None => "missing '='",
            Some(0) => "name cannot be empty",
            Some(_) => continue,
        };
        return Err(invalid!("invalid environment variable: {lacks}"));
    }
    let user = &process.user;
    if [user.uid, user.gid].iter().chain(&user.additional_gids).any(|id| *id == u32::MAX) {
        return Err(invalid!(
            "process.user: 4294967295 (-1) is not a user or group id: the kernel takes it for \"no change\""
        ));
    }
    if let Some(umask) = process.user.umask.filter(|umask| *umask > 0o777) {
        return Err(invalid!("process.user.umask {umask:#o} is out of range, 0 to 0o777"));
    }
    if let Some(score) = process.oom_score_adj.filter(|score| !(-1000..=1000).contains(score)) {
        return Err(invalid!("process.oomScoreAdj {score} is out of range, -1000 to 1000"));
    }
    validate_rlimits(&process.rlimits)?;
    scheduling::validate(process)
}

fn validate_rlimits(rlimits: &[Rlimit<'_>]) -> Result<(), Invalid> {
    let mut seen = 0_u32;
    for limit in rlimits {
        let kind = &limit.kind;
        let unknown = || invalid!("wrong rlimit value: {kind}");
        let number = rlimit::number(kind).ok_or_else(unknown)?;
        if seen & 1 << number != 0 {
            return Err(invalid!("duplicated rlimit {kind}"));
        }
        seen |= 1 << number;
        if limit.soft > limit.hard {
            return Err(invalid!("rlimit {kind}: soft limit is above the hard limit"));
        }
    }
    Ok(())
}

/// Returns whether `version` is a semantic version (possibly with a suffix) of major version 1.
fn is_supported_version(version: &str) -> bool {
    let (numbers, suffix) = match version.find(['-', '+']) {
        Some(at) => version.split_at(at),
        None => (version, "-0"),
    };
    let mut parts = numbers.split('.');
    let mut next = || parts.next().filter(|part| is_number(part));
    let complete = next() == Some("1") && next().is_some() && next().is_some();
    complete
        && parts.next().is_none()
        && suffix.len() > 1
        && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte))
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn validate_names(spec: &Spec<'_>) -> Result<(), Invalid> {
    let uts = spec.linux.as_ref().and_then(|linux| linux.namespace(NamespaceKind::Uts));
    let name = match (&spec.hostname, &spec.domainname) {
        (Some(_), _) if uts.is_none() => "hostname",
        (_, Some(_)) if uts.is_none() => "domainname",
        _ => return Ok(()),
    };
    Err(invalid!("unable to set {name} without a private UTS namespace"))
}

/// Checks a mount. A relative destination is valid: it is relative to `/`, as in runc.
fn validate_mount(mount: &Mount<'_>, linux: Option<&Linux<'_>>) -> Result<(), Invalid> {
    if mount.destination.is_empty() {
        return Err(invalid!("mount destination must not be empty"));
    }
    let options = MountOptions::parse(&mount.options);
    validate_id_map(mount, &options, linux)?;
    if options.bind.is_none() {
        return Ok(());
    }
    // Filesystem options of a bind mount are not refused but ignored, as by the kernel, since callers pass the same
    // options for all mounts.
    if mount.source.is_none() && !options.remount {
        return Err(invalid!("invalid mount {}: bind mount without a source", mount.destination));
    }
    Ok(())
}

/// Checks the id mappings of a mount. An idmapped mount without mappings of its own uses the mappings of the
/// container's user namespace.
fn validate_id_map(
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    linux: Option<&Linux<'_>>,
) -> Result<(), Invalid> {
    let refuse = |why: &str| Err(invalid!("invalid mount {}: {why}", mount.destination));
    let uids = !mount.uid_mappings.is_empty();
    let gids = !mount.gid_mappings.is_empty();
    if options.id_map.is_none() && !uids && !gids {
        return Ok(());
    }
    if options.bind.is_none() && mount.kind != "bind" {
        return refuse("id-mapped mounts are only supported for bind-mounts");
    }
    let inherits = !uids && !gids;
    let inherits = inherits && options.id_map.is_none_or(|id_map| id_map.ranges.is_none());
    let user = linux.is_some_and(|linux| linux.namespace(NamespaceKind::User).is_some());
    if uids != gids || inherits && !user {
        return refuse("id-mapped mounts must have both uid and gid mappings specified");
    }
    validate_mappings("mounts.uidMappings", &mount.uid_mappings)?;
    validate_mappings("mounts.gidMappings", &mount.gid_mappings)
}

fn validate_hooks(spec: &Spec<'_>) -> Result<(), Invalid> {
    for (list, hooks) in spec.hooks.lists() {
        for hook in hooks {
            if !hook.path.starts_with('/') {
                let path = &hook.path;
                return Err(invalid!("hooks.{list}: path {path:?} is not an absolute path"));
            }
            if let Some(timeout) = hook.timeout.filter(|timeout| *timeout <= 0) {
                return Err(invalid!("hooks.{list}: timeout {timeout} is not greater than zero"));
            }
        }
    }
    Ok(())
}

fn validate_linux(linux: &Linux<'_>) -> Result<(), Invalid> {
    validate_namespaces(linux)?;
    let is_unknown = |word: &&Str<'_>| Propagation::parse(word).is_none();
    if let Some(word) = linux.rootfs_propagation.as_ref().filter(is_unknown) {
        return Err(invalid!("rootfsPropagation={word} is not supported"));
    }
    let masks = !linux.masked_paths.is_empty() || !linux.readonly_paths.is_empty();
    if masks && linux.namespace(NamespaceKind::Mount).is_none() {
        return Err(invalid!("unable to restrict sys entries without a private MNT namespace"));
    }
    for device in &linux.devices {
        validate_device(device)?;
    }
    if let Some(personality) = &linux.personality {
        personality.number()?;
    }
    if let Some(policy) = &linux.memory_policy {
        policy.validate()?;
    }
    validate_net_devices(linux)?;
    linux.intel_rdt.as_ref().map_or(Ok(()), validate_intel_rdt)?;
    sysctl::validate(linux)
}

fn validate_namespaces(linux: &Linux<'_>) -> Result<(), Invalid> {
    let mut seen = 0;
    for namespace in &linux.namespaces {
        let kind = namespace.kind;
        if seen & kind.clone_flag() != 0 {
            return Err(invalid!("malformed spec file: duplicated ns \"{kind}\""));
        }
        seen |= kind.clone_flag();
        if let Some(path) = namespace.path.as_ref().filter(|path| !path.starts_with('/')) {
            return Err(invalid!("{kind} namespace: path {path:?} is not an absolute path"));
        }
    }
    validate_mappings("linux.uidMappings", &linux.uid_mappings)?;
    validate_mappings("linux.gidMappings", &linux.gid_mappings)?;
    validate_offsets(linux)?;
    let is_new = linux.namespace(NamespaceKind::User).is_some_and(|user| user.path.is_none());
    let kind = match (linux.uid_mappings.is_empty(), linux.gid_mappings.is_empty()) {
        (true, false) if is_new => "uid",
        (false, true) if is_new => "gid",
        _ => return Ok(()),
    };
    Err(invalid!("user namespaces enabled, but no {kind} mappings found"))
}

fn validate_offsets(linux: &Linux<'_>) -> Result<(), Invalid> {
    if linux.time_offsets.is_empty() {
        return Ok(());
    }
    match linux.namespace(NamespaceKind::Time) {
        None => {
            return Err(invalid!(
                "time namespace offsets specified, but time namespace isn't enabled in the config"
            ));
        }
        Some(joined) if joined.path.is_some() => {
            return Err(invalid!(
                "time namespace enabled, but both namespace path and time offsets specified -- you may only provide one"
            ));
        }
        Some(_) => {}
    }
    for (clock, offset) in &linux.time_offsets {
        if !matches!(clock.as_str(), "monotonic" | "boottime") {
            return Err(invalid!("linux.timeOffsets: {clock:?} is neither monotonic nor boottime"));
        }
        if offset.nanosecs >= 1_000_000_000 {
            return Err(invalid!("linux.timeOffsets.{clock}: nanosecs must be below 1000000000"));
        }
    }
    Ok(())
}

fn validate_mappings(property: &'static str, mappings: &[IdMapping]) -> Result<(), Invalid> {
    // The last id, 2³² − 1, means "no id" and cannot be mapped.
    let fits = |first: u32, size: u32| first.checked_add(size).is_some();
    let good = |mapping: &IdMapping| {
        mapping.size > 0
            && fits(mapping.container_id, mapping.size)
            && fits(mapping.host_id, mapping.size)
    };
    match mappings.iter().all(good) {
        true => Ok(()),
        false => Err(invalid!(
            "{property}: the size of a mapping must be at least 1 and its ids must not exceed 4294967295"
        )),
    }
}

fn validate_net_devices(linux: &Linux<'_>) -> Result<(), Invalid> {
    if linux.net_devices.is_empty() {
        return Ok(());
    }
    if linux.namespace(NamespaceKind::Network).is_none() {
        return Err(invalid!("unable to move network devices without a NET namespace"));
    }
    let renamed = linux.net_devices.values().filter_map(|device| device.name.as_ref());
    match linux.net_devices.keys().chain(renamed).find(|name| !is_net_device(name)) {
        Some(name) => Err(Invalid::NetDeviceName(name.as_str().into())),
        None => Ok(()),
    }
}

/// Returns whether the kernel accepts `name` as a network device name: 1 to 15 bytes without `/`, `:`, whitespace and
/// NUL, other than `.` and `..`.
fn is_net_device(name: &str) -> bool {
    let is_good = |byte: u8| !b"/:".contains(&byte) && !byte.is_ascii_whitespace() && byte != 0;
    (1..16).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(is_good)
}

fn validate_intel_rdt(rdt: &IntelRdt<'_>) -> Result<(), Invalid> {
    if let Some(clos) = rdt.clos_id.as_deref()
        && (matches!(clos, "." | "..") || clos.len() > 1 && clos.contains('/'))
    {
        return Err(invalid!("invalid intelRdt.ClosID {clos:?}"));
    }
    let lines = rdt.schemata.iter().map(|line| ("schemata", line));
    let cache = rdt.l3_cache_schema.iter().map(|line| ("l3CacheSchema", line));
    let memory = rdt.mem_bw_schema.iter().map(|line| ("memBwSchema", line));
    let is_bad = |(name, line): &(&'static str, &Str<'_>)| {
        line.contains('\n') || *name == "memBwSchema" && !line.starts_with("MB:")
    };
    match lines.chain(cache).chain(memory).find(is_bad) {
        Some((name, line)) => Err(invalid!(
            "invalid intelRdt.{name} {line:?}: one line is expected, and of memBwSchema that it begins with \"MB:\""
        )),
        None => Ok(()),
    }
}

fn validate_device(device: &Device<'_>) -> Result<(), Invalid> {
    if device.path.is_empty() {
        return Err(invalid!("device path must not be empty"));
    }
    // The kernel would truncate the major number to 12 bits and the minor number to 20 bits, and create another device.
    let numbered = (0..1 << 12).contains(&device.major) && (0..1 << 20).contains(&device.minor);
    if device.kind != DeviceKind::Fifo && !numbered {
        let path = &device.path;
        return Err(invalid!("device {path}: major must be 0 to 4095, minor 0 to 1048575"));
    }
    if [device.uid, device.gid].contains(&Some(u32::MAX)) {
        return Err(invalid!(
            "device {}: 4294967295 (-1) is not a user or group id: the kernel takes it for \"no change\"",
            device.path
        ));
    }
    Ok(())
}
