//! Compiles a configuration into a plan: decides everything that can be decided before the clone.
//!
//! The rules of [`check`] give the reasons for the order of steps; comments name the rules that apply.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ffi::CStr;

use cgroup::resctrl::Schemata;
use spec::resources::Resources;
use spec::{InRoot, Linux, Process, Spec};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, attr};

use crate::attributes::Execution;
use crate::birth::Birth;
use crate::builder::Builder;
use crate::caller::Caller;
use crate::clone;
use crate::confinement;
use crate::context::Context;
use crate::hooks;
use crate::namespaces::{Namespaces, has_mappings};
use crate::path::{absolute, c_str, c_string, in_root};
use crate::process::{self, ProcessContext};
use crate::program;
use crate::request::{Console, ProgramStart, Request};
use crate::state;
use crate::step::{InitStep, Memory, ParentStep, WithoutNull};
use crate::{
    CgroupPlan, Descriptors, Error, Kernel, Plan, ResctrlPlan, check, devices, keep, mounts,
};

/// Returns whether the network maker, a separate process, creates the container's network namespace. If so, the caller
/// should start the network maker early.
pub fn makes_network(spec: &Spec<'_>, request: &Request<'_>) -> bool {
    spec.linux.as_ref().is_some_and(|linux| {
        Birth::of(spec, linux, &Namespaces::of(linux), request).parallel_network
    })
}

