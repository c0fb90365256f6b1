//! `create` and `run`: create a container from a bundle.

use core::cell::Cell;

use plan::Plan;
use rustix::fd::OwnedFd;
use spec::Spec;
use sys::clone::Child;
use trace::{PROGRAM, Phase};

use crate::admission::admit;
use crate::bundle::Bundle;
use crate::console::Terminal;
use crate::create_context::{CreateContext, Purpose};
use crate::directory::check_id;
use crate::make::LaunchedContainer;
use crate::notify::Relay;
use crate::options::{CreateOptions, RunOptions};
use crate::start_cpus::StartCpus;
use crate::{Error, Store, Warn, foreground, hooks, pid_file, template};

/// A container that waits for `start`.
#[derive(Debug)]
pub struct Created {
    /// The container's init.
    pub init: Child,
    /// The location of the container's cgroup, if the container has a cgroup of its own.
    pub cgroup: Option<cgroup::Location>,
}

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
    // A second attempt parses the configuration again.
    let parsed = Cell::new(Some(spec));
    attempt(options, |options, connected| {
        let spec = parsed.take().map_or_else(|| bundle.spec(options.warn), Ok)?;
        try_create(store, options, bundle, spec, connected)
    })
}

/// Calls `make`, and calls it again without a template if the template does not fork the program.
///
/// Each time, `make` is called again without CLONE_INTO_CGROUP if the kernel kills the new process because of an earlier
/// write to cgroup.kill. The second call uses the first call's connection to the console socket, since the listener may
/// accept only one connection. If the caller requests the pidfd, there is only one call, without CLONE_INTO_CGROUP,
/// since the pidfd of a killed process could not be withdrawn.
fn attempt<'a, T>(
    options: &CreateOptions<'a>,
    make: impl Fn(&CreateOptions<'a>, Option<OwnedFd>) -> Result<T, Error>,
) -> Result<T, Error> {
    match attempt_once(options, &make) {
        Err(Error::NotForked { template, reason }) if options.pidfd_socket.is_none() => {
            template::fall_back(options.warn, &template, &reason);
            attempt_once(&options.executed(), &make)
        }
        result => result,
    }
}

