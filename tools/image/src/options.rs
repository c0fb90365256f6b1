//! The command line.
// The descriptions are help texts too, where brackets mean "may be left out".
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_rust_codeblocks)]

pub mod store;

use crate::export::{Compression, Form};
use crate::progress::Progress;
use crate::rootfs::options::RootfsCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use report::{size, time};
use std::path::PathBuf;
use std::time::Duration;
use store::StoreOptions;

/// Keeps images, and assembles root filesystems from their layers.
#[derive(Debug, Parser)]
#[command(name = "dayfly-image", bin_name = "dayfly", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep images, unpacked
    #[command(subcommand)]
    Image(ImageCommand),
    /// Assemble root filesystems from layers
    #[command(subcommand)]
    Rootfs(RootfsCommand),
    /// Remove what killed commands have left: mounts, directories and ranges of ids
    #[command(hide = true)]
    Gc(crate::rootfs::options::Gc),
}

/// Commands of `dayfly image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Bring an image into the store from a directory or a file
    ///
    /// The image is in an OCI image layout (a directory or an archive of one), or in an archive of
    /// "docker save" or "podman save". Its layers may be compressed with gzip, zstd or not at all. Digests and
    /// sizes are checked. Layers that are there already are not unpacked again.
    Import(Import),
    /// Bring an image into the store from a registry
    ///
    /// A name without a registry is Docker Hub's: "alpine" is docker.io/library/alpine. Passwords are those of
    /// "podman login" and "docker login", also where a credential helper keeps them.
    Pull(Pull),
    /// List images
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Tell what is known of an image
    Inspect(Inspect),
    /// Take an image's name away, and remove what nothing else needs
    ///
    /// An image stays as long as it has another name, a container was made from it, or it is mounted.
    #[command(visible_alias = "rmi", alias = "remove")]
    Rm(Rm),
    /// Remove what nothing names any more
    #[command(alias = "prune")]
    Gc(Gc),
    /// Write an image to a directory or a file
    ///
    /// Layers are packed again, byte by byte as they were unpacked: diff-ids and the image's id stay. Blobs are
    /// compressed anew, so their digests and that of the manifest may be others.
    Export(Export),
}

/// How an image is brought in.
#[derive(Debug, Args)]
pub struct Bringing {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// Take the image for that platform: OS/ARCHITECTURE[/VARIANT], by default this host's
    #[arg(long, value_name = "PLATFORM")]
    pub platform: Option<String>,
    /// The seccomp profile of its containers: "default" is dayfly's own, "none" none, else a file of the engines' form
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    pub seccomp: PathBuf,
    /// As a user: files of all owners become yours
    #[arg(long)]
    pub ignore_owners: bool,
    /// Most bytes that all layers may unpack to; k, m, g and t may follow the number
    #[arg(long, value_name = "SIZE", default_value = "64g", value_parser = size::bytes)]
    pub max_bytes: u64,
    /// Most entries that all layers may have, directories without an entry of their own among them
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    pub max_entries: u64,
    /// How many times its size a layer, and the image, may unpack to, once it is longer than 64 MiB
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_ratio: u64,
    /// Most memory for names and attributes of directories, beside four times what was read of blobs, at most 16 times this
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = size::bytes)]
    pub max_memory: u64,
    /// The wait for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
    /// Layers unpacked at the same time, by default as many as there are CPUs, at most 8
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Wait until all of it is on the disk: else a loss of power in the next half minute can leave empty files
    #[arg(long)]
    pub sync: bool,
    /// Show a bar
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    pub progress: Progress,
}

/// `dayfly image import`
#[derive(Debug, Args)]
pub struct Import {
    /// The directory or file, perhaps with :TAG or :NAME after it; "-" reads an archive from standard input
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// What to call it, by default as where it comes from; may be given several times
    #[arg(long, short, value_name = "NAME")]
    pub name: Vec<String>,
    /// The rest.
    #[command(flatten)]
    pub bringing: Bringing,
}

/// `dayfly image pull`
#[derive(Debug, Args)]
pub struct Pull {
    /// The image: [HOST[:PORT]/]NAME[:TAG][@DIGEST], of Docker Hub without a host
    #[arg(value_name = "REF")]
    pub reference: String,
    /// What to call it here, by default REF; may be given several times
    #[arg(long, short, value_name = "NAME")]
    pub name: Vec<String>,
    /// Talk HTTP instead of HTTPS, to a registry on this host only
    #[arg(long)]
    pub plain_http: bool,
    /// How long an answer, and then each 64 KiB of a layer, may take the registry
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = patience)]
    pub timeout: Duration,
    /// A file with passwords, as in containers-auth.json(5)
    #[arg(long, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// The rest.
    #[command(flatten)]
    pub bringing: Bringing,
}

fn patience(text: &str) -> Result<Duration, String> {
    time::within(time::seconds(text)?, Duration::from_secs(1), Duration::from_secs(3600))
}

/// How a command tells what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// `dayfly image ls`
#[derive(Debug, Args)]
pub struct Ls {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The form
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Digests only
    #[arg(long, short)]
    pub quiet: bool,
    /// All images, as without it: those without a name are listed, too
    #[arg(long, short)]
    pub all: bool,
}

/// `dayfly image inspect`
#[derive(Debug, Args)]
pub struct Inspect {
    /// The image's name, or the beginning of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The form
    #[arg(long, short, value_enum, default_value_t = Format::Json)]
    pub format: Format,
}

/// `dayfly image rm`
#[derive(Debug, Args)]
pub struct Rm {
    /// Names of images, or the beginnings of digests: then all names of the image are taken away
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    /// An image that is not there is no error
    #[arg(long, short)]
    pub force: bool,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The wait for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// How long other commands are waited for.
#[derive(Debug, Args)]
pub struct Waiting {
    /// How long to wait for other commands that use the store: gc for imports, these and exports for gc
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time::seconds)]
    pub wait: Duration,
}

impl Waiting {
    /// The same as a time.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.wait
    }
}

/// `dayfly image gc`
#[derive(Debug, Args)]
pub struct Gc {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The wait for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `dayfly image export`
#[derive(Debug, Args)]
pub struct Export {
    /// The image's name, or the beginning of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The directory or file to make; "-" writes an archive to standard output
    #[arg(value_name = "DESTINATION")]
    pub destination: PathBuf,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The wait for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
    /// The form: by default oci-archive for names that end in .tar and "-", oci else
    #[arg(long, value_enum)]
    pub format: Option<Form>,
    /// How layers are compressed; those of docker-archive never are
    #[arg(long, value_enum, default_value_t = Compression::Gzip)]
    pub compress: Compression,
}