/// Compiles a validated configuration. Changes nothing on the system.
///
/// # Errors
/// Fails if a value is invalid or unsupported; the error names the value.
pub fn compile(spec: &Spec<'_>, request: &Request<'_>) -> Result<Plan, Error> {
    request.kernel.check()?;
    let process =
        spec.process.as_ref().ok_or_else(|| Error::config("process property must not be empty"))?;
    let root = spec.root.as_ref().ok_or_else(|| Error::config("root is missing"))?;
    let empty = Linux::default();
    let linux = spec.linux.as_deref().unwrap_or(&empty);
    let keep_groups =
        process::keeps_groups(spec.annotations.iter().map(|(key, value)| (&**key, &**value)));
    request.caller.check(spec, linux, keep_groups)?;
    let mut context = context(spec, request, linux, &root.path);
    if !context.namespaces.has(CloneFlags::NEWNS) {
        request.kernel.check_detached()?;
    }
    if process.terminal && request.console.is_none() {
        return Err(Error::config("a terminal needs a console socket"));
    }
    let filter = match (&request.filter, linux.seccomp) {
        (Some(filter), _) => Some(filter.clone()),
        (None, Some(profile)) => Some(compile_seccomp(profile.get(), &request.kernel)?),
        (None, None) => None,
    };
    // The filter's agent may keep init waiting right before the program. Meanwhile, other processes may already enter
    // the container, so init must not share the parent's memory.
    if !request.wait_for_start && filter.as_ref().is_some_and(seccomp::Program::has_listener) {
        context.birth.memory = Memory::Copied;
    }
    // An init that stays after the program's begin must not use the memory of a command that ends.
    if request.program_start != ProgramStart::Executed {
        context.birth.memory = Memory::Copied;
    }
    let mut builder = Builder::new(request.caller.is_confined());
    // Whether a rootless caller writes the mappings of a new user namespace. If so, the parent becomes undumpable only
    // after the mappings are written (`maps-before-undumpable`).
    let maps_ids =
        request.caller.is_rootless() && context.namespaces.new.contains(CloneFlags::NEWUSER);
    open_sources(&mut builder, process, request.console, &request.caller, !maps_ids)?;
    confinement::require(&mut builder, process, spec.linux.as_deref());
    if context.birth.parallel_network {
        builder.parent(ParentStep::MakeNetwork);
    }

    // The parent's steps up to the clone are added together with the init steps that depend on them.
    let mut waiting = Waiting::default();
    // `cgroup-before-trees`, `sources-before-mounts`
    builder.parent(ParentStep::CreateCgroup);
    // Init's mounts are compiled before the steps that precede them, because some of those steps open the sources of
    // the mounts.
    let first = core::mem::replace(&mut builder.init, Vec::with_capacity(64));
    compile_rootfs(&mut builder, &mut waiting, spec, &context)?;
    mounts::leave_out_pins(&mut builder, &context);
    let mut mounts = core::mem::replace(&mut builder.init, first);
    let mut limits = process::limits(process)?;
    let room = clone::room(builder.slots, request.preserve_fds);
    let mut low_limits = clone::low_limits(&mut limits, room);
    let descriptors = request.own_nofile.and_then(|own| clone::raised(own, room));
    if let Some(Descriptors { own, .. }) = descriptors
        && process.rlimits.iter().all(|limit| limit.kind != "RLIMIT_NOFILE")
    {
        low_limits.push(own);
    }
    let execution = Execution::of(linux)?;
    let outside = || Ok(request.env.environment().map(CString::from).collect());
    let runtime_hooks = [
        hooks::compile("prestart", &spec.hooks.prestart, outside)?,
        hooks::compile("createRuntime", &spec.hooks.create_runtime, outside)?,
    ];
    let awaits_hooks = runtime_hooks.iter().any(|hooks| !hooks.list.is_empty());
    // Without root, a hook reads init's /proc/PID/ns and root only while init is dumpable, as under runc. No other
    // process is in init's namespaces until then (`undumpable-before-sharing`).
    let shown_to_hooks = maps_ids && awaits_hooks && context.namespaces.joined.is_empty();
    clone::compile(&mut builder, &context, limits, shown_to_hooks)?;

    compile_platform(&mut builder, request, process)?;
    builder.init.append(&mut mounts);
    process::compile_oom_score(&mut builder, process, &request.caller);
    let resctrl = linux.intel_rdt.as_ref().zip(request.resctrl.clone());
    if resctrl.is_some() {
        builder.parent(ParentStep::EnterResctrl);
    }
    builder.parent(ParentStep::RecordBirth);
    if awaits_hooks {
        builder.init(InitStep::AwaitHooks);
        if shown_to_hooks {
            builder.init(InitStep::Undumpable);
        }
        if let Some(cpus) = request.own_cpus {
            builder.parent(ParentStep::RunOn(Box::new(cpus)));
        }
        builder.parent(ParentStep::RunHooks);
    }
    // The affinity is reset as late as possible, so that init mounts on the start CPUs.
    let hooks_in_init = !spec.hooks.create_container.is_empty();
    if context.has_start_cpus && hooks_in_init {
        builder.init(InitStep::RunOnEveryCpu);
    }
    let before_root = &spec.hooks.create_container;
    let hooks = hooks::compile("createContainer", before_root, || Ok(Vec::new()))?;
    hooks::add(&mut builder, hooks, None, None);
    compile_root(&mut builder, request, process, &context)?;
    // `protected-inside`, `masks-after-mounts`. Paths that do not depend on the network namespace come first, so that
    // init need not wait for this namespace.
    compile_protection(&mut builder, &context, |path| !context.covers_network(path))?;
    let capabilities = process::limit_capabilities(&mut builder, process);
    builder.init.append(&mut waiting.for_network);
    builder.init.append(&mut waiting.for_mounts);
    compile_uts_and_sysctl(&mut builder, spec, linux)?;
    compile_protection(&mut builder, &context, |path| context.covers_network(path))?;
    if root.readonly {
        // `read-only-last`
        builder.init(read_only_root());
    }

    if context.has_start_cpus && !hooks_in_init {
        builder.init(InitStep::RunOnEveryCpu);
    }
    let process_context = ProcessContext {
        preserve_fds: request.preserve_fds,
        may_lack_setgroups: context.namespaces.user() || request.caller.setgroups_denied,
        keep_groups,
        seccomp: filter.is_some(),
        capabilities,
        without_null: match context.dev_is_bound() {
            true => WithoutNull::Keep,
            false => WithoutNull::Refuse,
        },
        execution: &execution,
    };
    process::compile_identity(&mut builder, process, process_context)?;
    // `low-nofile-last`
    if !low_limits.is_empty() {
        builder.init(InitStep::LimitResources(keep::all(low_limits)));
    }
    program::compile(&mut builder, spec, request, process, &context, filter.as_ref())?;

    let mut warnings = core::mem::take(&mut builder.warnings);
    warnings.extend(ignored_limits(request, linux));
    if has_mappings(linux) && !context.namespaces.user() {
        let ignored = "linux.uidMappings and gidMappings are ignored: there is no user namespace";
        warnings.push(ignored.to_string());
    }
    let (parent, init, slots) = builder.finish()?;
    Ok(check::finished(Plan {
        id: request.id.to_string(),
        parent,
        init,
        slots,
        descriptors,
        warnings,
        runtime_hooks,
        state: state::state(request.id, request.bundle, &spec.annotations)?,
        cgroup: request
            .cgroup
            .as_ref()
            .map(|location| cgroup(location, spec, linux, request.rootless))
            .transpose()?,
        execution,
        rootfs: context
            .given
            .and_then(|given| given.recipe())
            .map(|recipe| Box::new(recipe.clone())),
        resctrl: resctrl
            .map(|(rdt, group)| ResctrlPlan::Create { group, schemata: Schemata::of(rdt) }),
        filter,
    }))
}

