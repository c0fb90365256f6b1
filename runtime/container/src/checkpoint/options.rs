//! What the two commands are given.

use alloc::string::String;

use proto::messages::criu::{Options, cgroups};

use crate::path::absolute;
use crate::{CreateOptions, Error, Warn};

/// What both are given.
#[derive(Debug, Clone, Default)]
pub struct CriuOptions<'a> {
    /// The directory of images.
    pub images: &'a str,
    /// Where criu works, and writes its log; the directory of images if `None`.
    pub work: Option<&'a str>,
    /// Whether sessions and terminals may be those of outside.
    pub shell_job: bool,
    /// Whether locks of files are kept.
    pub file_locks: bool,
    /// Whether UNIX sockets may lead outside.
    pub ext_unix_sk: bool,
    /// Whether connections of TCP are kept.
    pub tcp_established: bool,
    /// What is done with cgroups: [`cgroups_mode`].
    pub cgroups_mode: i32,
}

impl CriuOptions<'_> {
    /// As criu has them.
    pub(super) fn to_criu(&self) -> Options {
        Options {
            log_level: 4,
            notify_scripts: true,
            shell_job: self.shell_job,
            file_locks: self.file_locks,
            ext_unix_sk: self.ext_unix_sk,
            tcp_established: self.tcp_established,
            manage_cgroups: true,
            cgroups_mode: Some(self.cgroups_mode),
            orphan_pts_master: true,
            // A network is its maker's business: hooks, or whoever made the namespace that is joined.
            empty_ns: sys::clone::CloneFlags::NEWNET.bits() as u32,
            ..Options::default()
        }
    }
}

/// What `checkpoint` is given.
#[derive(Debug, Clone)]
pub struct CheckpointOptions<'a> {
    /// What both are given.
    pub criu: CriuOptions<'a>,
    /// Another file than the bundle's config.json.
    pub config: Option<&'a str>,
    /// Whether the container goes on.
    pub leave_running: bool,
    /// Whether connections of TCP that are being made are left out.
    pub tcp_skip_in_flight: bool,
    /// Whether files without a name get one for a while.
    pub link_remap: bool,
    /// Whether only what has changed since an earlier one is asked for, by the name of the option that says so.
    pub tracked: Option<&'static str>,
    /// The environment of the command.
    pub env: sys::Args,
    /// Where warnings go.
    pub warn: Warn<'a>,
}

/// What `restore` is given.
#[derive(Debug, Clone)]
pub struct RestoreOptions<'a> {
    /// As for `create`.
    pub create: CreateOptions<'a>,
    /// What both are given.
    pub criu: CriuOptions<'a>,
    /// Return once the program runs.
    pub detach: bool,
    /// Do not become the reaper of orphaned descendants.
    pub no_subreaper: bool,
    /// The profile of a security module, `TYPE:NAME`.
    pub lsm_profile: Option<&'a str>,
    /// The context of mounts.
    pub lsm_mount_context: Option<&'a str>,
}

/// Reads `--manage-cgroups-mode`.
///
/// # Errors
/// In runc's words for what is none.
pub fn cgroups_mode(word: Option<&str>) -> Result<i32, Error> {
    match word {
        None => Ok(cgroups::DEFAULT),
        Some("soft") => Ok(cgroups::SOFT),
        Some("full") => Ok(cgroups::FULL),
        Some("strict") => Ok(cgroups::STRICT),
        Some("ignore") => Ok(cgroups::IGNORE),
        Some(_) => Err(Error::text("invalid manage-cgroups-mode value")),
    }
}

/// Where images are if nobody says: `checkpoint` in the working directory.
///
/// # Errors
/// If there is none.
pub fn default_images() -> Result<String, Error> {
    absolute("checkpoint")
}
