//! Spec to plan: decides everything that can be decided before the clone.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use cgroup::resctrl::Schemata;
use spec::resources::Resources;
use spec::{Linux, Process, Spec};
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
use crate::listener;
use crate::namespaces::Namespaces;
use crate::path::{absolute, c_string, clean, in_root};
use crate::process::{self, Around};
use crate::request::{Console, Request};
use crate::state::StateText;
use crate::step::{DeviceSource, HostStep, InitStep, Memory, Slot};
use crate::technique::Techniques;
use crate::{CgroupPlan, Error, Kernel, Plan, ResctrlPlan, devices, mounts};

/// Whether the container's network namespace is made by a process of its own, which is better started
/// early.
pub fn makes_network(spec: &Spec<'_>, request: &Request<'_>) -> bool {
    spec.linux.as_ref().is_some_and(|linux| {
        Birth::of(spec, linux, &Namespaces::of(linux), request).parallel_network
    })
}

/// Compiles a validated configuration. Changes nothing on the system.
///
/// # Errors
/// A value that cannot be, or that dayfly does not support, by name.
pub fn compile(spec: &Spec<'_>, request: &Request<'_>) -> Result<Plan, Error> {
    request.kernel.check()?;
    let process =
        spec.process.as_ref().ok_or_else(|| Error::config("process property must not be empty"))?;
    let root = spec.root.as_ref().ok_or_else(|| Error::config("root is missing"))?;
    let empty = Linux::default();
    let linux = spec.linux.as_deref().unwrap_or(&empty);
    request.caller.check(spec, linux)?;
    let namespaces = Namespaces::of(linux);
    let context = Context {
        bundle: request.bundle,
        rootfs: match &request.rootfs {
            Some(layered) => layered.place.into(),
            None => absolute(request.bundle, &root.path),
        },
        layers: request.rootfs.as_ref().map(|layered| layered.recipe),
        linux,
        mounts: &spec.mounts,
        birth: Birth::of(spec, linux, &namespaces, request),
        namespaces,
        cgroup: request.cgroup.as_ref().or(request.shown_cgroup.as_ref()),
        caller: &request.caller,
        has_start_cpus: request.own_cpus.is_some(),
    };
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
    let mut builder = Builder::new(request.caller.is_confined());
    // Else its ids could not be mapped (namespaces.rs).
    let maps_ids =
        request.caller.is_rootless() && context.namespaces.new.contains(CloneFlags::NEWUSER);
    open_sources(&mut builder, process, request.console, &request.caller, !maps_ids)?;
    confinement::require(&mut builder, process, spec.linux.as_deref());
    if context.birth.parallel_network {
        builder.host(HostStep::MakeNetwork);
    }

    // Host steps up to the clone are interleaved with the init steps they prepare.
    let mut rootfs = Builder::new(request.caller.is_confined());
    rootfs.slots = builder.slots;
    let mut waiting = Waiting::default();
    compile_rootfs(&mut rootfs, &mut waiting, spec, &context)?;
    builder.slots = rootfs.slots;
    builder.taken.append(&mut rootfs.taken);
    // First the cgroup: on v1 its directories are among the trees to take.
    builder.host(HostStep::CreateCgroup);
    builder.host.append(&mut rootfs.host);
    let limits = process::limits(process)?;
    let execution = Execution::of(linux)?;
    clone::compile(&mut builder, &context, limits)?;

    compile_platform(&mut builder, request, process)?;
    builder.init.append(&mut rootfs.init);
    let outside = || Ok(request.env.environment().map(CString::from).collect());
    let runtime_hooks = [
        hooks::compile("prestart", &spec.hooks.prestart, outside)?,
        hooks::compile("createRuntime", &spec.hooks.create_runtime, outside)?,
    ];
    let has_runtime_hooks = runtime_hooks.iter().any(|hooks| !hooks.list.is_empty());
    process::compile_oom_score(&mut builder, process, &request.caller);
    let resctrl = linux.intel_rdt.as_ref().zip(request.resctrl.clone());
    if resctrl.is_some() {
        builder.host(HostStep::EnterResctrl);
    }
    builder.host(HostStep::RecordBirth);
    if has_runtime_hooks {
        builder.init(InitStep::AwaitHooks);
        if let Some(cpus) = request.own_cpus {
            builder.host(HostStep::RunOn(Box::new(cpus)));
        }
        builder.host(HostStep::RunHooks);
    }
    // As late as it can be: what init mounts is what the CPUs to start from are for.
    let hooks_in_init = !spec.hooks.create_container.is_empty();
    if context.has_start_cpus && hooks_in_init {
        builder.init(InitStep::RunOnEveryCpu);
    }
    let before_root = &spec.hooks.create_container;
    add_hooks(&mut builder, "createContainer", before_root, || Ok(Vec::new()))?;
    if is_off(Defence::AfterPivot) {
        compile_terminal(&mut builder, process, request, &context);
        compile_protection(&mut builder, &context, |_| true)?;
    }
    if !context.namespaces.has(CloneFlags::NEWNS) {
        builder.init(InitStep::EnterRoot);
    } else if !context.birth.from_template {
        builder.init(if request.no_pivot { InitStep::ChangeRoot } else { InitStep::PivotRoot });
    }
    mounts::compile_root_propagation(&mut builder, &context)?;
    if !is_off(Defence::AfterPivot) {
        compile_terminal(&mut builder, process, request, &context);
    }
    // What does not show the network first, so that nobody has to wait for it.
    compile_protection(&mut builder, &context, |path| !context.shows_network(path))?;
    builder.init.append(&mut waiting.for_network);
    builder.init.append(&mut waiting.for_mounts);
    compile_uts_and_sysctl(&mut builder, spec, linux)?;
    compile_protection(&mut builder, &context, |path| context.shows_network(path))?;
    if root.readonly {
        builder.init(read_only_root());
    }

    if context.has_start_cpus && !hooks_in_init {
        builder.init(InitStep::RunOnEveryCpu);
    }
    let around = Around {
        preserve_fds: request.preserve_fds,
        may_lack_setgroups: context.namespaces.user() || request.caller.setgroups_denied,
        seccomp: filter.is_some(),
        execution: &execution,
    };
    process::compile_identity(&mut builder, process, around)?;
    let listens = filter.as_ref().filter(|filter| filter.has_listener());
    let from = 3 + request.preserve_fds;
    if request.wait_for_start || listens.is_some() {
        builder.init(InitStep::ReleaseDescriptors { from });
    }
    if let (Some(filter), Some(profile)) = (listens, linux.seccomp) {
        // While the host actor is there to send the listener to its agent, and so before `start`.
        listener::compile(&mut builder, process, filter, profile.get())?;
    }
    compile_handshake(&mut builder, request, process, context.birth.memory);
    if !request.wait_for_start && listens.is_none() && !spec.hooks.start_container.is_empty() {
        builder.init(InitStep::ReleaseDescriptors { from });
    }
    let of_process = || process::environment(&process.env, &request.extra_env);
    add_hooks(&mut builder, "startContainer", &spec.hooks.start_container, of_process)?;
    process::compile_exec(&mut builder, process, filter.as_ref(), &request.extra_env)?;

    let mut warnings = core::mem::take(&mut builder.warnings);
    if let (Some(location), Some(resources)) = (&request.cgroup, &linux.resources)
        && location.is_unified()
    {
        let ignored = cgroup::ignored_on_v2(resources);
        warnings.extend(
            ignored.map(|name| {
                format!("linux.resources.{name} is ignored: cgroup v2 has no such limit")
            }),
        );
    }
    let (host, init, slots) = builder.finish();
    Ok(Plan {
        id: request.id.to_string(),
        host,
        init,
        slots,
        warnings,
        runtime_hooks,
        state: StateText::new(request.id, request.bundle, &spec.annotations),
        cgroup: request
            .cgroup
            .as_ref()
            .map(|location| cgroup(location, spec, linux, request.rootless))
            .transpose()?,
        execution,
        rootfs: context.layers.map(|recipe| Box::new(recipe.clone())),
        resctrl: resctrl
            .map(|(rdt, group)| ResctrlPlan::Create { group, schemata: Schemata::of(rdt) }),
        filter,
    })
}

