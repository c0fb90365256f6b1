//! Compiles a configuration into a plan: decides everything that can be decided before the clone.
//!
//! The rules of [`check`] give the reasons for the order of steps; comments name the rules that apply.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use cgroup::resctrl::Schemata;
use spec::resources::Resources;
use spec::{InRoot, Linux, Process, Spec};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, attr};

use crate::attributes::Execution;
use crate::builder::Builder;
use crate::caller::Caller;
use crate::context::Context;
use crate::namespaces::has_mappings;
use crate::path::{c_str, c_string, in_root};
use crate::process::{self, ProcessContext};
use crate::request::{Console, Request};
use crate::step::{InitStep, Intermediate, ParentStep, ScopeState, WithoutNull};
use crate::{
    CgroupPlan, Descriptors, Error, Plan, ResctrlPlan, check, clone, confinement, devices, hooks,
    keep, mounts, program, state,
};

/// Compiles a validated configuration. Changes nothing on the system.
///
/// # Errors
/// Fails if a value is invalid or unsupported; the error names the value.
pub fn compile(spec: &Spec<'_>, request: &Request<'_>) -> Result<Plan, Error> {
    let none = Linux::default();
    let linux = spec.linux.as_deref().unwrap_or(&none);
    let context = Context::of(spec, request, linux)?;
    let mut builder = Builder::new(request.caller.is_confined());

    // First each section, in the order in which slots are numbered.
    compile_sources(&mut builder, &context)?;
    let sources = builder.take_section();
    let in_turn = mounts::are_in_turn(&context);
    compile_mounts(&mut builder, &context, in_turn)?;
    let mounts = builder.take_section();
    compile_late_mounts(&mut builder, &context, in_turn)?;
    let late_mounts = builder.take_section();
    let frozen = core::mem::take(&mut builder.frozen);
    let made = core::mem::take(&mut builder.made);
    let trees = mounts.parent.iter().chain(&late_mounts.parent);
    let pins = mounts::leave_out_pins(&context, trees);
    let mut limits = process::limits(context.process)?;
    let room = clone::room(builder.slots, request.preserve_fds);
    let mut low_limits = clone::low_limits(&mut limits, room);
    let descriptors = request.own_nofile.and_then(|own| clone::raised(own, room));
    if let Some(Descriptors { own, .. }) = descriptors
        && context.process.rlimits.iter().all(|limit| limit.kind != "RLIMIT_NOFILE")
    {
        low_limits.push(own);
    }
    let execution = Execution::of(linux)?;
    let outside = || Ok(request.env.environment().map(CString::from).collect());
    let runtime_hooks = [
        hooks::compile("prestart", &spec.hooks.prestart, outside)?,
        hooks::compile("createRuntime", &spec.hooks.create_runtime, outside)?,
    ];
    clone::compile(&mut builder, &context, limits)?;
    let clone = builder.take_section();
    compile_session(&mut builder, &context)?;
    let session = builder.take_section();
    compile_record(&mut builder, &context);
    let record = builder.take_section();
    compile_hooks(&mut builder, &context)?;
    let hooks = builder.take_section();
    compile_root(&mut builder, &context)?;
    let capabilities = process::limit_capabilities(&mut builder, context.process);
    let root = builder.take_section();
    compile_interior(&mut builder, &context)?;
    let interior = builder.take_section();
    let process_context = ProcessContext {
        preserve_fds: request.preserve_fds,
        may_lack_setgroups: context.namespaces.user() || request.caller.setgroups_denied,
        keep_groups: context.keep_groups,
        seccomp: context.filter.is_some(),
        capabilities,
        without_null: match context.dev_is_bound() {
            true => WithoutNull::Keep,
            false => WithoutNull::Refuse,
        },
        execution: &execution,
    };
    process::compile_identity(&mut builder, context.process, process_context)?;
    // `low-nofile-last`
    if !low_limits.is_empty() {
        builder.init(InitStep::LimitResources(keep::all(low_limits)));
    }
    let identity = builder.take_section();
    let is_stripped = clone.parent.iter().any(|step| {
        let ParentStep::Clone { intermediate, .. } = step else { return false };
        intermediate.is_some_and(|Intermediate { user, .. }| user.is_none())
    });
    program::compile(&mut builder, &context, is_stripped)?;
    let program = builder.take_section();

    // Then both lists, section by section: ARCHITECTURE, "A start".
    let (parent, init, slots) = builder.finish(
        [
            sources.parent, // `cgroup-before-trees`, `sources-before-mounts`
            mounts.parent,
            late_mounts.parent,
            pins,
            clone.parent,
            record.parent,
            hooks.parent,
            program.parent,
        ],
        [
            clone.init,
            made,
            session.init,
            mounts.init,
            hooks.init,
            root.init,
            late_mounts.init,
            frozen,
            interior.init,
            identity.init,
            program.init,
        ],
    )?;
    let warnings = builder.warnings.into_iter().chain(ignored(&context));
    Ok(check::finished(Plan {
        id: request.id.to_string(),
        parent,
        init,
        slots,
        descriptors,
        warnings: warnings.collect(),
        runtime_hooks,
        state: state::state(request.id, request.bundle, &spec.annotations)?,
        cgroup: compile_cgroup(&context)?,
        execution,
        rootfs: request
            .rootfs
            .and_then(|given| given.recipe())
            .map(|recipe| Box::new(recipe.clone())),
        resctrl: linux
            .intel_rdt
            .as_ref()
            .zip(request.resctrl.clone())
            .map(|(rdt, group)| ResctrlPlan::Create { group, schemata: Schemata::of(rdt) }),
        filter: context.filter,
    }))
}

