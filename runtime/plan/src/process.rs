//! The process: its user, privileges and program.

use alloc::collections::BTreeSet;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use rustix::process::{Gid, Resource};
use rustix::termios::Winsize;
use spec::Process;
use sys::exec::StringArray;

use crate::attributes::{self, Execution};
use crate::builder::Builder;
use crate::caller::Caller;
use crate::confinement;
use crate::path::{c_str, c_string};
use crate::step::{Capabilities, Confined, InitStep, Limit, ParentStep, WithoutNull};
use crate::{Error, keep};

pub(crate) const CAP_SYS_ADMIN: u64 = 1 << 21;
/// The annotation read by [`keeps_groups`].
pub const KEEP_GROUPS: &str = "run.oci.keep_original_groups";

/// The input, besides the process itself, from which the process's steps are compiled.
#[derive(Debug, Clone, Copy)]
pub struct ProcessContext<'a> {
    /// The number of descriptors after 2 that the process inherits.
    pub preserve_fds: u32,
    /// Whether the process is in a user namespace where setgroups(2) may be denied.
    pub may_lack_setgroups: bool,
    /// Whether the process keeps the caller's supplementary groups: see [`keeps_groups`].
    pub keep_groups: bool,
    /// Whether there is a seccomp filter to load.
    pub seccomp: bool,
    /// The result of [`limit_capabilities`].
    pub capabilities: Option<Capabilities>,
    /// See [`InitStep::ChangeUser`].
    pub without_null: WithoutNull,
    /// Attributes of every process of the container.
    pub execution: &'a Execution,
}

/// Adds the step in which the parent sets init's OOM score, through the procfs that the parent has verified.
pub fn compile_oom_score(builder: &mut Builder, process: &Process<'_>, caller: &Caller) {
    if let Some(score) = process.oom_score_adj.filter(|_| !caller.is_confined()) {
        builder.parent(ParentStep::AdjustOomScore(score));
    }
}

/// Adds the step that sets the OOM score before the clone, if the caller is confined: `inherited-oom-score`.
pub fn compile_inherited_oom_score(builder: &mut Builder, process: &Process<'_>, caller: &Caller) {
    if let Some(score) = process.oom_score_adj.filter(|_| caller.is_confined()) {
        builder.parent(ParentStep::InheritOomScore(score));
    }
}

/// Adds the init step that limits the bounding set. The step makes some thirty calls, one per
/// capability, at a time when init would otherwise wait. Returns the other capability sets of the
/// process.
pub fn limit_capabilities(builder: &mut Builder, process: &Process<'_>) -> Option<Capabilities> {
    let (bounding, sets) = warned_sets(process.capabilities.as_ref()?, &mut builder.warnings);
    builder.init(InitStep::LimitCapabilities { drop: !bounding });
    Some(sets)
}

/// Adds the init steps that run before `start`, from the scheduling attributes to the search for the program, so that
/// their failures are reported before `start` (`program-before-start`). CAP_SYS_ADMIN is kept if it is needed to load
/// the filter (`filter-may-be-loaded`).
pub fn compile_identity(
    builder: &mut Builder,
    process: &Process<'_>,
    context: ProcessContext<'_>,
) -> Result<(), Error> {
    if process.args.is_empty() {
        return Err(Error::config("args must not be empty"));
    }
    attributes::compile(builder, process, context.execution)?;
    let user = &process.user;
    builder.init(InitStep::SetUmask(user.umask.unwrap_or(0o022)));
    // As in runc, the path is passed unchanged, so the kernel follows symbolic links of the image before it resolves
    // `..`. The path of the directory that is created (`MakeDirectory`) is cleaned first, so the two can differ.
    // `cwd-verified` holds in both cases.
    let cwd = if process.cwd.is_empty() { "/" } else { &process.cwd };
    builder.init(InitStep::ChangeDirectory { path: c_str(cwd)? });
    let skip_groups =
        context.keep_groups || context.may_lack_setgroups && user.additional_gids.is_empty();
    builder.init(InitStep::ChangeUser {
        uid: user.uid,
        gid: user.gid,
        groups: (!skip_groups)
            .then(|| keep::all(user.additional_gids.iter().copied().map(Gid::from_raw).collect())),
        without_null: context.without_null,
    });
    builder.init(InitStep::VerifyDirectory);
    let keep_admin = context.seccomp && !process.no_new_privileges;
    if let Some(mut sets) = context.capabilities {
        if keep_admin {
            sets.effective |= CAP_SYS_ADMIN;
            sets.permitted |= CAP_SYS_ADMIN;
        }
        builder.init(InitStep::SetCapabilities(sets));
    } else if keep_admin && user.uid != 0 {
        // The change of the uid has emptied the effective set.
        builder.init(InitStep::SetCapabilities(Capabilities {
            effective: CAP_SYS_ADMIN,
            permitted: CAP_SYS_ADMIN,
            ..Capabilities::default()
        }));
    }
    if process.no_new_privileges {
        builder.init(InitStep::NoNewPrivileges);
    }
    confinement::compile(builder, process);
    builder.init(find_program(process)?);
    builder.init(InitStep::CloseFds { from: 3 + context.preserve_fds });
    Ok(())
}

