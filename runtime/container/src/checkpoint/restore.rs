//! `restore`: creates a container from images.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem::ManuallyDrop;

use cgroup::{Cgroup, ScopeRequest};
use plan::{CgroupPlan, Plan};
use proto::messages::criu::{Options, UserNamespace, cgroups, cpu, kind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, access};
use rustix::process::Pid;
use spec::Spec;
use sys::clone::{Child, CloneFlags};
use sys::stdio::{stderr, stdin, stdout};
use trace::{PROGRAM, Phase};

use super::cgroups::{are_those_of, cgroup_roots};
use super::dump::config_file;
use super::images::Directory;
use super::kernel::Examined;
use super::notices::Stages;
use super::options::RestoreOptions;
use super::pages::{self, Late, Pages};
use super::refused;
use super::saved::{Comparison, Saved};
use super::session::Session;
use super::sharing::Originals;
use super::stage::{Scene, Stage};
use super::work::Work;
use super::{changes, id_maps, keyring, log, waiting};
use crate::bundle::Bundle;
use crate::console::{Console, Terminal};
use crate::create::Created;
use crate::create_context::CreateContext;
use crate::directory::{self, check_id};
use crate::options::{CreateOptions, Purpose};
use crate::record::{self, Draft, Header, Record};
use crate::request::StartMode;
use crate::start_cpus::StartCpus;
use crate::store::Claim;
use crate::template::{self, BACKLOG, REQUESTS};
use crate::{Container, Error, Store, TemplateUse, foreground, hooks, pid_file};

const LOG: &str = "restore.log";
/// criu's level of errors and warnings. Its other messages take a tenth of the time of a restore.
const WARNINGS: i32 = 2;
/// criu's files in the directory of logs.
const FILES: [&str; 2] = [LOG, "stats-restore"];

/// Restores a container from images and a bundle. Waits for the program's exit and returns its exit
/// status; with `detach`, returns once the program is running. A signal of
/// [`sys::signal::SignalSet::INTERRUPTS`] interrupts the restore if it arrives before criu has
/// ended. This function blocks all signals and does not unblock them before it returns, because the
/// caller is about to exit.
///
/// # Errors
/// If the images are invalid or owned by another user, if the container has an unsupported property, if criu fails, or
/// if a signal interrupts the restore. On failure, nothing is left behind.
pub fn restore(store: &Store, options: &RestoreOptions<'_>) -> Result<i32, Error> {
    let bundle = Bundle::load(&options.create, store.trace())?;
    let spec = bundle.parse(store.trace(), options.create.warn)?;
    restore_from(store, options, &bundle, spec)
}

/// Restores a container as [`restore`] does, from the parsed configuration `spec` of a bundle.
///
/// # Errors
/// Those of [`restore`].
pub fn restore_from<'a>(
    store: &Store,
    options: &RestoreOptions<'_>,
    bundle: &'a Bundle,
    spec: Spec<'a>,
) -> Result<i32, Error> {
    let trace = store.trace();
    let Restored { container, child, terminal, signals } = restored(store, options, bundle, spec)?;
    let status = hooks::after_start(&container).and_then(|()| match options.detach {
        true => Ok(0),
        false => {
            // If the program has closed its terminal, criu sends no terminal.
            let terminal = Terminal::receive(terminal, trace).unwrap_or_default();
            trace.wait(Phase::Program, "container runs", "", PROGRAM, || {
                signals.wait(&child, terminal.as_ref(), None, &mut None, None)
            })
        }
    });
    if !options.detach || status.is_err() {
        if status.is_err() {
            pid_file::remove(options.create.pid_file);
        }
        let removed = container.remove(true, options.create.warn);
        // If both fail, the first error is returned.
        return status.and_then(|code| removed.map(|()| code));
    }
    status
}

/// Restores a container whose processes wait for `start`.
///
/// # Errors
/// Those of [`restore`].
pub(crate) fn restore_waiting<'a>(
    store: &Store,
    options: &RestoreOptions<'_>,
    bundle: &'a Bundle,
    spec: Spec<'a>,
) -> Result<Created, Error> {
    let Restored { container, child, .. } = restored(store, options, bundle, spec)?;
    Ok((child, container.cgroup_location().cloned()))
}

