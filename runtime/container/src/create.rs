//! `create` and `run`: create a container from a bundle.
//!
//! A start hands its data on in these structures, in this order (parts in brackets):
//!
//!  1. [`CreateOptions`], [`Bundle`], [`Spec`]: command line and configuration
//!  2. [`CreateContext`]: the configuration after the passes (`passes.rs`), and what they have taken on the host
//!  3. [`StartMode`], [`plan::Request`] (caller, kernel): all other input of the plan
//!  4. plan: context (namespaces, birth; the process's), builder (sections), [`Plan`] (execution)
//!  5. `store::Claim`: the container's directory, and the lock
//!  6. launch: [`launch::Born`] (the parent), attempt, init's job, [`launch::Launched`]
//!  7. [`crate::Container`] (header, record)

use alloc::vec::Vec;

use plan::{FastPaths, Plan};
use rustix::fd::{AsFd, OwnedFd};
use spec::Spec;
use sys::clone::Child;
use trace::{PROGRAM, Phase};

use crate::admission::admit;
use crate::bundle::Bundle;
use crate::checkpoint::{Published, RestoreOptions, restore_from, restore_waiting};
use crate::console::Terminal;
use crate::create_context::CreateContext;
use crate::directory::check_id;
use crate::notify::Relay;
use crate::options::{CreateOptions, Purpose, RunOptions};
use crate::request::StartMode;
use crate::start_cpus::StartCpus;
use crate::{Error, Store, TemplateUse, Warn, foreground, hooks, pid_file, template};

/// Init of a container that waits for `start`, and the location of the container's cgroup, if it has one of its own.
pub type Created = (Child, Option<cgroup::Location>);

/// Creates a container that waits for `start`.
///
/// # Errors
/// If id, bundle or configuration is invalid, or if the host refuses an operation. On failure, nothing is left behind.
pub fn create(store: &Store, options: &CreateOptions<'_>) -> Result<Created, Error> {
    let bundle = Bundle::load(options, store.trace())?;
    let spec = bundle.parse(store.trace(), options.warn)?;
    create_from(store, options, &bundle, spec)
}

/// Creates a container as [`create`] does, from the parsed configuration `spec` of a bundle.
///
/// # Errors
/// Those of [`create`].
pub fn create_from<'a>(
    store: &'a Store,
    options: &CreateOptions<'a>,
    bundle: &'a Bundle,
    spec: Spec<'a>,
) -> Result<Created, Error> {
    check_id(options.id)?;
    if let Some(saved) = Published::find(&spec, &bundle.path, options) {
        let restored = restore_waiting(store, &saved.options(options), bundle, spec)?;
        saved.tidy(options.warn);
        return Ok(restored);
    }
    let mut parsed = Some(spec);
    attempt(options, other_way, |options, connected| {
        let spec = parsed.take().map_or_else(|| bundle.spec(options.warn), Ok)?;
        try_create(store, options, bundle, spec, connected)
    })
}

/// The options of another way, and the connection to the console socket; or the error, if there is none.
pub(crate) type OtherWay<O> = Result<(O, Option<OwnedFd>), Error>;

/// Calls `make`, and again with the options that `other_way` returns for its error, if there are any: the only way back
/// of a start or an exec. The console socket is connected to once, since its listener may accept only one connection.
pub(crate) fn attempt<O, T>(
    options: &O,
    other_way: fn(&O, Error) -> OtherWay<O>,
    mut make: impl FnMut(&O, Option<OwnedFd>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (mut other, mut connected) = (None, None);
    loop {
        let options = other.as_ref().unwrap_or(options);
        match make(options, connected.take()) {
            Err(error) => {
                let (options, console) = other_way(options, error)?;
                (other, connected) = (Some(options), console);
            }
            done => return done,
        }
    }
}

/// Returns the options that avoid this failure, or the error if there are none. Without CLONE_INTO_CGROUP, the kernel
/// does not kill the new process because of an earlier write to cgroup.kill. If the template does not fork the program,
/// init executes it, unless a pidfd was sent: it could not be withdrawn.
#[cold]
fn other_way<'a>(options: &CreateOptions<'a>, error: Error) -> OtherWay<CreateOptions<'a>> {
    // The warnings are printed.
    let mut other = CreateOptions { warn: Warn::default(), ..options.clone() };
    match error {
        Error::Launch(launch::Error::Stillborn(connected)) => {
            other.fast_paths.remove(FastPaths::CLONE_INTO_CGROUP);
            Ok((other, connected))
        }
        Error::NotForked { template, reason } if options.pidfd_socket.is_none() => {
            template::fall_back(options.warn, "template", &template, &reason);
            let args = match options.template {
                Some(TemplateUse::From { args, .. }) => args,
                _ => &[],
            };
            other.template = Some(TemplateUse::Ignored { args });
            Ok((other, None))
        }
        error => Err(error),
    }
}