/// Adds the init steps that load the filter and then set the final capabilities: `listener-handed-over`,
/// `filter-before-exec`, `sys-admin-given-back`.
pub fn compile_filter(builder: &mut Builder, process: &Process<'_>, filter: &seccomp::Program) {
    builder.init(InitStep::LoadSeccomp { instructions: filter.filter.len() });
    if filter.has_listener() {
        builder.init(InitStep::HandOverListener);
    }
    if let Confined { capabilities: Some(last) } = confined(process) {
        builder.init(InitStep::SetCapabilities(last));
    }
}

/// Returns the capabilities to set after the filter is loaded. There are none unless CAP_SYS_ADMIN was kept for loading
/// the filter.
pub fn confined(process: &Process<'_>) -> Confined {
    if process.no_new_privileges {
        return Confined { capabilities: None };
    }
    // The ambient set has been raised already, and is not raised again, because the filter may
    // forbid prctl(2).
    let last = process.capabilities.as_ref();
    let last = last.map(|last| Capabilities { ambient: 0, ..sets(last).1 });
    // Without configured sets, only root keeps any.
    let none = (process.user.uid != 0).then(Capabilities::default);
    Confined { capabilities: last.or(none) }
}

/// Returns the configured size of the process's terminal.
pub fn console_size(process: &Process<'_>) -> Option<Winsize> {
    let size = process.console_size.as_ref()?;
    Some(Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 })
}

/// Returns the uid of the user whose home directory becomes HOME, if the environment contains no HOME or an empty one
/// (as in runc). An empty HOME counts as missing: with it, programs would write their files to the working directory.
pub fn home_of(process: &Process<'_>) -> Option<u32> {
    let home = process.env.iter().rev().find_map(|entry| entry.strip_prefix("HOME="));
    home.is_none_or(str::is_empty).then_some(process.user.uid)
}

/// Adds the init steps that follow `start`: those that load a filter without a listener, and the exec.
pub fn compile_exec(
    builder: &mut Builder,
    process: &Process<'_>,
    filter: Option<&seccomp::Program>,
    extra_env: &[String],
) -> Result<(), Error> {
    if let Some(filter) = filter.filter(|filter| !filter.has_listener()) {
        compile_filter(builder, process, filter);
    }
    let envp = environment(&process.env, extra_env)?;
    builder.init(InitStep::Exec {
        argv: StringArray::leaked(strings(&process.args)?),
        envp: StringArray::leaked(envp),
        home_of: home_of(process),
    });
    Ok(())
}

/// Returns whether annotations request the caller's supplementary groups (crun's annotation; engines offer it as
/// `--group-add keep-groups`). In that case the configuration's groups are not set.
pub fn keeps_groups<'a>(mut annotations: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    annotations.any(|annotation| annotation == (KEEP_GROUPS, "1"))
}