/// A restored container.
struct Restored {
    container: Container,
    child: Child,
    /// The socket that receives the terminal in the foreground.
    terminal: Option<OwnedFd>,
    signals: ManuallyDrop<foreground::Signals>,
}

fn restored<'a>(
    store: &Store,
    options: &RestoreOptions<'_>,
    bundle: &'a Bundle,
    spec: Spec<'a>,
) -> Result<Restored, Error> {
    check_id(options.create.id)?;
    let trace = store.trace();
    let images = Directory::open(options.criu.images)?;
    let sizes = images.check_whole()?;
    let streams = images.descriptors()?;
    let saved = match options.create.template {
        Some(TemplateUse::Become { .. }) => Some(Saved::read(&images)?),
        _ => None,
    };
    let ids = images.user_namespace()?;
    let layered = options.create.layered;
    let layered = layered.map(|layered| id_maps::with_saved_range(layered, ids.as_ref()));
    let create = &CreateOptions { layered: layered.as_ref(), ..options.create.clone() };
    let context = CreateContext::of(store, create, bundle, spec, Purpose::Restore)?;
    refused::check(&context.spec, ids.is_some(), "restore")?;
    if ids.is_some() && !images.parents()?.is_empty() {
        let what = "a container in a user namespace, from images that have a parent";
        refused::refuse("restore", what)?;
    }
    if options.criu.pages.lazy {
        refused::check_lazy_pages(ids.is_some(), "restore")?;
    }
    changes::check(&images, context.prepared.as_ref(), sizes.as_ref())?;
    id_maps::check(ids.as_ref(), &context.spec)?;
    let work = Work::make(options.criu.work, options.criu.pages.lazy)?;
    let mut console = context.console(options.detach, None)?;
    let terminal = console.take_receiver();
    // Signals are also blocked with `detach`: a signal during the restore must not end this process before everything
    // is undone. The signals stay blocked until the process exits. If one of them ended the process once the container
    // runs, or while a failed restore is undone, the exit status would be lost.
    let subreaper = !options.detach && !options.no_subreaper;
    let signals = ManuallyDrop::new(foreground::Signals::block(subreaper, trace)?);
    let cpus = StartCpus::enter(None, trace, create.warn)?;
    let mode =
        StartMode { console: console.source(), own_cpus: cpus.own(), ..StartMode::default() };
    let (plan, record) = context.plan_of_restore(mode)?;
    if plan.cgroup.is_none() && record.own_namespaces & CloneFlags::NEWPID.bits() == 0 {
        // Nothing would find the processes of a restore that is interrupted.
        let what = "a container with neither a cgroup nor a PID namespace of its own";
        refused::refuse("restore", what)?;
    }
    let restoration =
        Restoration { options, context: &context, plan, images, work, ids, streams, saved };
    let (container, child) = restoration.run(record, console)?;
    if let (Some(cgroup), true) = (container.cgroup_location(), restoration.saved.is_some()) {
        let linux = context.spec.linux.as_ref();
        linux.inspect(|linux| template::grant(cgroup, &linux.uid_mappings));
    }
    Ok(Restored { container, child, terminal, signals })
}

/// A restore in progress.
pub(super) struct Restoration<'a> {
    pub options: &'a RestoreOptions<'a>,
    pub context: &'a CreateContext<'a>,
    plan: &'static Plan,
    images: Directory,
    work: Work,
    /// The id mappings of the saved user namespace, if there is one.
    ids: Option<UserNamespace>,
    /// The targets of the standard streams.
    pub streams: Vec<String>,
    /// The images' template, if the container becomes one.
    saved: Option<Saved>,
}

