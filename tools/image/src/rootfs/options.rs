//! The command line of `dayfly rootfs`.

use crate::options::store::StoreOptions;
use clap::{Args, Subcommand, ValueEnum};
use report::size::bytes;
use std::path::PathBuf;

/// Commands of `dayfly rootfs`.
#[derive(Debug, Subcommand)]
pub enum RootfsCommand {
    /// Mount layers at a directory
    ///
    /// Set-user-ID programs of an image work there as they do in a container: mount it where only root can
    /// go. Devices do not.
    Mount(Mount),
    /// Take such a mount away, with its changes and its ids
    Umount(Umount),
    /// List what is mounted
    Ls(List),
    /// List the ranges of ids that are taken
    Ids(List),
    /// Remove what killed commands have left: mounts, directories, ranges of ids
    Gc(Gc),
}

/// Where things are.
#[derive(Debug, Args)]
pub struct Places {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// Where ranges that are taken are kept: by default /run/dayfly-ids for root, and dayfly-ids in
    /// $XDG_RUNTIME_DIR for a user
    #[arg(long, value_name = "DIR", env = "DAYFLY_IDS")]
    pub ids: Option<PathBuf>,
}

/// How something is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// `dayfly rootfs mount`
#[derive(Debug, Args)]
pub struct Mount {
    /// An image of the store, or the path of a file with a directory a line, the bottom layer first; a path
    /// begins with "/" or "."
    pub source: String,
    /// Where to mount it
    pub directory: PathBuf,
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
    /// Ids of its files: "auto" for a range that nobody else has, "shared", "START:COUNT", or "host"
    #[arg(long, value_name = "RANGE", default_value = "host")]
    pub uid_range: String,
    /// How layers are assembled: auto, fd, path, parent, per-layer, copy
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub rootfs_mode: String,
    /// Keep changes in memory
    #[arg(long)]
    pub ephemeral: bool,
    /// Bytes of it, with --ephemeral [default: half of the memory]; k, m, g and t may follow the number
    #[arg(long, value_name = "SIZE", requires = "ephemeral", value_parser = bytes)]
    pub ephemeral_size: Option<u64>,
    /// No changes
    #[arg(long, conflicts_with = "ephemeral")]
    pub read_only: bool,
    /// Whose lines of /etc/subuid and /etc/subgid count [default: dayfly, else containers]
    #[arg(long, value_name = "NAME")]
    pub subid_user: Option<String>,
}

/// `dayfly rootfs umount`
#[derive(Debug, Args)]
pub struct Umount {
    /// Where it is mounted
    pub directory: PathBuf,
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
    /// Even if it is in use: whoever uses it keeps it
    #[arg(long)]
    pub lazy: bool,
}

/// `dayfly rootfs ls`, `dayfly rootfs ids`
#[derive(Debug, Args)]
pub struct List {
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
    /// The form
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `dayfly rootfs gc`
#[derive(Debug, Args)]
pub struct Gc {
    /// Where things are.
    #[command(flatten)]
    pub places: Places,
}