fn try_create(
    store: &Store,
    options: &CreateOptions<'_>,
    bundle: &Bundle,
    spec: Spec<'_>,
    connected: Option<OwnedFd>,
) -> Result<Created, Error> {
    let trace = store.trace();
    let _permit = admit(trace, options.warn)?;
    let cpus = StartCpus::enter(options.start_cpus, trace, options.warn)?;
    let context = CreateContext::of(store, options, bundle, spec, Purpose::Start)?;
    let console = context.console(true, connected)?;
    let mode = StartMode {
        wait_for_start: true,
        console: console.source(),
        own_cpus: cpus.own(),
        ..StartMode::default()
    };
    // Hooks and the container's process get the default action.
    sys::signal::ignore_file_size(true);
    let (container, launched, notify) = context.make(mode, console)?;
    let created = (launched.child, container.cgroup_location().cloned());
    // The descriptor of the lock stays open until this process exits. Until then init shares the memory of this
    // process, so no process that could trace init may enter the container.
    core::mem::forget((container, launched.pending, launched.scope, launched.rootfs, notify));
    Ok(created)
}

/// Creates a container and runs its program. Waits for the program's exit and returns its exit status; with `detach`,
/// waits only for the program's start and returns 0.
///
/// # Errors
/// As [`create`].
pub fn run(store: &Store, options: &RunOptions<'_>) -> Result<i32, Error> {
    attempt(&options.create, other_way, |create, connected| {
        try_run(store, options, create, connected)
    })
}

