//! Collects the data from which a container is created. They come from the bundle, the command line and the host.

use alloc::string::ToString;
use core::cell::RefCell;

use plan::{FastPaths, Kernel, Plan, ProgramStart, Request};
use rustix::fd::OwnedFd;
use spec::{Spec, Str};
use trace::Phase;

use crate::bundle::Bundle;
use crate::console::{Console, Receiver};
use crate::host_cache::HostCache;
use crate::layered::{self, Prepared};
use crate::notify::Manager;
use crate::options::CreateOptions;
use crate::request::{listen_fds, place, request};
use crate::snapshot::{self, Snapshot};
use crate::start_cpus::StartCpus;
use crate::template::{self, NamedBy, Refusal, Template};
use crate::{Error, Store, TemplateUse, Trace};

/// What a [`CreateContext`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A container is made.
    Start,
    /// Its plan is printed. Nothing is changed on the host and nothing is taken: neither id, nor range of ids, nor a
    /// cgroup of a pool.
    Plan,
}

/// The data of a creation, which takes place in four stages: `begin`, `find_template`, `ask`, and `make` (make.rs) or
/// `plan`. Both of the last compile the plan by [`CreateContext::compile_plan`], from the same request.
pub(crate) struct CreateContext<'a> {
    pub purpose: Purpose,
    pub store: &'a Store,
    pub trace: &'static Trace,
    pub options: &'a CreateOptions<'a>,
    pub bundle: &'a Bundle,
    pub spec: Spec<'a>,
    /// The service manager to notify of readiness.
    pub manager: Option<Manager>,
    /// The cgroup taken from a pool.
    pub pooled: Option<cgroup::pool::Taken>,
    /// The root filesystem, if it consists of layers.
    pub prepared: Option<Prepared>,
    /// The root filesystem, if it is given as a list of mounts.
    pub snapshot: Option<Snapshot>,
    /// The template that forks the program, if there is one.
    pub template: Option<Template>,
    /// The reason why the template does not, once it has failed.
    pub refusal: RefCell<Option<Refusal>>,
}

impl<'a> CreateContext<'a> {
    /// Prepares the root filesystem, if it consists of layers or is given as mounts.
    pub fn begin(
        store: &'a Store,
        options: &'a CreateOptions<'a>,
        bundle: &'a Bundle,
        mut spec: Spec<'a>,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let trace = store.trace();
        let prepared = prepare_layers(store, options, bundle, &mut spec, purpose)?;
        let snapshot = prepare_snapshot(store, options, bundle, &mut spec)?;
        if let (Purpose::Plan, Some(snapshot)) = (purpose, &snapshot) {
            // The plan has made nothing on the host that could be released.
            snapshot.keep();
        }
        let manager = Manager::of(options.env);
        let pooled = None;
        let (template, refusal) = (None, RefCell::default());
        Ok(Self {
            purpose,
            store,
            trace,
            options,
            bundle,
            spec,
            manager,
            pooled,
            prepared,
            snapshot,
            template,
            refusal,
        })
    }

    /// Finds the template that the command line or an annotation names, and puts the container inside it. Without a
    /// suitable template, init executes the program. If the container is to become a template, changes its
    /// configuration.
    pub fn find_template(&mut self) -> Result<(), Error> {
        let Self { store, options, spec, .. } = self;
        let (name, by) = match options.template {
            Some(TemplateUse::Become { allowed }) => {
                return template::prepare(spec, options, allowed);
            }
            Some(TemplateUse::From { name, args }) => {
                add_arguments(spec, args);
                (name.to_string(), NamedBy::Option)
            }
            Some(TemplateUse::Ignored { args }) => {
                add_arguments(spec, args);
                return Ok(());
            }
            None => match spec.annotations.get(template::ANNOTATION) {
                Some(name) => (name.to_string(), NamedBy::Annotation),
                None => return Ok(()),
            },
        };
        let passes = options.preserve_fds > 0 || listen_fds(options.env) > 0;
        let found =
            self.trace.work(Phase::Configuration, "find template container", &name, || {
                Ok::<_, Error>(match passes {
                    true => Err("cannot fork a program with descriptors of the caller".into()),
                    false => Template::find(store, &name, spec, by, options.cgroup_driver),
                })
            })?;
        match found {
            Ok(template) => {
                template.enter(spec, options.id, &self.bundle.path);
                self.template = Some(template);
            }
            Err(reason) => {
                let now = self.trace.clock();
                self.trace.add(Phase::Configuration, "refused by template", &reason, (now, now));
                template::fall_back(options.warn, &name, &reason);
            }
        }
        Ok(())
    }

