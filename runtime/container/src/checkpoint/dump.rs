//! `checkpoint`: saves a running container to images.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::criu::{Notice, Options, PageServer, cpu, kind, network_lock};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fcntl_getfl, openat, stat};
use rustix::process::umask;
use spec::Spec;
use sys::Context;
use sys::clone::CloneFlags;
use sys::stdio::{take_inherited, write_all};

use super::changes::Changes;
use super::guard::Guard;
use super::images::Directory;
use super::options::{CheckpointOptions, Pages};
use super::process::Process;
use super::refused::{self, Joined, all_joined, refuse};
use super::session::Session;
use super::work::Work;
use super::{cgroups, changes, entering, external_name, mounts, pages, peers, published};
use crate::bundle::Bundle;
use crate::directory::NOTIFY_DIRECTORY;
use crate::state::Status;
use crate::{Container, Error};

const LOG: &str = "dump.log";
/// criu's files that are not images.
const FILES: [&str; 2] = [LOG, "stats-dump"];
/// The annotation that names a file of options for criu, as for runc.
pub(crate) const CONFIG_ANNOTATION: &str = "org.criu.config";
/// The default file of options for criu, the same as runc's.
const CONFIG_FILE: &str = "/etc/criu/runc.conf";

impl Container {
    /// Saves the container's processes, or their memory alone. Then removes the container, unless the options request that
    /// it keeps running.
    ///
    /// # Errors
    /// If the container is not running, if it uses an unsupported feature, or if criu fails. The container then
    /// continues to run.
    pub fn checkpoint(self, options: &CheckpointOptions<'_>) -> Result<(), Error> {
        let state = self.status()?;
        if matches!(state, Status::Created | Status::Stopped) {
            return Err(Error::Text(format!("Container cannot be checkpointed in {state} state")));
        }
        let bundle = Bundle::open(&self.record.bundle, options.config)?;
        let spec = bundle.spec(options.warn)?;
        self.refuse(&spec, options)?;
        let (tracking, in_user_namespace) = (&options.tracking, self.is_in_user_namespace());
        // A wrong parent is reported before criu is started.
        tracking.find_parent(options.criu.images)?;
        let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .context("open", "/dev/null")?;
        // At a restore, root of the container's user namespace reads the images, so all users may read these files. The
        // directory of the images is accessible only to the caller.
        let hidden = match in_user_namespace {
            true => Mode::WGRP | Mode::WOTH,
            false => Mode::RWXG | Mode::RWXO,
        };
        let mask = umask(hidden);
        let session = Session::begin(options.env, [null.as_fd(); 3], &[], true, None, None, None);
        umask(mask);
        let mut session = session?;
        tracking.check(&mut session, options.criu.pages.lazy, in_user_namespace)?;
        let late = &options.criu.pages;
        // As with runc, --status-fd has no effect without lazy pages.
        let mut status = None;
        if late.lazy {
            session.require_lazy_pages()?;
            status = late.status_fd.map(|number| status_of(number, &session)).transpose()?;
        }
        let images = Directory::make(options.criu.images)?;
        images.lock()?;
        // The changes may contain programs with the set-user-ID bit.
        if in_user_namespace || self.record.layered.is_some() {
            images.check_closed()?;
        }
        tracking.check_parent(&self, &images)?;
        let work = Work::make(options.criu.work, late.lazy)?;
        let process = Process::open(self.init().ok_or(Error::NotRunning)?)?;
        let request = self.request(options, &spec, &session, &process)?;
        images.forget()?;
        let mut changes = None;
        if !tracking.pre_dump {
            changes = Changes::begin(&self, &images)?;
            images.write_descriptors(&process.streams())?;
        }
        let request = Options {
            images_dir_fd: images.number(),
            work_dir_fd: work.of_criu(&images).number(),
            ..request
        };
        self.trace.point("checkpoint", self.id())?;
        entering::wait(&self)?;
        pages::wait(&self)?;
        process.check()?;
        // criu receives a pid, and stops the process with this pid before it sends the notice `post-dump`. If init
        // still exists at that notice, the pid has belonged to init all the time.
        let criu = session.pidfd()?;
        let mut guard = None;
        tracking.begin(&self)?;
        // Whether the inventory must be removed after a failure. criu writes the inventory before it sends the notices
        // `post-dump` and `status-ready`, and goes on only if their work succeeds. A pre-dump ends without such a
        // notice.
        let mut is_incomplete = tracking.pre_dump;
        let save = |changes: &mut Option<Changes>| {
            peers::remove(&images)?;
            changes.take().map_or(Ok(()), |changes| changes.save(&images, &criu))
        };
        let mut hear = |notice: &Notice, _| match notice.script.as_str() {
            "post-dump" => {
                is_incomplete = true;
                process.check()?;
                entering::check(&self)?;
                save(&mut changes)?;
                is_incomplete = false;
                Ok(())
            }
            "status-ready" => {
                is_incomplete = true;
                // A restore may begin now.
                save(&mut changes)?;
                if let Some(error) = status.take().and_then(|fd| write_all(fd, &[0]).err()) {
                    let error = sys::Error::new("write", "the descriptor of --status-fd", error);
                    (options.warn.record)(&error.to_string());
                }
                let is_meant = late.lazy && state == Status::Running;
                let resume = || self.resume_quietly();
                guard = is_meant.then(|| Guard::post(&criu, resume)).transpose()?;
                Ok(())
            }
            _ => Ok(()),
        };
        let what = if tracking.pre_dump { kind::PRE_DUMP } else { kind::DUMP };
        let done = session.run(what, request, &mut hear);
        drop(guard);
        let done = done.map_err(|trouble| work.explain(trouble, &images, LOG, &config_file(&spec)));
        if let Err(error) = work.hand_over(&images, &FILES) {
            (options.warn.record)(&format!("criu's log remains in {}: {error}", images.path));
        }
        let done = match tracking.pre_dump {
            true => done.and_then(|_| process.check()),
            false => done.map(drop),
        };
        if let Err(failed) = done {
            // After a failure criu resumes the processes itself, unless criu was killed.
            if state == Status::Running {
                self.resume_quietly();
            }
            // A restore must not mistake incomplete images for a checkpoint. Complete images are
            // kept, because criu may already have ended the processes.
            let forgotten = if is_incomplete { images.forget() } else { Ok(()) };
            if let Err(error) = forgotten.and_then(|()| changes::discard(&images)) {
                (options.warn.record)(&format!(
                    "the images are incomplete, and not removed: {error}"
                ));
            }
            return Err(failed);
        }
        if changes.is_some() {
            return Err(Error::text(
                "criu has not reported when the processes were stopped: the changes of the root filesystem are not saved",
            ));
        }
        let extent = changes::extent(&images);
        if let Err(error) = extent.and_then(|extent| images.write_sizes(extent)) {
            (options.warn.record)(&format!("a restore will not detect truncated images: {error}"));
        }
        if !options.allowed.is_empty() {
            published::publish(&images, &options.allowed)?;
        }
        if options.record {
            pages::ask_for_record(&images)?;
        }
        if options.leave_running || tracking.pre_dump {
            if let Err(error) = tracking.end(&self, &images) {
                (options.warn.record)(&format!(
                    "these images will not be taken for a parent: {error}"
                ));
            }
        } else {
            let id = self.id().to_string();
            if let Err(error) = self.remove(true, options.warn) {
                (options.warn.record)(&format!(
                    "container {id} is saved, but not removed: {error}"
                ));
            }
        }
        Ok(())
    }