/// The end of the set-up. `create` answers once init is ready, and everything is on record before init
/// waits for `start`. With `run` nobody waits for readiness: init goes on once it is on record.
fn compile_handshake(
    builder: &mut Builder,
    request: &Request<'_>,
    process: &Process<'_>,
    memory: Memory,
) {
    let one_way = !request.wait_for_start
        && request.kernel.techniques.contains(Techniques::ONE_WAY_HANDSHAKE);
    if !one_way {
        builder.init(InitStep::AnnounceReady);
        builder.host(HostStep::AwaitReady);
    }
    builder.init(InitStep::AwaitCommit);
    builder.host(HostStep::Commit);
    if request.wait_for_start {
        builder.init(InitStep::AwaitStart);
        return;
    }
    if !request.attended {
        builder.host(HostStep::AwaitExec);
    }
    let is_own = memory == Memory::Shared || request.caller.is_confined();
    if is_own && process.oom_score_adj.is_some() {
        builder.host(HostStep::RestoreOomScore);
    }
}

/// The cgroup, made by us or by systemd.
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
    let properties = cgroup::systemd::annotated(annotations)
        .map_err(|error| Error::Config(error.to_string()))?;
    Ok(CgroupPlan::Scope { location, resources, properties })
}

/// The limits, with the device rules that every container gets after its own.
fn resources(linux: &Linux<'_>) -> Box<Resources> {
    let mut resources = linux.resources.clone().unwrap_or_default();
    let replaced = |path: &str| linux.devices.iter().any(|device| clean(&device.path) == path);
    resources.devices.extend(cgroup::devices::default_rules(replaced));
    resources
}