/// Returns the context from which all parts of the plan are compiled. `root` is the root's path in
/// the configuration.
fn context<'a>(
    spec: &'a Spec<'a>,
    request: &'a Request<'a>,
    linux: &'a Linux<'a>,
    root: &str,
) -> Context<'a, 'a> {
    let namespaces = Namespaces::of(linux);
    Context {
        bundle: request.bundle,
        rootfs: match &request.rootfs {
            Some(given) => given.place.into(),
            None => absolute(request.bundle, root),
        },
        named_root: absolute(request.bundle, root),
        given: request.rootfs,
        linux,
        mounts: &spec.mounts,
        birth: Birth::of(spec, linux, &namespaces, request),
        namespaces,
        cgroup: request.cgroup.as_ref().or(request.shown_cgroup.as_ref()),
        caller: &request.caller,
        kernel: &request.kernel,
        foreign_network: request.foreign_network,
        has_start_cpus: request.own_cpus.is_some(),
    }
}

/// Returns a warning for each configured limit that the container's cgroup ignores, because it is on cgroup v2.
fn ignored_limits(request: &Request<'_>, linux: &Linux<'_>) -> Vec<alloc::string::String> {
    let (Some(location), Some(resources)) = (&request.cgroup, &linux.resources) else {
        return Vec::new();
    };
    let ignored = location.is_unified().then(|| cgroup::ignored_on_v2(resources));
    let warning = |name| format!("linux.resources.{name} is ignored: cgroup v2 has no such limit");
    ignored.into_iter().flatten().map(warning).collect()
}

/// Adds the steps by which init makes the root filesystem its root, and the steps that must
/// directly precede or follow them.
fn compile_root(
    builder: &mut Builder,
    request: &Request<'_>,
    process: &Process<'_>,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    if is_off(Defence::AfterPivot) {
        compile_terminal(builder, process, request, context);
        compile_protection(builder, context, |_| true)?;
    }
    if !context.namespaces.has(CloneFlags::NEWNS) {
        builder.init(InitStep::EnterRoot);
    } else if !context.birth.from_blank {
        let locked = context.namespaces.user() || context.caller.is_confined();
        builder.init(match request.no_pivot {
            true => InitStep::ChangeRoot { locked },
            false => InitStep::PivotRoot,
        });
    }
    mounts::compile_root_propagation(builder, context)?;
    if !is_off(Defence::AfterPivot) {
        compile_terminal(builder, process, request, context);
    }
    Ok(())
}

/// Returns the plan for the cgroup, which dayfly or systemd sets up.
fn cgroup(
    location: &cgroup::Location,
    spec: &Spec<'_>,
    linux: &Linux<'_>,
    as_user: bool,
) -> Result<CgroupPlan, Error> {
    let (location, resources) = (location.clone(), resources(linux));
    if location.unit.is_none() {
        return Ok(CgroupPlan::Create { location, resources, as_user });
    }
    let annotations = spec.annotations.iter().map(|(key, value)| (&**key, &**value));
    let properties = cgroup::systemd::annotated(annotations)?;
    Ok(CgroupPlan::Scope { location, resources, properties })
}

/// Returns the limits of the configuration, with the default device rules appended.
fn resources(linux: &Linux<'_>) -> Box<Resources> {
    let mut resources = linux.resources.clone().unwrap_or_default();
    let replaced = |path: &str| linux.devices.iter().any(|device| device.path == path);
    resources.devices.extend(cgroup::devices::default_rules(replaced));
    resources
}

/// Compiles the program of a seccomp profile.
///
/// # Errors
/// Fails if a value of the profile is invalid; the error names the value.
pub fn compile_seccomp(profile: &str, kernel: &Kernel) -> Result<seccomp::Program, Error> {
    let profile = seccomp::Profile::parse(profile)?;
    Ok(seccomp::compile(&profile, &kernel.seccomp)?)
}

/// Adds the steps that must come before any part of the container exists: `proc-first`, `inherited-oom-score`,
/// `undumpable-before-sharing`, `maps-before-undumpable`.
pub(crate) fn open_sources(
    builder: &mut Builder,
    process: &Process<'_>,
    console: Option<Console<'_>>,
    caller: &Caller,
    undumpable: bool,
) -> Result<(), Error> {
    if caller.is_confined() {
        builder.parent(ParentStep::OpenProc);
        process::compile_inherited_oom_score(builder, process, caller);
        if undumpable {
            builder.parent(ParentStep::Undumpable);
        }
    } else {
        builder.parent(ParentStep::Undumpable);
        builder.parent(ParentStep::OpenProc);
    }
    if let Some(Console::Socket(path)) = console {
        builder.parent(ParentStep::ConnectConsole { path: c_string(path)? });
    }
    Ok(())
}