    /// Chooses the receiver of the terminal, if the process has one; `connected` is the connection of an earlier
    /// attempt.
    pub fn console(
        &self,
        is_detached: bool,
        connected: Option<OwnedFd>,
    ) -> Result<Console<'a>, Error> {
        let terminal = self.spec.process.as_ref().is_some_and(|process| process.terminal);
        let receiver =
            Receiver { socket: self.options.console_socket, given: self.options.console };
        Console::prepare(terminal, receiver, is_detached, connected, self.trace)
    }

    /// Determines the container's CPUs and cgroup; returns the request from which its plan is compiled.
    pub fn ask(
        &mut self,
        cpus: &StartCpus,
        console: Option<plan::Console<'a>>,
        wait_for_start: bool,
    ) -> Result<Request<'a>, Error> {
        let Self { store, trace, options, bundle, .. } = *self;
        self.pooled = place(&mut self.spec, options, trace, self.purpose)?;
        trace.point("find", "cgroup")?;
        let pooled = self.pooled.as_ref();
        let mut request = request(options, bundle, &self.spec, wait_for_start, console, pooled)?;
        request.own_cpus = cpus.own();
        if self.template.is_some() {
            request.program_start = ProgramStart::Forked;
        }
        if let Some(manager) = self.manager {
            manager.add(&mut self.spec, &mut request, store.path())?;
        }
        Ok(request)
    }

    /// Compiles the plan from which the container would be made. Of what a start finds on the host, the plan assumes
    /// that there is a blank mount namespace.
    pub fn plan(&self, request: Request<'_>) -> Result<Plan, Error> {
        let mut request = self.with_root(request);
        let (fast_paths, caller) = (request.kernel.fast_paths, &request.caller);
        let blank = fast_paths.contains(FastPaths::BLANK_NAMESPACE) && !caller.is_confined();
        self.look_up(&HostCache::unused(), &mut request)?;
        request.blank = blank;
        self.compile_plan(&request)
    }

    /// Returns the request with the root filesystem that was prepared, if there is one.
    pub fn with_root<'r>(&'r self, request: Request<'r>) -> Request<'r> {
        let layered = self.prepared.as_ref().map(Prepared::root);
        let rootfs = layered.or_else(|| self.snapshot.as_ref().map(Snapshot::root));
        Request { rootfs, ..request }
    }

    /// Compiles the plan. The only function that does, so that `dayfly plan` prints what a start executes.
    pub fn compile_plan(&self, request: &Request<'_>) -> Result<Plan, Error> {
        if let (Some(template), Some(filter)) = (&self.template, &request.filter)
            && filter.has_listener()
        {
            let reason = "cannot fork a program whose seccomp filter has a listener".into();
            return Err(Error::NotForked { template: template.name.clone(), reason });
        }
        Ok(plan::compile(&self.spec, request)?)
    }
}

fn add_arguments<'a>(spec: &mut Spec<'a>, args: &[&'a str]) {
    if let Some(process) = &mut spec.process {
        process.args.extend(args.iter().map(|arg| Str::from(*arg)));
    }
}

/// Prepares the mounts of a root filesystem, if any are given.
fn prepare_snapshot(
    store: &Store,
    options: &CreateOptions<'_>,
    bundle: &Bundle,
    spec: &mut Spec<'_>,
) -> Result<Option<Snapshot>, Error> {
    if options.rootfs.is_empty() {
        return Ok(None);
    }
    store.trace().work(Phase::Configuration, "prepare rootfs", &bundle.path, || {
        snapshot::prepare(store, options, &bundle.path, spec, Kernel::probe().version)
    })
}

/// Prepares the root filesystem from layers, if the command line lists layers.
fn prepare_layers<'a>(
    store: &Store,
    options: &CreateOptions<'a>,
    bundle: &Bundle,
    spec: &mut Spec<'a>,
    purpose: Purpose,
) -> Result<Option<Prepared>, Error> {
    let Some(layered) = options.layered else { return Ok(None) };
    if layered.stats && !store.trace().is_on() {
        store.trace().turn_on();
    }
    if let Some(image) = &layered.image {
        image.apply(spec, options.id, &layered.layers)?;
    }
    store
        .trace()
        .work(Phase::Configuration, "prepare layers", &layered.layers, || {
            let version = Kernel::probe().version;
            layered::prepare(store, options, &bundle.path, layered, spec, (version, purpose))
        })
        .map(Some)
}
