//! The command line.
// The docstrings are help texts too, where brackets mark optional parts.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_rust_codeblocks)]

pub mod store;

use crate::bar::Bar;
use crate::registry::Access;
use crate::rootfs::options::RootfsCommand;
use crate::unpack::Limits;
use clap::{Args, Parser, Subcommand, ValueEnum};
use report::{Format, time};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::StoreOptions;

/// Stores images, and assembles root filesystems from their layers
#[derive(Debug, Parser)]
#[command(name = "dayfly-image", bin_name = "dayfly", version)]
pub struct Options {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Store images, unpacked
    #[command(subcommand)]
    Image(ImageCommand),
    /// Assemble root filesystems from layers
    #[command(subcommand)]
    Rootfs(RootfsCommand),
    /// Remove mounts, directories and id ranges that killed commands have left behind
    #[command(hide = true)]
    Gc(crate::rootfs::options::Gc),
    /// Connect a container to a network: a hook of "dayfly run --network bridge"
    #[command(hide = true)]
    Bridge(crate::bridge::Bridge),
}

/// Commands of `dayfly image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Bring an image into the store from a directory or a file
    ///
    /// The image is an OCI image layout (a directory or an archive), or an archive of "docker save" or "podman save".
    /// Its layers may be compressed with gzip or zstd. Digests and sizes are checked. Layers that are in the store
    /// already are not unpacked again. With --rootfs, it is made of a root filesystem.
    Import(Import),
    /// Bring an image into the store from a registry
    ///
    /// A name without a registry belongs to Docker Hub: "alpine" is docker.io/library/alpine. The passwords of "podman
    /// login" and "docker login" are used, including those in credential helpers.
    Pull(Pull),
    /// List images
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show the details of an image
    Inspect(Inspect),
    /// Remove a name of an image, and everything that is then unused
    ///
    /// An image is kept as long as it has another name, a container of it exists, or it is mounted.
    #[command(visible_alias = "rmi", alias = "remove")]
    Rm(Rm),
    /// Remove images and layers that are unused
    #[command(alias = "prune")]
    Gc(Gc),
    /// Write an image to a directory or a file
    ///
    /// Layers are packed again byte for byte as they were unpacked, so the diff-ids and the image's id stay the same.
    /// Blobs are compressed anew, so their digests and the manifest's may differ.
    Export(Export),
    /// Give an image another name
    Tag(Tag),
    /// Write an image to an archive for "docker load": the same as export --format docker-archive
    Save(Save),
    /// Bring an image into the store from an archive: the same as import
    Load(Load),
    /// Show how an image was made: the entries of its history, the newest first
    History(History),
}

/// Options of commands that add an image.
#[derive(Debug, Args)]
pub struct Bringing {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The image's platform: OS/ARCHITECTURE[/VARIANT], by default this host's
    #[arg(long, value_name = "PLATFORM")]
    pub platform: Option<String>,
    /// The seccomp profile of the image's containers: "default" (dayfly's own), "none", or a file
    /// in the engines' format
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    pub seccomp: PathBuf,
    /// Ignore the owners in layers: all files get the owner of this process (for unprivileged
    /// users)
    #[arg(long)]
    pub ignore_owners: bool,
    /// The timeout for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
    /// Number of layers unpacked concurrently, by default the number of CPUs, at most 8
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Wait until everything is on disk; otherwise a power failure in the next half minute can leave empty files
    #[arg(long)]
    pub sync: bool,
    /// Show a progress bar
    #[arg(long, value_enum, default_value_t = Bar::Auto)]
    pub progress: Bar,
    /// The limits: at the end, because their heading applies to all that follows.
    #[command(flatten)]
    pub limits: Limits,
}

impl Bringing {
    /// Shows no progress bar if `quiet`.
    pub fn quiet(&mut self, quiet: bool) {
        if quiet {
            self.progress = Bar::Never;
        }
    }
}

/// `dayfly image import`
#[derive(Debug, Args)]
pub struct Import {
    /// The directory or file, optionally followed by :TAG or :NAME; "-" reads an archive from standard input
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// The same as --name
    #[arg(value_name = "NAME")]
    pub other_name: Option<String>,
    /// A name for the image, by default the source's; may be given several times
    #[arg(long, short, value_name = "NAME")]
    pub name: Vec<String>,
    /// SOURCE is a root filesystem: a directory, or an archive of one (tar, also with gzip or zstd), such as "docker
    /// export" writes; it becomes the only layer of an image with the command /bin/sh, which needs a name
    #[arg(long)]
    pub rootfs: bool,
    /// The common options.
    #[command(flatten)]
    pub bringing: Bringing,
}