    /// Returns whether the container is in a user namespace of its own.
    pub(super) fn is_in_user_namespace(&self) -> bool {
        self.record.namespaces & CloneFlags::NEWUSER.bits() != 0
    }

    /// Refuses unsupported properties of the container, including properties that are in the record
    /// but not in the configuration.
    fn refuse(&self, spec: &Spec<'_>, options: &CheckpointOptions<'_>) -> Result<(), Error> {
        const WHAT: &str = "checkpoint";
        let in_user_namespace = self.is_in_user_namespace();
        refused::check(spec, in_user_namespace, WHAT)?;
        if options.criu.pages.lazy {
            refused::check_lazy_pages(in_user_namespace, WHAT)?;
        }
        if self.record.layered.as_ref().is_some_and(|layered| !layered.image.is_empty()) {
            return refuse(WHAT, "a container of an image (run --image)");
        }
        if self.is_template() || self.is_forked() {
            return refuse(WHAT, "a template, or a container whose program a template has forked,");
        }
        if self.record.agent.is_some() {
            return refuse(WHAT, "a seccomp filter with a listener");
        }
        if accessat(&self.directory, NOTIFY_DIRECTORY, Access::EXISTS, AtFlags::empty()).is_ok() {
            return refuse(WHAT, "a container with a notify socket (NOTIFY_SOCKET)");
        }
        Ok(())
    }