/// Returns a warning for each setting that has no effect: the mappings without a user namespace, and the limits that a
/// cgroup on cgroup v2 lacks.
fn ignored(context: &Context<'_, '_>) -> impl Iterator<Item = String> {
    let Context { linux, request, namespaces, .. } = context;
    let unified = request.cgroup.as_ref().is_some_and(cgroup::Location::is_unified);
    let resources = linux.resources.as_deref().filter(|_| unified);
    let limits = resources.into_iter().flat_map(cgroup::ignored_on_v2);
    let limit = |name| format!("linux.resources.{name} is ignored: cgroup v2 has no such limit");
    let has_ignored = has_mappings(linux) && !namespaces.user();
    let mappings = "linux.uidMappings and gidMappings are ignored: there is no user namespace";
    limits.map(limit).chain(has_ignored.then(|| mappings.to_string()))
}

/// Adds the steps that come before any part of the container exists, and its cgroup.
fn compile_sources(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    let Context { spec, request, process, .. } = context;
    let undumpable = !context.maps_ids();
    open_sources(builder, process, request.console, &request.caller, undumpable)?;
    confinement::require(builder, process, spec.linux.as_deref());
    if context.birth.parallel_network {
        builder.parent(ParentStep::MakeNetwork);
    }
    builder.parent(ParentStep::CreateCgroup);
    Ok(())
}

/// Adds the steps that create the session and the session keyring.
fn compile_session(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    builder.init(InitStep::NewSession);
    match context.request.no_new_keyring {
        true => Ok(()),
        false => confinement::compile_keyring(builder, context.request.id, context.process),
    }
}

/// Adds the steps by which the parent sets what only init has, and records init.
fn compile_record(builder: &mut Builder, context: &Context<'_, '_>) {
    process::compile_oom_score(builder, context.process, &context.request.caller);
    if context.linux.intel_rdt.is_some() && context.request.resctrl.is_some() {
        builder.parent(ParentStep::EnterResctrl);
    }
    builder.parent(ParentStep::RecordBirth);
}

/// Adds the hooks that run before the root filesystem is entered.
fn compile_hooks(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    if context.awaits_hooks() {
        builder.init(InitStep::AwaitHooks);
        if context.shown_to_hooks() {
            builder.init(InitStep::Undumpable);
        }
        if let Some(cpus) = context.request.own_cpus {
            builder.parent(ParentStep::RunOn(Box::new(cpus)));
        }
        if context.has_early_scope() {
            builder.parent(ParentStep::AwaitScope(ScopeState::Started));
        }
        builder.parent(ParentStep::RunHooks);
    }
    let inside = &context.spec.hooks.create_container;
    if context.has_start_cpus() && !inside.is_empty() {
        builder.init(InitStep::RunOnEveryCpu);
    }
    let inside = hooks::compile("createContainer", inside, || Ok(Vec::new()))?;
    hooks::add(builder, inside, None, None);
    Ok(())
}

