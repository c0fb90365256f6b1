//! The steps of a restore that run when criu sends a notice: setting up the loopback device and running hooks once the
//! namespaces exist, completing the record while the processes are stopped, and passing on the terminal.

use alloc::string::ToString;

use plan::Plan;
use proto::messages::criu::Notice;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use spec::NamespaceKind;
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::fs::c_path;

use super::pages::Pages;
use super::process::Process;
use super::saved::Comparison;
use super::sharing::Originals;
use crate::Error;
use crate::announce::announce;
use crate::console::Console;
use crate::create_context::CreateContext;
use crate::identity::Identity;
use crate::record::{Draft, Header};

/// The receiver of criu's notices.
pub(super) struct Stages<'a> {
    pub context: &'a CreateContext<'a>,
    pub plan: &'a Plan,
    pub draft: Draft<'a>,
    pub console: Option<Console<'a>>,
    /// The mounts that a start would copy from the host.
    pub originals: Originals,
    /// The comparison of the images with their digests.
    pub comparison: Option<Comparison<'a>>,
    /// A pidfd of the container's init, once criu's first notice has named the process.
    pub begun: Option<OwnedFd>,
    /// The server of the pages that are loaded late.
    pub pages: Option<Pages>,
    /// The container's init, once it has been added to the record.
    pub child: Option<(Child, Header)>,
}

impl Stages<'_> {
    /// Does the work that a notice requests. If this function returns an error, criu aborts the
    /// restore.
    pub fn hear(&mut self, notice: &Notice, handed: Option<OwnedFd>) -> Result<(), Error> {
        match notice.script.as_str() {
            "setup-namespaces" => {
                self.begun = Some(open(notice.pid)?.1);
                // No child of a template is in its network namespace.
                if self.comparison.is_none() {
                    self.raise_loopback(notice.pid)?;
                }
                self.run_hooks(notice.pid)
            }
            "post-restore" => {
                self.comparison.take().map_or(Ok(()), Comparison::end)?;
                if let Some(pages) = &self.pages {
                    pages.fetch(open(notice.pid)?.1.as_fd())?;
                }
                self.share_mounts(notice.pid)?;
                self.add_to_record(notice.pid)
            }
            "orphan-pts-master" => self.hand_over(handed),
            _ => Ok(()),
        }
    }

    /// Brings up the loopback device in the container's own network namespace, which criu leaves empty.
    fn raise_loopback(&self, pid: i32) -> Result<(), Error> {
        let linux = self.context.spec.linux.as_ref();
        let network = linux.and_then(|linux| linux.namespace(NamespaceKind::Network));
        if network.is_none_or(|network| network.path.is_some()) {
            return Ok(());
        }
        let (_, pidfd) = open(pid)?;
        let raise = || {
            sys::ns::join_process(pidfd.as_fd(), CloneFlags::NEWNET)?;
            sys::net::loopback_up().map(|()| 0)
        };
        sys::errand::ask(None, raise).context("bring up", "lo")?;
        Ok(())
    }

    /// Gives the mounts the propagation that a start would give them.
    fn share_mounts(&self, pid: i32) -> Result<(), Error> {
        let process = Process::open(open(pid)?)?;
        let refused = self.originals.apply(process.pidfd(), &process.path("mountinfo"))?;
        if let Some(refused) = refused {
            (self.context.options.warn.record)(&refused);
        }
        Ok(())
    }

    fn run_hooks(&self, pid: i32) -> Result<(), Error> {
        let trace = self.context.trace;
        let bundle =
            c_path(self.context.bundle.path.as_str()).context("find", &self.context.bundle.path)?;
        let manner = launch::Manner { directory: Some(&bundle), tracer: Some(trace), limit: None };
        for hooks in self.plan.runtime_hooks.iter().filter(|hooks| !hooks.list.is_empty()) {
            trace.point("run hooks", hooks.kind)?;
            let status = if hooks.kind == "prestart" { "created" } else { "creating" };
            launch::run_hooks(hooks, &self.plan.state, status, pid, &manner).map_err(|failed| {
                Error::Launch(launch::Error::Hook(failed.describe(hooks).to_string()))
            })?;
        }
        Ok(())
    }

    /// Completes the record with init. The processes exist and are stopped; from now on, other
    /// commands see the container.
    fn add_to_record(&mut self, pid: i32) -> Result<(), Error> {
        let (pid, pidfd) = open(pid)?;
        let identity = Identity::of(pid, &pidfd).context("fstat", "pidfd")?;
        let header = self.draft.complete(pid, identity)?;
        if let Some(prepared) = &self.context.prepared {
            prepared.record.add_process(identity)?;
        }
        let child = Child { pid, pidfd };
        let options = self.context.options;
        announce(&child, "standard", options.pid_file, options.pidfd_socket, self.context.trace)?;
        self.child = Some((child, header));
        Ok(())
    }

    fn hand_over(&mut self, master: Option<OwnedFd>) -> Result<(), Error> {
        let master = master.ok_or_else(|| Error::text("criu handed over no terminal"))?;
        let (socket, object) = match self.console.take() {
            Some(Console::Socket(path, None)) => {
                (sys::fdpass::dial(path).context("connect console socket", path)?, path)
            }
            Some(Console::Socket(path, Some(socket))) => (socket, path),
            Some(Console::Given(socket) | Console::Own(socket, _)) => (socket, "console"),
            // The command line names no receiver of the terminal.
            Some(Console::None) | None => return Ok(()),
        };
        let name = b"orphan-pts-master";
        Ok(sys::fdpass::send(socket, name, master.as_fd()).context("send terminal", object)?)
    }
}

/// Opens the process whose pid criu has sent.
fn open(pid: i32) -> Result<(Pid, OwnedFd), Error> {
    let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::text("criu told of no process"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open", "restored init")?;
    Ok((pid, pidfd))
}