impl Restoration<'_> {
    /// Claims the id and restores the container. If any step fails, undoes all of them.
    fn run(&self, record: Record, console: Console<'_>) -> Result<(Container, Child), Error> {
        let CreateContext { store, options, .. } = self.context;
        let Claim { directory, record: file, lock } = self.context.claim(false)?;
        match self.restore_in(&directory, &file, record, console) {
            Ok((record, child, header)) => {
                drop(lock);
                let (root, trace) = (Rc::clone(store.root_fd()), store.trace());
                let (filter, is_begun) = (Vec::new(), false);
                let container =
                    Container { root, directory, header, record, is_begun, filter, trace };
                self.context.keep();
                Ok((container, child))
            }
            Err(error) => {
                pid_file::remove(options.pid_file);
                // The first error is returned; an error of the removal has the same cause.
                let _ = store.remove(directory.as_fd(), options.id);
                Err(error)
            }
        }
    }

    fn restore_in(
        &self,
        directory: &OwnedFd,
        file: &OwnedFd,
        mut record: Record,
        console: Console<'_>,
    ) -> Result<(Record, Child, Header), Error> {
        let context = self.context;
        // Since version 3.14 criu creates a time namespace, so that the clocks of the processes
        // continue. An older criu leaves the processes in the host's time namespace.
        if access("/proc/self/ns/time", Access::EXISTS).is_ok() {
            record.namespaces |= CloneFlags::NEWTIME.bits();
        }
        // The record is written before anything else is created, so that `delete` can find and
        // remove everything that a killed restore leaves.
        let draft = record::write(file, &record, self.context.swap(), self.plan.filter.as_ref())?;
        if let Some(prepared) = &context.prepared {
            context.trace.point("make", "directory of changes")?;
            prepared.record.make_directory()?;
            changes::put(&self.images, &prepared.record)?;
        }
        let made = launch::Mounts::make(self.plan, context.trace)?;
        if let (Some(prepared), Some(rootfs)) = (&context.prepared, &made.rootfs) {
            prepared.tell(context.trace, rootfs.counts);
        }
        let scene = Scene {
            spec: &context.spec,
            bundle: &context.bundle.path,
            rootfs: &record.rootfs,
            cgroup: record.cgroup.as_ref(),
            made: &made,
            in_user_namespace: self.ids.is_some(),
        };
        let path = format!("{}/{}", context.store.path(), context.options.id);
        let examined = Examined::prepare(context.options.criu_env);
        // The template's own, as in a start of one (`CreateContext::make`).
        let requests = match self.saved {
            Some(_) => Some(directory::listening(directory.as_fd(), REQUESTS, BACKLOG)?),
            None => None,
        };
        let mut stage = Stage::enter(directory, &path, scene)?;
        // Without them, criu is slower, but works.
        let _ = examined.as_ref().map(Examined::show);
        let restored = self.restore_on(directory, &mut stage, scene, draft, (console, requests));
        let left = stage.leave(directory);
        examined.iter().for_each(Examined::hide);
        let (child, header, mut cgroup) = restored?;
        let released = left.and_then(|()| self.release_scope(cgroup.as_ref()));
        let done = released.and_then(|()| match self.options.waits {
            true => waiting::begin(directory, &child, cgroup.as_ref(), record.cgroup.as_ref()),
            false => Ok(()),
        });
        if let Err(error) = done {
            kill([child.pidfd], cgroup.as_ref());
            return Err(error);
        }
        if let Some(cgroup) = &mut cgroup {
            cgroup.keep();
        }
        Ok((record, child, header))
    }

    fn restore_on(
        &self,
        directory: &OwnedFd,
        stage: &mut Stage,
        scene: Scene<'_>,
        draft: Draft<'_>,
        (console, requests): (Console<'_>, Option<OwnedFd>),
    ) -> Result<(Child, Header, Option<Cgroup>), Error> {
        let (options, context, trace) = (self.options, self.context, self.context.trace);
        let saved = self.saved.as_ref();
        let comparison = saved.map(|saved| saved.verify(&self.images)).transpose()?;
        let mut external = self.external_namespaces()?;
        external.extend(saved.map(|saved| saved.socket.clone()).zip(requests));
        let others: Vec<BorrowedFd<'_>> = external.iter().map(|(_, fd)| fd.as_fd()).collect();
        if !context.options.no_new_keyring {
            keyring::join(context.options.id)?;
        }
        let streams = [stdin(), stdout(), stderr()];
        let mut cgroup = self.make_cgroup(None)?;
        let (env, timeout) = (context.options.criu_env, options.timeout);
        let tools = if self.ids.is_none() { stage.tools() } else { None };
        let tools = tools.as_deref();
        let mut session =
            Session::begin(env, streams, &others, false, timeout, cgroup.as_ref(), tools)?;
        self.require(&session)?;
        if options.waits {
            session.require(40000, "a restore that waits for start")?;
        }
        if options.criu.pages.lazy {
            session.require_lazy_pages()?;
        }
        if cgroup.is_none() {
            cgroup = self.make_cgroup(Some(session.pid()))?;
        }
        if let Some(cgroup) = cgroup.as_ref().filter(|_| !session.is_in_cgroup) {
            trace.point("enter", "cgroup")?;
            cgroup.add(session.pid().as_raw_pid())?;
        }
        // The directories are opened in the current mount namespace, which criu inherits.
        let work = self.work.of_criu(&self.images).reopened()?;
        let images = self.images.reopened()?;
        let images = match &self.ids {
            Some(_) => stage.show_images(&images)?,
            None => images,
        };
        if let Some(hidden) = stage.expose(scene)? {
            self.refuse_hidden(&hidden)?;
        }
        let late = if self.loads_late(&session)? { Some(Late::prepare(stage)?) } else { None };
        // Hooks, the console socket and the PID file are in this process's own mount namespace.
        stage.go_back()?;
        let pages = match (&late, &cgroup, scene.cgroup) {
            (Some(late), Some(cgroup), Some(location)) => {
                Some(late.serve(&self.images, directory, cgroup, location)?)
            }
            _ => None,
        };
        let work = late.as_ref().map_or(&work, |late| &late.work);
        let roots = cgroup_roots(session.pid().as_raw_pid())?;
        let is_placed = cgroup.is_some() && are_those_of(&roots, &images);
        let criu = options.criu.to_criu();
        let is_quiet = saved.is_some() || pages.is_some();
        let request = Options {
            images_dir_fd: images.number(),
            work_dir_fd: work.number(),
            log_file: LOG.to_string(),
            root: stage.root.clone(),
            evasive_devices: true,
            rst_sibling: true,
            external_mounts: stage.mounts.clone(),
            lazy_pages: options.criu.pages.lazy || pages.is_some(),
            cgroup_roots: roots,
            inherited_fds: self.inherited(&external),
            joined_namespaces: self.joined_namespaces(),
            config_file: config_file(&context.spec),
            lsm_profile: options.lsm_profile.unwrap_or_default().into(),
            lsm_mount_context: options.lsm_mount_context.unwrap_or_default().into(),
            tcp_close: options.tcp_close,
            leave_stopped: options.waits,
            cpu_cap: if saved.is_some() { cpu::IN_IMAGE } else { 0 },
            log_level: if is_quiet { WARNINGS } else { criu.log_level },
            cgroups_mode: Some(match options.criu.cgroups_mode {
                cgroups::DEFAULT | cgroups::SOFT if is_placed => cgroups::IGNORE,
                cgroups::STRICT => cgroups::FULL,
                mode => mode,
            }),
            ..criu
        };
        let mut stages = Stages {
            context,
            plan: self.plan,
            draft,
            console: Some(console),
            originals: Originals::open(core::mem::take(&mut stage.copied))?,
            comparison,
            begun: None,
            pages,
            child: None,
        };
        trace.point("restore", context.options.id)?;
        let done =
            session.run(kind::RESTORE, request, &mut |notice, handed| stages.hear(notice, handed));
        if let Some(late) = &late {
            // A missing log is reported below.
            let _ = self.work.collect(&late.work, &self.images, &FILES);
        }
        let config = config_file(&context.spec);
        let explain = |trouble| self.work.explain(trouble, &self.images, LOG, &config);
        let done = match stages.comparison.take().map(Comparison::end) {
            // A damaged image is the reason of all other errors.
            Some(Err(damage)) => Err(damage),
            _ => done.map_err(explain),
        };
        if let Err(error) = self.work.hand_over(&self.images, &FILES) {
            let path = &self.images.path;
            (context.options.warn.record)(&format!("criu's log remains in {path}: {error}"));
        }
        match (done, stages.child.take()) {
            (Ok(_), Some((child, header))) => {
                stages.pages.into_iter().for_each(Pages::keep);
                Ok((child, header, cgroup))
            }
            (done, child) => {
                stages.pages = None;
                let child = child.map(|(child, _)| child.pidfd);
                kill(child.into_iter().chain(stages.begun), cgroup.as_ref());
                match done {
                    Err(trouble) => Err(trouble),
                    Ok(_) => Err(Error::text("criu reported no restored process")),
                }
            }
        }
    }

    /// Returns whether the pages of the processes are loaded late, by a server of this program.
    fn loads_late(&self, session: &Session) -> Result<bool, Error> {
        let options = self.options;
        let has_own_log = log::named_by(&config_file(&self.context.spec), LOG).is_some();
        let is_excluded =
            options.eager || options.criu.pages.lazy || self.ids.is_some() || has_own_log;
        let Some(CgroupPlan::Create { resources, .. } | CgroupPlan::Scope { resources, .. }) =
            &self.plan.cgroup
        else {
            return Ok(false);
        };
        let tasks = resources.pids.as_ref().and_then(|pids| pids.limit);
        Ok(!is_excluded && session.is(40000) && pages::pays(&self.images, tasks)?)
    }

    /// Creates the container's cgroup. systemd creates a scope for a process that exists, which is criu's here: without
    /// it, creates no scope. In mode
    /// `strict`, fails if the cgroup exists already. criu cannot check this, because it would find the cgroup that this
    /// function creates.
    fn make_cgroup(&self, criu: Option<Pid>) -> Result<Option<Cgroup>, Error> {
        self.context.trace.point("make", "cgroup")?;
        if let (
            Some(CgroupPlan::Create { location, .. } | CgroupPlan::Scope { location, .. }),
            cgroups::STRICT,
        ) = (&self.plan.cgroup, self.options.criu.cgroups_mode)
        {
            match Cgroup::open(location) {
                Err(cgroup::Error::Gone { .. }) => {}
                Ok(_) => {
                    return Err(Error::text(
                        "the container's cgroup exists already, which --manage-cgroups-mode strict forbids",
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(match &self.plan.cgroup {
            Some(CgroupPlan::Create { location, resources, as_user: true }) => {
                Some(Cgroup::create_as_user(location, resources)?)
            }
            Some(CgroupPlan::Create { location, resources, as_user: false }) => {
                Some(Cgroup::create(location, resources, None)?)
            }
            Some(CgroupPlan::Scope { location, resources, properties, .. }) => {
                let Some(criu) = criu else { return Ok(None) };
                let request = ScopeRequest::of(location, resources, properties, None)?;
                Some(request.create(criu, None)?)
            }
            _ => None,
        })
    }

    /// Lowers the limit on tasks in a scope by criu, which has exited.
    fn release_scope(&self, cgroup: Option<&Cgroup>) -> Result<(), Error> {
        match (&self.plan.cgroup, cgroup) {
            (Some(CgroupPlan::Scope { resources, .. }), Some(cgroup)) => {
                Ok(cgroup.without_holder(resources)?)
            }
            _ => Ok(()),
        }
    }
}

/// Kills init and the processes in the cgroup after a failed restore. Dropping the cgroup then removes it, unless it
/// existed before the restore.
fn kill(inits: impl IntoIterator<Item = OwnedFd>, cgroup: Option<&Cgroup>) {
    // Kills init explicitly, because the container may have no cgroup of its own.
    for pidfd in inits {
        let _ = sys::signal::send(pidfd.as_fd(), 9);
        let _ = launch::wait(&pidfd);
    }
    // If the cgroup existed before the restore, it was empty then. So criu and its descendants are the only processes
    // in it.
    let _ = cgroup.map(Cgroup::end_processes);
}