/// `dayfly image load`
#[derive(Debug, Args)]
pub struct Load {
    /// The archive, by default standard input
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub input: String,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// The common options.
    #[command(flatten)]
    pub bringing: Bringing,
}

/// `dayfly image tag`
#[derive(Debug, Args)]
pub struct Tag {
    /// The image's name, or a prefix of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The new name; another image loses it
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The timeout for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `dayfly image save`
#[derive(Debug, Args)]
pub struct Save {
    /// The image's name, or a prefix of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The file to create, by default standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The timeout for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
    /// The format of the archive
    #[arg(long, value_enum, default_value_t = Form::DockerArchive)]
    pub format: Form,
}

/// `dayfly image history`
#[derive(Debug, Args)]
pub struct History {
    /// The image's name, or a prefix of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print commands in full
    #[arg(long)]
    pub no_trunc: bool,
}

/// `dayfly image pull`
#[derive(Debug, Args)]
pub struct Pull {
    /// The image: [HOST[:PORT]/]NAME[:TAG][@DIGEST]; without a host, on Docker Hub
    #[arg(value_name = "REF")]
    pub reference: String,
    /// A name for the image in the store, by default REF; may be given several times
    #[arg(long, short, value_name = "NAME")]
    pub name: Vec<String>,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// The common options.
    #[command(flatten)]
    pub bringing: Bringing,
    /// Access to the registry.
    #[command(flatten)]
    pub access: Access,
}

/// `dayfly image ls`
#[derive(Debug, Args)]
pub struct Ls {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print digests only
    #[arg(long, short)]
    pub quiet: bool,
    /// No effect, for compatibility: images without a name are always listed
    #[arg(long, short)]
    pub all: bool,
}

/// `dayfly image inspect`
#[derive(Debug, Args)]
pub struct Inspect {
    /// The image's name, or a prefix of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Format::Json)]
    pub format: Format,
}

/// `dayfly image rm`
#[derive(Debug, Args)]
pub struct Rm {
    /// Names of images, or prefixes of digests; a prefix removes all names of its image
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    /// Ignore images that do not exist
    #[arg(long, short)]
    pub force: bool,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The timeout for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// The option for the maximum time to wait for other commands.
#[derive(Debug, Args)]
pub struct Waiting {
    /// The time to wait for other commands that use the store: gc waits for imports, and imports
    /// and exports wait for gc
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time::seconds)]
    pub wait: Duration,
}

/// `dayfly image gc`
#[derive(Debug, Args)]
pub struct Gc {
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The timeout for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `dayfly image export`
#[derive(Debug, Args)]
pub struct Export {
    /// The image's name, or a prefix of its digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The directory or file to create; "-" writes an archive to standard output
    #[arg(value_name = "DESTINATION")]
    pub destination: PathBuf,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
    /// The timeout for another command's lock on the store.
    #[command(flatten)]
    pub waiting: Waiting,
    /// The output format, by default oci-archive for "-" and names that end in .tar, else oci
    #[arg(long, value_enum)]
    pub format: Option<Form>,
    /// Compression of the layers; docker-archive never compresses them
    #[arg(long, value_enum, default_value_t = Compression::Gzip)]
    pub compress: Compression,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// An OCI image layout: a directory.
    Oci,
    /// An archive of an OCI image layout.
    OciArchive,
    /// An archive for `docker load`.
    DockerArchive,
}

impl Form {
    /// Returns the format suggested by a file name.
    pub fn of(destination: &Path) -> Self {
        let archive = destination.extension().is_some_and(|end| end == "tar");
        if archive || destination == Path::new("-") { Self::OciArchive } else { Self::Oci }
    }
}

/// The compression of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// gzip, which every engine supports.
    Gzip,
    /// zstd, which is smaller and faster.
    Zstd,
    /// No compression.
    None,
}

impl Compression {
    /// Returns the suffix of a layer's media type.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => "+gzip",
            Self::Zstd => "+zstd",
            Self::None => "",
        }
    }
}