fn try_run(
    store: &Store,
    options: &RunOptions<'_>,
    create: &CreateOptions<'_>,
    connected: Option<OwnedFd>,
) -> Result<i32, Error> {
    let trace = store.trace();
    let permit = admit(trace, create.warn)?;
    let cpus = StartCpus::enter(create.start_cpus, trace, create.warn)?;
    let bundle = Bundle::load(create, trace)?;
    let spec = bundle.parse(trace, create.warn)?;
    if !options.keep
        && let Some(saved) = Published::find(&spec, &bundle.path, create)
    {
        let (detach, no_subreaper) = (options.detach, options.no_subreaper);
        let restore =
            RestoreOptions { detach, no_subreaper, waits: false, ..saved.options(create) };
        let status = restore_from(store, &restore, &bundle, spec)?;
        saved.tidy(create.warn);
        return Ok(status);
    }
    let context = CreateContext::of(store, create, &bundle, spec, Purpose::Start)?;
    let mut console = context.console(options.detach, connected)?;
    let ours = console.take_receiver();
    let signals = match options.detach {
        true => {
            sys::signal::ignore_file_size(true);
            None
        }
        false => Some(foreground::Signals::block(!options.no_subreaper, trace)?),
    };
    let mode = StartMode {
        wait_for_start: false,
        // If no action depends on the program's start, the kernel need not wake this process at that time: the process
        // learns at the program's exit that the program was started.
        attended: !options.detach
            && !context.has_terminal()
            && !trace.is_on()
            && permit.is_none()
            && context.spec.hooks.poststart.is_empty(),
        console: console.source(),
        terminal_size: ours.as_ref().and_then(|_| Terminal::own_size()),
        own_cpus: cpus.own(),
    };
    // In the foreground the signal is blocked, and would end this process when it is not blocked any more.
    let made = context.make(mode, console);
    let (container, mut launched, notify) =
        made.inspect_err(|_| sys::signal::ignore_file_size(true))?;
    drop(permit);
    let image = create.layered.and_then(|layered| layered.image.as_ref());
    let has_log = image.is_some_and(|image| image.log.is_some());
    let started = cpus.leave(trace).and_then(|()| hooks::after_start(&container));
    let started = started.and_then(|()| match has_log {
        true => container.keep_exit_status(launched.child.pidfd.as_fd(), create.warn),
        false => Ok(()),
    });
    let notify = context.manager.zip(notify);
    let child = &launched.child;
    let mut status = match (signals, started) {
        (_, Err(error)) => Err(error),
        (None, Ok(())) => {
            let scope = launched.scope.take().map_or(Ok(()), |scope| {
                trace.wait(Phase::Cgroups, "await scope", "started", PROGRAM, || {
                    scope.await_start(child)
                })
            });
            if let (Some((manager, listener)), Ok(())) = (notify, &scope) {
                // If the manager is missing, the container still runs, as with runc.
                let _ = trace.wait(Phase::Sync, "await readiness", "", PROGRAM, || {
                    manager.await_ready(&listener, child.pid, &child.pidfd)
                });
            }
            scope.map(|()| 0).map_err(Error::from)
        }
        (Some(signals), Ok(())) => Terminal::receive(ours, trace).and_then(|terminal| {
            trace.wait(Phase::Program, "container runs", "", PROGRAM, || {
                trace.prepare(create.id);
                let notify = notify.map(|(manager, listener)| Relay::new(manager, listener));
                let pending = launched.pending.as_mut();
                signals.wait(child, terminal.as_ref(), pending, &mut launched.scope, notify)
            })
        }),
    };
    if launched.program_since > 0 {
        let args = context.spec.process.as_ref().and_then(|process| process.args.first());
        let time = (launched.program_since, trace.clock());
        trace.lived(PROGRAM, child.pid, Phase::Program, args.map_or("", |name| name), time);
    }
    if let (Some(prepared), true) =
        (&context.prepared, create.layered.is_some_and(|layered| layered.stats))
    {
        let _ = core::fmt::Write::write_str(&mut sys::stdio::Stderr, &prepared.stats(trace));
    }
    if let (Some(pending), Ok(code)) = (launched.pending, &status)
        && let Err(error) = pending.outcome(code.checked_sub(128))
    {
        let error = container.reason_of(error, context.fast_paths());
        status = Err(context.reason_of(error.into()));
    }
    if status.is_err() {
        pid_file::remove(create.pid_file);
    }
    if (!options.detach && !options.keep) || status.is_err() {
        let removed = container.remove(true, create.warn);
        // If both fail, the error of the run is returned.
        return status.and_then(|code| removed.map(|()| code));
    }
    status
}

/// Compiles the plan that [`create`] would execute, or [`run`] if the program does not wait for `start`: `dayfly plan`.
/// The configuration goes the same way as in these functions, but nothing is changed on the host. Returns the plan, and
/// the passes that have an effect on the configuration.
///
/// # Errors
/// As [`create`].
pub fn compile(
    store: &Store,
    options: &CreateOptions<'_>,
    wait_for_start: bool,
) -> Result<(Plan, Vec<&'static str>), Error> {
    let bundle = Bundle::read(options)?;
    attempt(options, other_way, |options, _| {
        let spec = bundle.spec(options.warn)?;
        let cpus = StartCpus::enter(options.start_cpus, store.trace(), options.warn)?;
        let context = CreateContext::of(store, options, &bundle, spec, Purpose::Plan)?;
        let console = match options.console_socket {
            Some(socket) => plan::Console::Socket(socket),
            None => plan::Console::Foreground,
        };
        let plan = context.plan(StartMode {
            wait_for_start,
            console: context.has_terminal().then_some(console),
            own_cpus: cpus.own(),
            ..StartMode::default()
        })?;
        Ok((plan, context.passes))
    })
}
