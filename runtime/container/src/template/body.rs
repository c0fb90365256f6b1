//! The description of a container's program that its template's child gets: the plan's steps of init that a process can
//! only do for itself.

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