/// The program of a seccomp profile.
///
/// # Errors
/// What is wrong with the profile, by name.
pub fn compile_seccomp(profile: &str, kernel: &Kernel) -> Result<seccomp::Program, Error> {
    let profile = seccomp::Profile::parse(profile)?;
    Ok(seccomp::compile(&profile, &kernel.seccomp)?)
}

/// What must be open before anything of the container exists.
pub(crate) fn open_sources(
    builder: &mut Builder,
    process: &Process<'_>,
    console: Option<Console<'_>>,
    caller: &Caller,
    undumpable: bool,
) -> Result<(), Error> {
    if caller.is_confined() {
        builder.host(HostStep::OpenProc);
        process::compile_inherited_oom_score(builder, process, caller);
        if undumpable {
            builder.host(HostStep::Undumpable);
        }
    } else {
        builder.host(HostStep::Undumpable);
        builder.host(HostStep::OpenProc);
    }
    if let Some(Console::Socket(path)) = console {
        builder.host(HostStep::ConnectConsole { path: c_string(path)? });
    }
    Ok(())
}

/// Steps of init that wait for others.
#[derive(Default)]
struct Waiting {
    /// Until it is in its network namespace.
    for_network: Vec<InitStep>,
    /// Until everything is mounted: a tmpfs becomes read-only once it has what belongs in it.
    for_mounts: Vec<InitStep>,
}

fn compile_rootfs(
    builder: &mut Builder,
    waiting: &mut Waiting,
    spec: &Spec<'_>,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    mounts::compile_root(builder, context)?;
    let in_turn = context.birth.mounts_in_turn;
    let late = |mount: &&spec::Mount<'_>| !in_turn && context.shows_network(&mount.destination);
    let mut waits = context.birth.parallel_network;
    for mount in spec.mounts.iter().filter(|mount| !late(mount)) {
        if waits && in_turn && context.shows_network(&mount.destination) {
            builder.init(InitStep::JoinNetwork);
            waits = false;
        }
        mounts::compile_mount(builder, &mut waiting.for_mounts, context, mount)?;
    }
    if context.linux.masked_paths.iter().any(|path| !path.is_empty()) {
        builder.take_device(DeviceSource {
            slot: Slot::NULL,
            path: c_string("/dev/null")?,
            file_type: spec::DeviceKind::Char.file_type(),
            major: 1,
            minor: 3,
        });
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
    if in_root(cwd)?.as_bytes().is_empty() {
        return Ok(());
    }
    builder.init(InitStep::MakeDirectory { path: in_root(cwd)? });
    Ok(())
}

/// Session and keyring.
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
            size: process.console_size.as_ref().map(|size| (size.height, size.width)),
            uid: process.user.uid,
            bind: !context.is_mounted("/dev/console"),
            carried: matches!(request.console, Some(Console::Given)),
        });
    }
}

fn compile_uts_and_sysctl(
    builder: &mut Builder,
    spec: &Spec<'_>,
    linux: &Linux<'_>,
) -> Result<(), Error> {
    if let Some(name) = &spec.hostname {
        builder.init(InitStep::SetHostname(name.to_string()));
    }
    if let Some(name) = &spec.domainname {
        builder.init(InitStep::SetDomainname(name.to_string()));
    }
    for (key, value) in &linux.sysctl {
        builder.init(InitStep::WriteSysctl {
            path: c_string(format!("sys/{}", spec::sysctl::path(key)))?,
            value: value.to_string(),
        });
    }
    Ok(())
}

fn read_only_root() -> InitStep {
    let attr = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
    InitStep::SetMountAttr { path: c"".into(), recursive: false, attr }
}

/// Read-only and masked paths, those that `now` is true of.
fn compile_protection(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    now: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let wanted = |path: &&spec::Str<'_>| !path.is_empty() && now(path);
    for path in context.linux.readonly_paths.iter().filter(wanted) {
        let path = in_root(path)?;
        // A mount over the root would not be the root of anybody who is in there already.
        builder.init(match path.is_empty() {
            true => read_only_root(),
            false => InitStep::ReadonlyPath { path },
        });
    }
    for path in context.linux.masked_paths.iter().filter(wanted) {
        builder.init(InitStep::MaskPath {
            path: in_root(path)?,
            shared: context.birth.shared_masks,
            context: confinement::mount_context("tmpfs", context.linux)?,
        });
    }
    Ok(())
}

fn add_hooks(
    builder: &mut Builder,
    kind: &'static str,
    list: &[spec::Hook<'_>],
    inherited: impl Fn() -> Result<Vec<CString>, Error>,
) -> Result<(), Error> {
    let hooks = hooks::compile(kind, list, inherited)?;
    if !hooks.list.is_empty() {
        builder.init(InitStep::RunHooks(hooks));
    }
    Ok(())
}