/// Steps of init that are deferred until a condition holds.
#[derive(Default)]
struct Waiting {
    /// Steps deferred until init is in its network namespace.
    for_network: Vec<InitStep>,
    /// Steps deferred until everything is mounted, such as those that make a tmpfs read-only.
    for_mounts: Vec<InitStep>,
}

fn compile_rootfs(
    builder: &mut Builder,
    waiting: &mut Waiting,
    spec: &Spec<'_>,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    mounts::compile_root(builder, context)?;
    let in_turn = context.birth.mounts_in_turn || mounts::sysfs_comes_in_turn(context);
    let late = |mount: &&spec::Mount<'_>| !in_turn && context.shows_network(&mount.destination);
    let mut waits = context.birth.parallel_network;
    for mount in spec.mounts.iter().filter(|mount| !late(mount)) {
        if waits && in_turn && context.shows_network(&mount.destination) {
            builder.init(InitStep::JoinNetwork);
            waits = false;
        }
        mounts::compile_mount(builder, &mut waiting.for_mounts, context, mount)?;
    }
    devices::compile(builder, context)?;
    let ready = builder.init.len();
    if waits {
        builder.init(InitStep::JoinNetwork);
    }
    for mount in spec.mounts.iter().filter(late) {
        mounts::compile_mount(builder, &mut waiting.for_mounts, context, mount)?;
    }
    waiting.for_network = builder.init.split_off(ready);
    let cwd = spec.process.as_ref().map_or("/", |process| &process.cwd);
    let cwd = InRoot::new(cwd);
    if cwd == "/" {
        return Ok(());
    }
    builder.init(InitStep::MakeDirectory { path: in_root(&cwd)? });
    Ok(())
}

/// Adds the steps that create the session and the session keyring.
fn compile_platform(
    builder: &mut Builder,
    request: &Request<'_>,
    process: &Process<'_>,
) -> Result<(), Error> {
    builder.init(InitStep::NewSession);
    if !request.no_new_keyring {
        confinement::compile_keyring(builder, request.id, process)?;
    }
    Ok(())
}

fn compile_terminal(
    builder: &mut Builder,
    process: &Process<'_>,
    request: &Request<'_>,
    context: &Context<'_, '_>,
) {
    if process.terminal {
        builder.init(InitStep::OpenConsole {
            size: request.terminal_size.or(process::console_size(process)),
            uid: process.user.uid,
            bind: !context.is_mounted("/dev/console"),
            carried: matches!(request.console, Some(Console::Foreground)),
        });
    }
}

fn compile_uts_and_sysctl(
    builder: &mut Builder,
    spec: &Spec<'_>,
    linux: &Linux<'_>,
) -> Result<(), Error> {
    if let Some(name) = &spec.hostname {
        builder.init(InitStep::SetHostname(keep::text(name.as_str())));
    }
    if let Some(name) = &spec.domainname {
        builder.init(InitStep::SetDomainname(keep::text(name.as_str())));
    }
    for (key, value) in &linux.sysctl {
        builder.init(InitStep::WriteSysctl {
            path: c_str(format!("sys/{}", spec::sysctl::path(key)))?,
            value: keep::text(value.as_str()),
        });
    }
    Ok(())
}

fn read_only_root() -> InitStep {
    let attr = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
    InitStep::SetMountAttr { slot: None, path: c"", recursive: false, attr }
}

/// Adds the steps for the read-only and masked paths for which `now` returns true.
fn compile_protection(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    now: impl Fn(&InRoot<'_>) -> bool,
) -> Result<(), Error> {
    // A path listed repeatedly is added once: engines append to default lists.
    let places = |paths: &[InRoot<'_>]| {
        let mut known = BTreeSet::new();
        let wanted = paths.iter().filter(|path| !path.is_empty() && now(path));
        let places = wanted.filter(|path| known.insert(*path)).map(in_root);
        places.collect::<Result<Vec<&CStr>, Error>>()
    };
    for path in places(&context.linux.readonly_paths)? {
        // A mount over the root would not change the root of processes that are already in it.
        builder.init(match path.is_empty() {
            true => read_only_root(),
            false => InitStep::ReadonlyPath { path },
        });
    }
    for path in places(&context.linux.masked_paths)? {
        builder.init(InitStep::MaskPath {
            path,
            shared: context.birth.shared_masks,
            context: confinement::mount_context("tmpfs", context.linux)?,
        });
    }
    Ok(())
}