/// Adds the steps by which init makes the root filesystem its root, and the steps that must directly precede or follow
/// them.
fn compile_root(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    if is_off(Defence::AfterPivot) {
        compile_terminal(builder, context);
        compile_protection(builder, context, |_| true)?;
    }
    if !context.namespaces.has(CloneFlags::NEWNS) {
        builder.init(InitStep::EnterRoot);
    } else if !context.birth.from_blank {
        let locked = context.namespaces.user() || context.request.caller.is_confined();
        builder.init(match context.request.no_pivot {
            true => InitStep::ChangeRoot { locked },
            false => InitStep::PivotRoot,
        });
    }
    mounts::compile_root_propagation(builder, context)?;
    if !is_off(Defence::AfterPivot) {
        compile_terminal(builder, context);
    }
    // `protected-inside`, `masks-after-mounts`. Paths that do not depend on the network namespace come first, so that
    // init need not wait for this namespace.
    compile_protection(builder, context, |path| !context.covers_network(path))
}

/// Adds the steps that follow all mounts: host name, kernel parameters, the rest of the protection.
fn compile_interior(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    compile_uts_and_sysctl(builder, context.spec, context.linux)?;
    compile_protection(builder, context, |path| context.covers_network(path))?;
    if context.spec.root.as_ref().is_some_and(|root| root.readonly) {
        // `read-only-last`
        builder.init(read_only_root());
    }
    // As late as possible, so that init mounts on the start CPUs.
    if context.has_start_cpus() && context.spec.hooks.create_container.is_empty() {
        builder.init(InitStep::RunOnEveryCpu);
    }
    Ok(())
}

/// Returns the plan for the cgroup, which dayfly or systemd sets up.
fn compile_cgroup(context: &Context<'_, '_>) -> Result<Option<CgroupPlan>, Error> {
    let Context { spec, request, linux, .. } = context;
    let Some(location) = request.cgroup.clone() else { return Ok(None) };
    let resources = resources(linux);
    Ok(Some(match location.unit {
        None => CgroupPlan::Create { location, resources, as_user: request.rootless },
        Some(_) => {
            let annotations = spec.annotations.iter().map(|(key, value)| (&**key, &**value));
            let properties = cgroup::systemd::annotated(annotations)?;
            CgroupPlan::Scope { location, resources, properties, early: context.has_early_scope() }
        }
    }))
}

/// Returns the limits of the configuration, with the default device rules appended.
fn resources(linux: &Linux<'_>) -> Box<Resources> {
    let mut resources = linux.resources.clone().unwrap_or_default();
    let replaced = |path: &str| linux.devices.iter().any(|device| device.path == path);
    resources.devices.extend(cgroup::devices::default_rules(replaced));
    resources
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

/// Returns whether a mount follows all others, because it waits for the network namespace.
fn is_late(context: &Context<'_, '_>, in_turn: bool, mount: &spec::Mount<'_>) -> bool {
    !in_turn && context.shows_network(&mount.destination)
}

/// Adds the root filesystem, and all mounts but those that wait for the network namespace. With `in_turn`, init waits
/// for that namespace just before the first mount that shows it.
fn compile_mounts(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    in_turn: bool,
) -> Result<(), Error> {
    mounts::compile_root(builder, context)?;
    let mut waits = context.birth.parallel_network;
    for mount in context.spec.mounts.iter().filter(|mount| !is_late(context, in_turn, mount)) {
        if waits && context.shows_network(&mount.destination) {
            builder.init(InitStep::JoinNetwork);
            waits = false;
        }
        mounts::compile_mount(builder, context, mount)?;
    }
    devices::compile(builder, context)?;
    let cwd = InRoot::new(&*context.process.cwd);
    if cwd != "/" {
        builder.init(InitStep::MakeDirectory { path: in_root(&cwd)? });
    }
    Ok(())
}

/// Adds the mounts that wait for the network namespace. If there are none, and none of [`compile_mounts`] has waited,
/// init joins the namespace all the same.
fn compile_late_mounts(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    in_turn: bool,
) -> Result<(), Error> {
    let mut mounts = context.spec.mounts.iter();
    let has_joined = in_turn && mounts.any(|mount| context.shows_network(&mount.destination));
    if context.birth.parallel_network && !has_joined {
        builder.init(InitStep::JoinNetwork);
    }
    let mut late = context.spec.mounts.iter().filter(|mount| is_late(context, in_turn, mount));
    late.try_for_each(|mount| mounts::compile_mount(builder, context, mount))
}

fn compile_terminal(builder: &mut Builder, context: &Context<'_, '_>) {
    let Context { request, process, .. } = context;
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