    fn request(
        &self,
        options: &CheckpointOptions<'_>,
        spec: &Spec<'_>,
        session: &Session,
        process: &Process,
    ) -> Result<Options, Error> {
        let record = &self.record;
        let places = (record.bundle.as_str(), record.rootfs.as_str());
        Ok(Options {
            pid: process.pid,
            root: record.rootfs.clone(),
            log_file: LOG.to_string(),
            leave_running: options.leave_running || options.tracking.pre_dump,
            parent_img: options.tracking.parent.unwrap_or_default().to_string(),
            track_mem: options.tracking.is_tracked(),
            auto_dedup: options.tracking.auto_dedup,
            tcp_skip_in_flight: options.tcp_skip_in_flight,
            link_remap: options.link_remap,
            cpu_cap: cpu::IN_IMAGE,
            external_mounts: mounts::of_running(spec, places, record.cgroup.as_ref(), process)?,
            external: external_namespaces(spec, session)?,
            cgroup_dump_controllers: cgroups::saved(record.cgroup.as_ref(), process)?,
            freeze_cgroup: self.freezer(session)?,
            page_server: page_server(&options.criu.pages),
            // The lock keeps the state of TCP connections unchanged during a dump. To set the lock,
            // and to remove it at each restore, criu executes iptables-restore(8) several times,
            // which takes longer than most other steps.
            network_lock: match options.criu.tcp_established || !session.is(31900) {
                true => network_lock::DEFAULT,
                false => network_lock::SKIP,
            },
            config_file: config_file(spec),
            ..options.criu.to_criu()
        })
    }

    /// Returns the path of the cgroup that criu freezes. If the path is empty, criu stops the processes one by one.
    fn freezer(&self, session: &Session) -> Result<String, Error> {
        let Some(location) = &self.record.cgroup else { return Ok(String::new()) };
        if location.is_unified() && !session.is(31400) {
            return Ok(String::new());
        }
        let cgroup = self.cgroup()?;
        Ok(cgroup.freezer_path().unwrap_or_default().to_string())
    }
}

/// Returns the page server in criu's format. As with runc, port 0 means that there is no page
/// server.
fn page_server(pages: &Pages<'_>) -> Option<PageServer> {
    let (address, port) = pages.server.filter(|(_, port)| *port != 0)?;
    Some(PageServer { address: address.to_string(), port })
}

/// Takes ownership of the descriptor of `--status-fd`. The error messages are runc's.
fn status_of(number: i32, session: &Session) -> Result<OwnedFd, Error> {
    let invalid = |why: &str| Error::Text(format!("invalid --status-fd argument {number}: {why}"));
    let fd = take_inherited(number).map_err(|_| invalid("bad file descriptor"))?;
    let flags = fcntl_getfl(&fd).context("fcntl", "the descriptor of --status-fd")?;
    if flags & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(invalid("not writable"));
    }
    session.require(31500, "--status-fd")?;
    Ok(fd)
}

/// Returns the joined namespaces that criu must not save, as `net[INODE]:NAME`.
fn external_namespaces(spec: &Spec<'_>, session: &Session) -> Result<Vec<String>, Error> {
    let mut external = Vec::new();
    for (kind, path, joined) in all_joined(spec) {
        let Joined::External(least) = joined else { continue };
        let kind = kind.proc_name();
        session.require(least, &format!("an external {kind} namespace"))?;
        let inode = stat(path).context("stat", path)?.st_ino;
        external.push(format!("{kind}[{inode}]:{}", external_name(kind)));
    }
    Ok(external)
}

/// Returns the path of criu's file of options: the annotation's value (possibly empty), or the default if there is no
/// annotation.
pub(super) fn config_file(spec: &Spec<'_>) -> String {
    let named = spec.annotations.iter().find(|(key, _)| &***key == CONFIG_ANNOTATION);
    named.map_or(CONFIG_FILE, |(_, path)| path).to_string()
}