/// Converts a list to C strings.
pub fn strings(list: &[spec::Str<'_>]) -> Result<Vec<CString>, Error> {
    list.iter().map(|text| c_string(text.as_str())).collect()
}

/// Returns the environment: the configuration's entries, then dayfly's additions. If a variable occurs more than once,
/// only its last entry is kept. An empty HOME is left out: see [`home_of`].
pub fn environment(entries: &[spec::Str<'_>], extra: &[String]) -> Result<Vec<CString>, Error> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::with_capacity(entries.len() + extra.len() + 4);
    let own = entries.iter().map(spec::Str::as_str);
    for entry in extra.iter().rev().map(String::as_str).chain(own.rev()) {
        let name = entry.split_once('=').map_or(entry, |(name, _)| name);
        if seen.insert(name) && entry != "HOME=" {
            kept.push(c_string(entry)?);
        }
    }
    kept.reverse();
    Ok(kept)
}

/// Returns the bounding set and the other sets. Names that the kernel or dayfly does not know are left out, as in runc.
/// The inheritable set is taken from the configuration and empty by default (CVE-2022-29162).
pub(crate) fn sets(capabilities: &spec::Capabilities<'_>) -> (u64, Capabilities) {
    named_sets(capabilities, &mut Vec::new())
}

/// Like [`sets`]; also adds warnings to `warnings`, for unknown capabilities and for ambient ones that cannot be
/// raised.
fn warned_sets(
    capabilities: &spec::Capabilities<'_>,
    warnings: &mut Vec<String>,
) -> (u64, Capabilities) {
    let mut unknown = Vec::new();
    let (bounding, sets) = named_sets(capabilities, &mut unknown);
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let names = unknown.join(" ");
        warnings.push(format!("ignoring unknown or unavailable capabilities: [{names}]"));
    }
    // The kernel's condition for raising an ambient capability.
    let missing = sets.ambient & !(sets.permitted & sets.inheritable);
    let missing = (0..u64::BITS).filter(|bit| missing >> bit & 1 == 1);
    let names: Vec<&str> = missing.filter_map(spec::capability::name).collect();
    // Buildah sets the ambient capabilities of each RUN without the inheritable ones: one line for all of them.
    if !names.is_empty() {
        warnings.push(format!(
            "can't raise ambient capability {}: operation not permitted: \
             it must be permitted and inheritable as well",
            names.join(", ")
        ));
    }
    (bounding, sets)
}

fn named_sets<'a>(
    capabilities: &'a spec::Capabilities<'_>,
    unknown: &mut Vec<&'a str>,
) -> (u64, Capabilities) {
    let mut mask =
        |names: &'a [spec::Str<'_>]| spec::capability::CapabilitySet::parse(names, unknown).0;
    let sets = Capabilities {
        effective: mask(&capabilities.effective),
        permitted: mask(&capabilities.permitted),
        inheritable: mask(&capabilities.inheritable),
        ambient: mask(&capabilities.ambient),
    };
    (mask(&capabilities.bounding), sets)
}

/// Returns the resource limits, with the configuration's words converted to numbers.
pub fn limits(process: &Process<'_>) -> Result<Vec<Limit>, Error> {
    let infinite = |value: u64| (value != u64::MAX).then_some(value);
    let mut limits = Vec::with_capacity(process.rlimits.len());
    for rlimit in &process.rlimits {
        let Some(resource) = resource(&rlimit.kind) else {
            return Err(Error::config(format!("rlimit type {:?} is not known", &*rlimit.kind)));
        };
        limits.push(Limit { resource, soft: infinite(rlimit.soft), hard: infinite(rlimit.hard) });
    }
    Ok(limits)
}

fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "RLIMIT_AS" => Resource::As,
        "RLIMIT_CORE" => Resource::Core,
        "RLIMIT_CPU" => Resource::Cpu,
        "RLIMIT_DATA" => Resource::Data,
        "RLIMIT_FSIZE" => Resource::Fsize,
        "RLIMIT_LOCKS" => Resource::Locks,
        "RLIMIT_MEMLOCK" => Resource::Memlock,
        "RLIMIT_MSGQUEUE" => Resource::Msgqueue,
        "RLIMIT_NICE" => Resource::Nice,
        "RLIMIT_NOFILE" => Resource::Nofile,
        "RLIMIT_NPROC" => Resource::Nproc,
        "RLIMIT_RSS" => Resource::Rss,
        "RLIMIT_RTPRIO" => Resource::Rtprio,
        "RLIMIT_RTTIME" => Resource::Rttime,
        "RLIMIT_SIGPENDING" => Resource::Sigpending,
        "RLIMIT_STACK" => Resource::Stack,
        _ => return None,
    })
}

fn find_program(process: &Process<'_>) -> Result<InitStep, Error> {
    let name = process.args.first().map(spec::Str::as_str).unwrap_or_default();
    if name.contains('/') {
        let (candidates, name) = (keep::all(alloc::vec![c_str(name)?]), keep::text(name));
        return Ok(InitStep::FindProgram { candidates, name, searched: false });
    }
    let path = process.env.iter().rev().find_map(|entry| entry.strip_prefix("PATH="));
    let mut candidates = Vec::new();
    // Without PATH there is no search, as in runc and crun: the configuration must define where
    // programs are searched.
    for directory in path.unwrap_or_default().split(':') {
        // An empty element means the working directory. execvp(3) searches that directory. Go, runc
        // and dayfly do not, because a program must not come from an arbitrary working directory.
        // An empty program name is refused, too.
        if !directory.is_empty() && !name.is_empty() {
            candidates.push(c_str(format!("{directory}/{name}"))?);
        }
    }
    let (candidates, name) = (keep::all(candidates), keep::text(name));
    Ok(InitStep::FindProgram { candidates, name, searched: true })
}
