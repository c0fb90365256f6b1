//! The options of `checkpoint` and `restore`.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use proto::messages::criu::{Options, cgroups};

use super::tracking::Tracking;
use crate::path::absolute;
use crate::{CreateOptions, Error, Warn};

/// The options that both commands have.
#[derive(Debug, Clone, Default)]
pub struct CriuOptions<'a> {
    /// The directory of images.
    pub images: &'a str,
    /// The directory for criu's log and sockets; `None` for the directory of images.
    pub work: Option<&'a str>,
    /// Whether sessions and terminals from outside the container are allowed.
    pub shell_job: bool,
    /// Whether file locks are saved.
    pub file_locks: bool,
    /// Whether UNIX sockets may be connected to sockets outside the container.
    pub ext_unix_sk: bool,
    /// Whether TCP connections are saved.
    pub tcp_established: bool,
    /// The handling of cgroups: see [`cgroups_mode`].
    pub cgroups_mode: i32,
    /// The options for transferring memory pages.
    pub pages: Pages<'a>,
}

/// Options for transferring memory pages.
#[derive(Debug, Clone, Default)]
pub struct Pages<'a> {
    /// For a checkpoint, whether criu serves the memory pages instead of writing them to a file.
    /// For a restore, whether a process gets a page only when it accesses the page
    /// (userfaultfd(2)).
    pub lazy: bool,
    /// Address and TCP port of the page server. With `lazy`, this is the criu of this checkpoint,
    /// otherwise another criu.
    pub server: Option<(&'a str, i32)>,
    /// The number of the inherited descriptor to which a NUL byte is written when criu serves pages.
    pub status_fd: Option<i32>,
}

impl<'a> Pages<'a> {
    /// Parses the value of `--page-server`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
    ///
    /// # Errors
    /// If address or port is missing, or if the port is not a number (with runc's messages).
    pub fn parse_server(text: &'a str) -> Result<(&'a str, i32), Error> {
        let split =
            text.rsplit_once(':').filter(|(address, port)| !address.is_empty() && !port.is_empty());
        let split = split.and_then(|(address, port)| match address.strip_prefix('[') {
            Some(inner) => Some((inner.strip_suffix(']').filter(|inner| !inner.is_empty())?, port)),
            None => Some((address, port)).filter(|(address, _)| !address.contains([':', ']'])),
        });
        let (address, port) = split
            .ok_or_else(|| Error::text("Use --page-server ADDRESS:PORT to specify page server"))?;
        let port = port.parse().map_err(|_| Error::text("Invalid port number"))?;
        Ok((address, port))
    }
}

impl CriuOptions<'_> {
    /// Converts the options to criu's format.
    pub(super) fn to_criu(&self) -> Options {
        Options {
            log_level: 4,
            notify_scripts: true,
            shell_job: self.shell_job,
            file_locks: self.file_locks,
            ext_unix_sk: self.ext_unix_sk,
            tcp_established: self.tcp_established,
            lazy_pages: self.pages.lazy,
            manage_cgroups: true,
            cgroups_mode: Some(self.cgroups_mode),
            orphan_pts_master: true,
            // Hooks, or the creator of a joined namespace, set up the network.
            empty_ns: sys::raw::halves(sys::clone::CloneFlags::NEWNET.bits())[0],
            ..Options::default()
        }
    }
}

/// The options of `checkpoint`.
#[derive(Debug, Clone)]
pub struct CheckpointOptions<'a> {
    /// The options that both commands have.
    pub criu: CriuOptions<'a>,
    /// A file to read instead of the bundle's config.json.
    pub config: Option<&'a str>,
    /// Whether the container keeps running.
    pub leave_running: bool,
    /// Whether TCP connections that are being established are left out.
    pub tcp_skip_in_flight: bool,
    /// Whether files that are open but unlinked get a temporary name.
    pub link_remap: bool,
    /// `KEY=VALUE`: the annotations of a container that may name the checkpoint by an annotation.
    pub allowed: Vec<&'a str>,
    /// Whether restores may load memory late: first that which the first restore has recorded.
    pub record: bool,
    /// How memory is saved in several dumps.
    pub tracking: Tracking<'a>,
    /// The command's environment.
    pub env: sys::Args,
    /// The receiver of warnings.
    pub warn: Warn<'a>,
}

/// The options of `restore`.
#[derive(Debug, Clone)]
pub struct RestoreOptions<'a> {
    /// The options of `create`.
    pub create: CreateOptions<'a>,
    /// The options that both commands have.
    pub criu: CriuOptions<'a>,
    /// Whether to return once the program is running.
    pub detach: bool,
    /// If true, the command does not become the reaper of orphaned descendants.
    pub no_subreaper: bool,
    /// The profile of a Linux security module, `TYPE:NAME`.
    pub lsm_profile: Option<&'a str>,
    /// The SELinux context of the mounts.
    pub lsm_mount_context: Option<&'a str>,
    /// Whether TCP connections are restored as closed ones.
    pub tcp_close: bool,
    /// Whether all memory is loaded before the processes continue.
    pub eager: bool,
    /// Whether the processes wait for `start`, stopped.
    pub waits: bool,
    /// The longest time that criu may take.
    pub timeout: Option<Duration>,
}

impl<'a> RestoreOptions<'a> {
    /// Returns the options of a restore by an engine. The options of the checkpoint have determined what the images may
    /// contain, so everything is allowed.
    pub fn of_engine(
        create: CreateOptions<'a>,
        (images, work): (&'a str, &'a str),
        has_terminal: bool,
    ) -> Self {
        Self {
            create,
            criu: CriuOptions {
                images,
                work: Some(work),
                shell_job: has_terminal,
                file_locks: true,
                ext_unix_sk: true,
                tcp_established: true,
                cgroups_mode: cgroups::DEFAULT,
                pages: Pages::default(),
            },
            detach: true,
            no_subreaper: true,
            lsm_profile: None,
            lsm_mount_context: None,
            tcp_close: false,
            waits: false,
            eager: false,
            timeout: None,
        }
    }
}

/// Parses the value of `--manage-cgroups-mode`.
///
/// # Errors
/// If the value is unknown (with runc's message).
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

/// Returns the default directory of images: `checkpoint` in the working directory.
///
/// # Errors
/// If the working directory does not exist.
pub fn default_images() -> Result<String, Error> {
    absolute("checkpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_servers() {
        let parse = |text| Pages::parse_server(text).map_err(|error| error.to_string());
        assert_eq!(parse("127.0.0.1:27"), Ok(("127.0.0.1", 27)));
        assert_eq!(parse("[::1]:27"), Ok(("::1", 27)));
        for text in ["", "host", "host:", ":27", "::1:27", "[::1:27", "[]:27"] {
            assert!(parse(text).unwrap_err().starts_with("Use --page-server"), "{text}");
        }
        assert_eq!(parse("host:http"), Err("Invalid port number".into()));
    }
}
