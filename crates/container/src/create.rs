//! `create` and `run`: from a bundle to a container.

use plan::{Kernel, Plan};
use rustix::fd::OwnedFd;
use spec::Spec;
use sys::clone::Child;
use trace::{PROGRAM, Phase};

use crate::bundle::Bundle;
use crate::console::{Console, Terminal};
use crate::layered::{self, Prepared};
use crate::make::make;
use crate::notify::{Manager, Relay};
use crate::options::{CreateOptions, RunOptions};
use crate::request::{place, request};
use crate::start_cpus::StartCpus;
use crate::{Error, Store, Warn, foreground, hooks, pid_file, placement};

/// Makes a container that waits for `start`.
///
/// # Errors
/// Whatever is wrong with id, bundle, configuration or host. Nothing is left then.
pub fn create(store: &Store, options: &CreateOptions<'_>) -> Result<(), Error> {
    attempt(options, |options, connected| try_create(store, options, connected))
}

/// Makes an attempt, and another one with an init that moves to its cgroup if the kernel kills what is born there:
/// over the same connection to the console socket, whose listener may take one alone. With a socket for the pidfd
/// init moves in any case, as the pidfd of one that was killed could not be taken back.
fn attempt<'a, T>(
    options: &CreateOptions<'a>,
    make: impl Fn(&CreateOptions<'a>, Option<OwnedFd>) -> Result<T, Error>,
) -> Result<T, Error> {
    if options.pidfd_socket.is_some() {
        return make(&options.born_outside(), None);
    }
    match make(options, None) {
        Err(error) => {
            let connected = error.stillborn()?;
            // The warnings have been given.
            make(&CreateOptions { warn: Warn::default(), ..options.born_outside() }, connected)
        }
        result => result,
    }
}

fn try_create(
    store: &Store,
    options: &CreateOptions<'_>,
    connected: Option<OwnedFd>,
) -> Result<(), Error> {
    let trace = store.trace();
    let cpus = StartCpus::enter(options.start_cpus.as_ref(), trace)?;
    let bundle = Bundle::load(options, trace)?;
    let mut spec = bundle.parse(trace)?;
    let prepared = prepare_layers(store, options, &bundle, &mut spec)?;
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let console = Console::prepare(terminal, options.console_socket, true, connected, trace)?;
    let tier = place(&mut spec, options, trace)?;
    trace.point("find", "cgroup")?;
    let mut request = request(options, &bundle, &spec, true, console.source(), tier.as_ref())?;
    request.own_cpus = cpus.own();
    if let Some(manager) = Manager::of(options.env) {
        manager.add(&mut spec, &mut request, store.path())?;
    }
    let made = make(store, options, &bundle, &spec, request, console, prepared.as_ref())?;
    if let Some(tier) = tier {
        tier.keep();
    }
    // The lock stays until this process has ended: until then its memory is init's as well, and nobody
    // must be let in who could trace that.
    core::mem::forget(made);
    Ok(())
}

/// Makes a container and runs its program: to its end, or with `detach` only up to its start.
/// Returns the exit status.
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
    let cpus = StartCpus::enter(create.start_cpus.as_ref(), trace)?;
    let bundle = Bundle::load(create, trace)?;
    let mut spec = bundle.parse(trace)?;
    let prepared = prepare_layers(store, create, &bundle, &mut spec)?;
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let mut console =
        Console::prepare(terminal, create.console_socket, options.detach, connected, trace)?;
    let ours = console.take_receiver();
    let signals = match options.detach {
        true => None,
        false => Some(foreground::Signals::block(!options.no_subreaper, trace)?),
    };
    let tier = place(&mut spec, create, trace)?;
    trace.point("find", "cgroup")?;
    let mut request = request(create, &bundle, &spec, false, console.source(), tier.as_ref())?;
    request.own_cpus = cpus.own();
    let manager = Manager::of(create.env);
    if let Some(manager) = manager {
        manager.add(&mut spec, &mut request, store.path())?;
    }
    // Whether the program began is then heard with its end, and nobody is woken in between.
    request.attended =
        !options.detach && !terminal && !trace.is_on() && spec.hooks.poststart.is_empty();
    let mut made = make(store, create, &bundle, &spec, request, console, prepared.as_ref())?;
    if let Some(tier) = tier {
        tier.keep();
    }
    let started = cpus.leave(trace).and_then(|()| hooks::after_start(&made.container));
    let notify = manager.zip(made.notify.take());
    let mut status = match (signals, started) {
        (_, Err(error)) => Err(error),
        (None, Ok(())) => {
            if let Some((manager, listener)) = notify {
                let Child { pid, pidfd } = &made.child;
                // That the manager has gone is no reason to end the container (runc ignores it too).
                let _ = trace.wait(Phase::Sync, "await readiness", "", PROGRAM, || {
                    manager.await_ready(&listener, *pid, pidfd)
                });
            }
            Ok(0)
        }
        (Some(signals), Ok(())) => Terminal::receive(ours, trace).and_then(|terminal| {
            trace.wait(Phase::Program, "container runs", "", PROGRAM, || {
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
        status = Err(made.container.reason_of(error, create.techniques).into());
    }
    if let (Err(_), Some(path)) = (&status, create.pid_file) {
        pid_file::remove(path);
    }
    if (!options.detach && !options.keep) || status.is_err() {
        let removed = made.container.remove(true, create.warn);
        // What failed first counts.
        return status.and_then(|code| removed.map(|()| code));
    }
    status
}

/// Decides about layers, where the command line names some.
fn prepare_layers<'a>(
    store: &Store,
    options: &CreateOptions<'a>,
    bundle: &Bundle,
    spec: &mut Spec<'a>,
) -> Result<Option<Prepared>, Error> {
    let Some(layered) = options.layered else { return Ok(None) };
    if layered.stats && !store.trace().is_on() {
        store.trace().turn_on();
    }
    if let Some(image) = &layered.image {
        image.apply(spec)?;
    }
    store
        .trace()
        .work(Phase::Configuration, "prepare layers", &layered.layers, || {
            let version = Kernel::probe().version;
            layered::prepare(store, options.id, &bundle.path, layered, spec, version)
        })
        .map(Some)
}

/// Compiles a bundle's configuration without running it: `dayfly plan`.
///
/// # Errors
/// As [`create`].
pub fn compile(options: &CreateOptions<'_>) -> Result<Plan, Error> {
    let bundle = Bundle::read(options)?;
    let mut spec = bundle.spec()?;
    placement::pin(&mut spec, options)?;
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let console = terminal.then_some(plan::Console::Given);
    let mut request = request(options, &bundle, &spec, true, console, None)?;
    // A start of root's would have it.
    request.template = !request.caller.is_confined();
    Ok(plan::compile(&spec, &request)?)
}