fn attempt_once<'a, T>(
    options: &CreateOptions<'a>,
    make: &impl Fn(&CreateOptions<'a>, Option<OwnedFd>) -> Result<T, Error>,
) -> Result<T, Error> {
    if options.pidfd_socket.is_some() {
        return make(&options.born_outside(), None);
    }
    match make(options, None) {
        Err(error) => {
            let connected = error.stillborn()?;
            // The first call has already printed the warnings.
            make(&CreateOptions { warn: Warn::default(), ..options.born_outside() }, connected)
        }
        result => result,
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
    let mut context = CreateContext::begin(store, options, bundle, spec, Purpose::Start)?;
    context.find_template()?;
    let console = context.console(true, connected)?;
    let request = context.ask(&cpus, console.source(), true)?;
    // Hooks and the container's process get the default action.
    sys::signal::ignore_file_size(true);
    let made = context.make(request, console)?;
    if let Some(pooled) = context.pooled {
        pooled.keep();
    }
    let LaunchedContainer { container, child, pending, notify, _rootfs, .. } = made;
    let created = Created { init: child, cgroup: container.cgroup_location().cloned() };
    // The descriptor of the lock stays open until this process exits. Until then init shares the memory of this
    // process, so no process that could trace init may enter the container.
    core::mem::forget((container, pending, notify, _rootfs));
    Ok(created)
}

/// Creates a container and runs its program. Waits for the program's exit and returns its exit status; with `detach`,
/// waits only for the program's start and returns 0.
///
/// # Errors
/// As [`create`].
pub fn run(store: &Store, options: &RunOptions<'_>) -> Result<i32, Error> {
    attempt(&options.create, |create, connected| try_run(store, options, create, connected))
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
    let mut context = CreateContext::begin(store, create, &bundle, spec, Purpose::Start)?;
    context.find_template()?;
    let mut console = context.console(options.detach, connected)?;
    let ours = console.take_receiver();
    let signals = match options.detach {
        true => {
            sys::signal::ignore_file_size(true);
            None
        }
        false => Some(foreground::Signals::block(!options.no_subreaper, trace)?),
    };
    let mut request = context.ask(&cpus, console.source(), false)?;
    request.terminal_size = ours.as_ref().and_then(|_| Terminal::own_size());
    let has_terminal = context.spec.process.as_ref().is_some_and(|process| process.terminal);
    // If no action depends on the program's start, the kernel need not wake this process at that
    // time: the process learns at the program's exit that the program was started.
    request.attended = !options.detach
        && !has_terminal
        && !trace.is_on()
        && permit.is_none()
        && context.spec.hooks.poststart.is_empty();
    // In the foreground the signal is blocked, and would end this process when it is not blocked any more.
    let made = context.make(request, console);
    let mut made = made.inspect_err(|_| sys::signal::ignore_file_size(true))?;
    drop(permit);
    let CreateContext { spec, manager, pooled, prepared, .. } = context;
    if let Some(pooled) = pooled {
        pooled.keep();
    }
    let started = cpus.leave(trace).and_then(|()| hooks::after_start(&made.container));
    let notify = manager.zip(made.notify.take());
    let mut status = match (signals, started) {
        (_, Err(error)) => Err(error),
        (None, Ok(())) => {
            if let Some((manager, listener)) = notify {
                let Child { pid, pidfd } = &made.child;
                // If the manager is missing, the container still runs, as with runc.
                let _ = trace.wait(Phase::Sync, "await readiness", "", PROGRAM, || {
                    manager.await_ready(&listener, *pid, pidfd)
                });
            }
            Ok(0)
        }
        (Some(signals), Ok(())) => Terminal::receive(ours, trace).and_then(|terminal| {
            trace.wait(Phase::Program, "container runs", "", PROGRAM, || {
                trace.prepare(create.id);
                let notify = notify.map(|(manager, listener)| Relay::new(manager, listener));
                signals.wait(&made.child, terminal.as_ref(), made.pending.as_mut(), notify)
            })
        }),
    };
    made.program_ran(trace, &spec);
    if let Some(prepared) = prepared.filter(|_| create.layered.is_some_and(|layered| layered.stats))
    {
        let _ = core::fmt::Write::write_str(&mut sys::stdio::Stderr, &prepared.stats(trace));
    }
    if let (Some(pending), Ok(code)) = (made.pending, &status)
        && let Err(error) = pending.outcome(code.checked_sub(128))
    {
        status = Err(made.container.reason_of(error, create.fast_paths).into());
    }
    if let (Err(_), Some(path)) = (&status, create.pid_file) {
        pid_file::remove(path);
    }
    if (!options.detach && !options.keep) || status.is_err() {
        let removed = made.container.remove(true, create.warn);
        // If both fail, the error of the run is returned.
        return status.and_then(|code| removed.map(|()| code));
    }
    status
}

/// Compiles the plan that [`create`] would execute, or [`run`] if the program does not wait for `start`: `dayfly plan`.
/// The configuration goes the same way as in these functions, but nothing is changed on the host.
///
/// # Errors
/// As [`create`].
pub fn compile(
    store: &Store,
    options: &CreateOptions<'_>,
    wait_for_start: bool,
) -> Result<Plan, Error> {
    let bundle = Bundle::read(options)?;
    attempt(options, |options, _| {
        let spec = bundle.spec(options.warn)?;
        let cpus = StartCpus::enter(options.start_cpus, store.trace(), options.warn)?;
        let mut context = CreateContext::begin(store, options, &bundle, spec, Purpose::Plan)?;
        context.find_template()?;
        let terminal = context.spec.process.as_ref().is_some_and(|process| process.terminal);
        let console = match options.console_socket.filter(|_| terminal) {
            Some(socket) => Some(plan::Console::Socket(socket)),
            None => terminal.then_some(plan::Console::Foreground),
        };
        let request = context.ask(&cpus, console, wait_for_start)?;
        context.plan(request)
    })
}
