//! The description of a container's program that its template's child gets: the plan's steps of init that a process can
//! only do for itself.
//!
//! It is JSON in a sealed memfd, with the keys of [`Body`] and [`Sets`] in camel case. `groups` is null if the groups
//! stay as they are. If `homeOf` is not null, HOME is missing in `env`: it is the home directory of this uid in the
//! container's `/etc/passwd`, else `/`. Sets of capabilities are bit masks. `keyring` is a session keyring that init has
//! made. `flags` are those of seccomp(2).
//!
//! The child does this, in order; the first two steps need not wait for C (`fork.rs`):
//!
//! 1. It checks that `args` begins as its own command line does, and takes over arguments, environment and umask.
//! 2. It drops capabilities from its bounding set, and begins a session.
//! 3. It joins the session keyring, and the namespaces in the order of C; the mount namespace is the last.
//! 4. It replaces its standard streams, and enters the working directory. If it may not, it tries again as the user.
//! 5. It sets groups, gid and uid, with PR_SET_KEEPCAPS if the uid is not 0. It checks that the working directory is
//!    inside the root (getcwd(2)), and sets its capabilities: none if `capabilities` is null and the uid is not 0. To
//!    load a filter without `no_new_privs`, it keeps CAP_SYS_ADMIN until then.
//! 6. It sets `no_new_privs`, finds HOME, closes all descriptors but the connection and the socket to the stand-in, and
//!    loads the filter.
//! 7. It sends R and waits for G. If the socket is closed instead, it exits. It closes both sockets before its program
//!    begins.
//!
//! The runtime sets resource limits, OOM score, nice value and CPU affinity after B, from outside (`verify.rs`).

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ffi::CStr;

use plan::Plan;
use plan::step::{Capabilities, InitStep};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use serde::Serialize;
use sys::stdio::write_all;
use sys::{Context, Errno};

/// The description, as JSON.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    args: Vec<Cow<'a, str>>,
    env: Vec<Cow<'a, str>>,
    /// The user whose home directory becomes HOME, if the environment has none.
    home_of: Option<u32>,
    cwd: Cow<'a, str>,
    umask: u32,
    uid: u32,
    gid: u32,
    groups: Option<Vec<u32>>,
    pub capabilities: Option<Sets>,
    no_new_privileges: bool,
    keyring: Option<Cow<'a, str>>,
    seccomp: Option<Filter>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Sets {
    bounding: u64,
    pub effective: u64,
    pub permitted: u64,
    inheritable: u64,
    pub ambient: u64,
}

impl Sets {
    /// Returns the sets of a process with these sets after the execve(2) of a program without file capabilities, which
    /// a forked program does not call (capabilities(7), "Transformation of capabilities during execve()").
    fn after_exec(self, uid: u32, no_new_privileges: bool) -> Self {
        let ambient = self.ambient & self.permitted & self.inheritable;
        let permitted = match uid {
            0 if no_new_privileges => self.permitted & (self.inheritable | self.bounding) | ambient,
            0 => self.inheritable | self.bounding | ambient,
            _ => ambient,
        };
        Self { effective: permitted, permitted, ambient, ..self }
    }
}

#[derive(Debug, Serialize)]
struct Filter {
    flags: u32,
}

impl<'a> Body<'a> {
    /// Returns the description of a plan's program.
    pub(super) fn of(plan: &'a Plan) -> Self {
        let mut body = Self::default();
        let mut sets = Sets::default();
        for step in &plan.init {
            match step {
                InitStep::JoinKeyring { name } => body.keyring = Some(name.to_string_lossy()),
                InitStep::SetUmask(mask) => body.umask = *mask,
                InitStep::ChangeDirectory { path } => body.cwd = path.to_string_lossy(),
                InitStep::LimitCapabilities { drop } => sets.bounding = !drop,
                InitStep::ChangeUser { uid, gid, groups, .. } => {
                    (body.uid, body.gid) = (*uid, *gid);
                    body.groups =
                        groups.map(|groups| groups.iter().map(|group| group.as_raw()).collect());
                }
                // If there are two such steps, the second takes back what the first kept for the filter. It does not
                // name the ambient set, which the first has raised.
                InitStep::SetCapabilities(Capabilities {
                    effective,
                    permitted,
                    inheritable,
                    ambient,
                }) => {
                    sets = Sets {
                        effective: *effective,
                        permitted: *permitted,
                        inheritable: *inheritable,
                        ambient: sets.ambient | ambient,
                        ..sets
                    };
                    body.capabilities = Some(sets);
                }
                InitStep::NoNewPrivileges => body.no_new_privileges = true,
                InitStep::Exec { argv, envp, home_of } => {
                    body.args = argv.iter().map(CStr::to_string_lossy).collect();
                    body.env = envp.iter().map(CStr::to_string_lossy).collect();
                    body.home_of = *home_of;
                }
                _ => {}
            }
        }
        body.capabilities =
            body.capabilities.map(|sets| sets.after_exec(body.uid, body.no_new_privileges));
        body.seccomp = plan.filter.as_ref().map(|filter| Filter { flags: filter.flags });
        body
    }

    /// Returns the description in a sealed file in memory.
    pub(super) fn file(&self) -> Result<OwnedFd, sys::Error> {
        let text = serde_json::to_vec(self)
            .map_err(|_| sys::Error::new("encode", "request to template", Errno::INVAL))?;
        sealed(c"request", &text)
    }
}

/// Returns a file in memory that nobody can change.
pub(super) fn sealed(name: &CStr, bytes: &[u8]) -> Result<OwnedFd, sys::Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(name, flags).context("memfd_create", "request")?;
    write_all(&file, bytes).context("write", "request")?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals).context("seal", "request")?;
    Ok(file)
}
