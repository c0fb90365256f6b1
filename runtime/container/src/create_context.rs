//! What a container is made from: the configuration, as the passes leave it, and what they have taken or found on the
//! host. Afterwards it is only read.

use alloc::string::String;
use alloc::vec::Vec;

use plan::{FastPaths, Plan, Request};
use spec::Spec;

use crate::bundle::Bundle;
use crate::console::{Console, Receiver};
use crate::layered::Prepared;
use crate::notify::Manager;
use crate::options::{CreateOptions, Purpose, safe_fast_paths};
use crate::snapshot::Snapshot;
use crate::template::Template;
use crate::{Error, Store, Trace};
use rustix::fd::OwnedFd;

/// The data of a creation, from the passes to the end of the launch.
pub(crate) struct CreateContext<'a> {
    pub purpose: Purpose,
    pub store: &'a Store,
    pub trace: &'static Trace,
    pub options: &'a CreateOptions<'a>,
    pub bundle: &'a Bundle,
    pub spec: Spec<'a>,
    /// The passes that had an effect on the configuration.
    pub passes: Vec<&'static str>,
    /// The service manager to notify of readiness.
    pub manager: Option<Manager>,
    /// Entries that the passes add to the environment.
    pub extra_env: Vec<String>,
    /// The number of descriptors that a service manager has passed to this process.
    pub listen_fds: u32,
    /// The cgroup taken from a pool.
    pub pooled: Option<cgroup::pool::Taken>,
    /// The root filesystem, if it consists of layers.
    pub prepared: Option<Prepared>,
    /// The root filesystem, if it is given as a list of mounts.
    pub snapshot: Option<Snapshot>,
    /// The template that forks the program, if there is one.
    pub template: Option<Template>,
}

impl<'a> CreateContext<'a> {
    /// Returns whether the process has a terminal.
    pub fn has_terminal(&self) -> bool {
        self.spec.process.as_ref().is_some_and(|process| process.terminal)
    }

    /// Returns the number of the caller's descriptors, from 3 on, that the program gets.
    pub fn passed_fds(&self) -> u32 {
        self.options.preserve_fds.saturating_add(self.listen_fds)
    }

    /// Chooses the receiver of the terminal, if the process has one; `connected` is the connection of an earlier
    /// attempt.
    pub fn console(
        &self,
        is_detached: bool,
        connected: Option<OwnedFd>,
    ) -> Result<Console<'a>, Error> {
        let receiver =
            Receiver { socket: self.options.console_socket, given: self.options.console };
        Console::prepare(self.has_terminal(), receiver, is_detached, connected, self.trace)
    }

    /// Compiles the plan. The only function that does, so that `dayfly plan` prints what a start executes.
    pub fn compile(&self, request: &Request<'_>) -> Result<Plan, Error> {
        if let (Some(template), Some(filter)) = (&self.template, &request.filter)
            && filter.has_listener()
        {
            let reason = "cannot fork a program whose seccomp filter has a listener".into();
            return Err(Error::NotForked { template: template.name.clone(), reason });
        }
        Ok(plan::compile(&self.spec, request)?)
    }

    /// Returns the fast paths to use.
    pub fn fast_paths(&self) -> FastPaths {
        safe_fast_paths(self.options.fast_paths, self.options.pidfd_socket)
    }

    /// Keeps what the passes have taken, because the container's record contains it now.
    pub fn keep(&self) {
        if let Some(pooled) = &self.pooled {
            pooled.keep();
        }
        if let Some(prepared) = &self.prepared {
            prepared.keep();
        }
        if let Some(snapshot) = &self.snapshot {
            snapshot.keep();
        }
    }
}
