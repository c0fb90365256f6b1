//! Data that a host keeps between container starts, so that a start need not create it again.
//!
//! There is one directory per host, accessible only to root (`/run/dayfly-cache` by default):
//!
//! ```text
//! seccomp/HASH            a compiled filter, with the profile it was compiled from
//! mounts/                 a private tmpfs of the cache, mounted when first needed
//! mounts/namespace     the blank mount namespace
//! mounts/programs/NAME    the runtime on a read-only mount
//! mounts/bpf/device/HASH  a loaded device program, pinned
//! ```
//!
//! The cache is optional. Entries that are missing, damaged or not made by the cache are created
//! again. A start that cannot use the cache continues without it, and logs an [`Error`] with the
//! reason.
//!
//! Trust: the directory must belong to root with mode 0700, so only root is trusted. Checksums detect accidents, such
//! as a full file system or a killed writer, not attackers.
//!
//! Visibility: filters are visible to every process that sees the directory. The blank namespace is visible only in the
//! mount namespace where it was created; other namespaces create their own. Pins and programs are visible in the mount
//! namespace where they were created, and in copies made of it later.

mod blank;
mod clear;
mod device;
pub(crate) mod directory;
mod entries;
mod error;
mod filter;
mod hash;
mod mounts;
mod program;

pub use directory::{Cache, DEFAULT_PATH};
pub(crate) use entries::names;
pub use entries::{Bound, trim};
pub use error::Error;
pub use filter::{FilterKey, Missing};
pub use hash::hash;
pub(crate) use mounts::DIRECTORY as MOUNTS;
pub use program::kept_program;
