//! The command line of `dayfly rootfs`.

use crate::options::store::{StoreOptions, path};
use clap::{Args, Subcommand};
use report::Format;
use report::size::bytes;
use std::path::PathBuf;

/// Commands of `dayfly rootfs`.
#[derive(Debug, Subcommand)]
pub enum RootfsCommand {
    /// Mount layers at a directory
    ///
    /// Set-user-ID programs of an image take effect there as in a container, so only root should
    /// have access to the mount point. Devices cannot be opened.
    Mount(Mount),
    /// Unmount a root filesystem, and remove its changes and its id range
    Umount(Umount),
    /// List the mounts
    Ls(List),
    /// List the leased id ranges
    Ids(List),
    /// Remove mounts, directories and id ranges that killed commands have left behind
    Gc(Gc),
}

/// Directories.
#[derive(Debug, Args)]
pub struct Places {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The directory of id leases, by default /run/dayfly-ids for root, and dayfly-ids in $XDG_RUNTIME_DIR for a user
    #[arg(long, value_name = "DIR", env = "DAYFLY_IDS", value_parser = path())]
    pub ids: Option<PathBuf>,
}

/// `dayfly rootfs mount`
#[derive(Debug, Args)]
pub struct Mount {
    /// An image of the store, or the path of a file that lists a directory per line, the bottom layer first; a path
    /// begins with "/" or "."
    pub source: String,
    /// The mount point
    pub directory: PathBuf,
    /// Directories.
    #[command(flatten)]
    pub places: Places,
    /// Ids of the root filesystem's files: "auto" for a range that nothing else uses, "shared",
    /// "START:COUNT", or "host"
    #[arg(long, value_name = "RANGE", default_value = "host")]
    pub uid_range: String,
    /// The mode in which layers are assembled: auto, fd, path, parent, per-layer, copy
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub rootfs_mode: String,
    /// Keep changes in memory
    #[arg(long)]
    pub ephemeral: bool,
    /// Size of the memory for changes in bytes, with --ephemeral [default: half of the host's
    /// memory]; k, m, g and t may follow the number
    #[arg(long, value_name = "SIZE", requires = "ephemeral", value_parser = bytes)]
    pub ephemeral_size: Option<u64>,
    /// Mount the root filesystem read-only
    #[arg(long, conflicts_with = "ephemeral")]
    pub read_only: bool,
    /// The user whose lines in /etc/subuid and /etc/subgid apply [default: dayfly, else containers]
    #[arg(long, value_name = "NAME")]
    pub subid_user: Option<String>,
}

/// `dayfly rootfs umount`
#[derive(Debug, Args)]
pub struct Umount {
    /// The mount point
    pub directory: PathBuf,
    /// Directories.
    #[command(flatten)]
    pub places: Places,
    /// Unmount the root filesystem even if processes use it; these processes can still access it
    #[arg(long)]
    pub lazy: bool,
}

/// `dayfly rootfs ls`, `dayfly rootfs ids`
#[derive(Debug, Args)]
pub struct List {
    /// Directories.
    #[command(flatten)]
    pub places: Places,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `dayfly rootfs gc`
#[derive(Debug, Args)]
pub struct Gc {
    /// Directories.
    #[command(flatten)]
    pub places: Places,
}
