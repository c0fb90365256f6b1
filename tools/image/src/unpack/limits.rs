//! Limits of an import: disk, memory and time. Costs are counted where they arise, over all layers of an import
//! together, because a small blob may unpack to a large archive.
//!
//! The size of an archive says little about what it needs: one name can make two thousand directories, one header can
//! apply to every entry, and a path through links can take any number of steps. Counted are inodes, bytes (also those
//! of global headers and sparse files), steps of path walks, and memory that is kept until the end of a layer.
//!
//! Not counted, but bounded, are headers, names, xattrs (by the kernel), strings in documents, and windows of zstd (at
//! most 128 MiB; only one layer at a time has one of more than 8 MiB). Copies of files in layers below are limited by
//! `--max-bytes` alone.

use crate::error::{Error, Result, bail, ensure};
use indicatif::ProgressBar;
use report::{interrupt, size};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// What an option does, at the end of the error of a limit.
pub const TRUST: &str = "allows more, if you trust the image";
/// The size up to which any ratio is allowed: a file of zeros compresses a thousandfold.
const FREE: u64 = 64 << 20;
/// The number of name lookups that every import may make; each lookup takes at least a tenth of a microsecond.
const STEPS: u64 = 8 << 20;
/// The additional lookups allowed per entry. A path of 60 bytes needs 30.
const STEPS_OF_ENTRY: u64 = 256;
/// The number of bytes of memory allowed for each byte read from a blob. An image with many directories needs more
/// memory, and has longer blobs.
const PAID: u64 = 4;
/// The maximum memory for blobs of any length, as a multiple of [`Limits::memory`].
const MOST_PAID: u64 = 16;

/// The limits on the unpacked contents of an image.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Limits on what is unpacked")]
pub struct Limits {
    /// Maximum size of all unpacked layers in bytes; k, m, g and t may follow the number
    #[arg(long = "max-bytes", value_name = "SIZE", default_value = "64g", value_parser = size::bytes)]
    pub bytes: u64,
    /// Maximum number of entries of all layers, including directories without an entry of their own
    #[arg(long = "max-entries", value_name = "N", default_value_t = 4_000_000)]
    pub entries: u64,
    /// Maximum ratio of unpacked to packed size of a layer and of the image, for unpacked sizes
    /// above 64 MiB
    #[arg(long = "max-ratio", value_name = "N", default_value_t = 200)]
    pub ratio: u64,
    /// Maximum memory for names and attributes of directories; each byte read from a blob adds four
    /// bytes, up to 16 times this maximum in total
    #[arg(long = "max-memory", value_name = "SIZE", default_value = "64m", value_parser = size::bytes)]
    pub memory: u64,
}

/// The default limits.
#[cfg(test)]
pub const USUAL: Limits =
    Limits { bytes: 64 << 30, entries: 4_000_000, ratio: 200, memory: 64 << 20 };

impl Limits {
    /// Checks the ratio of `length` unpacked bytes to `packed` ones. `what` names the object in the error.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn check_ratio(&self, length: u64, packed: u64, what: impl Display) -> Result<()> {
        let ratio = self.ratio;
        if length <= FREE || length / ratio.max(1) <= packed {
            return Ok(());
        }
        bail!("{what} unpacks to more than {ratio} times its size; --max-ratio {TRUST}")
    }
}

/// The state shared by all layers of an import.
#[derive(Debug, Default)]
pub struct Shared {
    /// The limits.
    pub limits: Limits,
    /// Bytes of blobs read.
    read: AtomicU64,
    /// Shows the bytes of blobs read.
    pub bar: OnceLock<ProgressBar>,
    /// Set when a layer has failed, so that the others stop.
    pub stop: AtomicBool,
    /// Held while a layer uses a window longer than [`WINDOW`](super::WINDOW), so that only one such window is
    /// allocated at a time.
    pub long_window: Mutex<()>,
    length: AtomicU64,
    bytes: AtomicU64,
    entries: AtomicU64,
    kept: AtomicU64,
    steps: AtomicU64,
}

impl Shared {
    /// Returns the state at the start of an import.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Counts bytes that were read from a blob.
    pub fn count_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
        if let Some(bar) = self.bar.get() {
            bar.inc(bytes);
        }
    }

    /// Counts an entry, or a directory without an entry: each takes an inode.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn count_entry(&self) -> Result<()> {
        let limit = self.limits.entries;
        let before = self.entries.fetch_add(1, Ordering::Relaxed);
        ensure!(before < limit, "the image has more than {limit} entries; --max-entries {TRUST}");
        Ok(())
    }

    /// Counts `bytes` of files, including bytes that are not in the archive, such as holes and files that are copied
    /// up.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn count_bytes(&self, bytes: u64) -> Result<()> {
        let limit = self.limits.bytes;
        let sum = add(&self.bytes, bytes);
        ensure!(sum <= limit, "the image unpacks to more than {limit} bytes; --max-bytes {TRUST}");
        Ok(())
    }

    /// Counts `bytes` of an archive. The ratio is checked for all layers together. Otherwise an image could have many
    /// layers that are each too short for the check, but too large together.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn count_length(&self, bytes: u64) -> Result<()> {
        self.count_bytes(bytes)?;
        let length = add(&self.length, bytes);
        self.limits.check_ratio(length, self.read.load(Ordering::Relaxed), "the image")
    }

    /// Counts lookups of names: through symbolic links, an entry can need more lookups than its name has components.
    ///
    /// # Errors
    /// [`Error::Unfit`].
    pub fn count_steps(&self, steps: u64) -> Result<()> {
        let entries = self.entries.load(Ordering::Relaxed);
        let limit = STEPS.saturating_add(STEPS_OF_ENTRY.saturating_mul(entries));
        ensure!(
            add(&self.steps, steps) <= limit,
            "the names of the image's entries are too deep, or lead through too many links: more \
             than {STEPS_OF_ENTRY} steps for each of {entries} entries. Pack the image again, \
             with names that do not lead through links"
        );
        Ok(())
    }

    /// Charges `bytes` of memory.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn keep(&self, bytes: u64) -> Result<()> {
        let memory = self.limits.memory;
        let paid = self.read.load(Ordering::Relaxed).saturating_mul(PAID);
        let limit = memory.saturating_add(paid).min(memory.saturating_mul(MOST_PAID));
        ensure!(
            add(&self.kept, bytes) <= limit,
            "the names and attributes of the image's directories take more than {limit} bytes of memory; --max-memory {TRUST}"
        );
        Ok(())
    }

    /// Releases `bytes` of memory.
    pub fn release(&self, bytes: u64) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns an error if a signal has arrived or another layer has failed.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn go_on(&self) -> Result<()> {
        interrupt::check()?;
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Adds to a counter and returns the sum. If the sum overflows, returns `u64::MAX`, so that a malicious archive cannot
/// bypass a limit.
fn add(counter: &AtomicU64, amount: u64) -> u64 {
    let old = counter.fetch_add(amount, Ordering::Relaxed);
    old.checked_add(amount).unwrap_or_else(|| {
        // Keep the counter from wrapping around for the other layers.
        counter.store(u64::MAX / 2, Ordering::Relaxed);
        u64::MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_do_not_wrap() {
        let shared = Shared::new(Limits { bytes: u64::MAX - 1, ..USUAL });
        shared.count_bytes(u64::MAX - 1).expect("all of it");
        assert!(shared.count_bytes(2).is_err());
        assert!(shared.count_bytes(1 << 62).is_ok() || shared.count_bytes(u64::MAX).is_err());
    }

    #[test]
    fn blobs_pay_for_memory() {
        let shared = Shared::new(USUAL);
        // 200,000 directories in an image of 20 MB.
        let directories = 200_000 * 400;
        assert!(shared.keep(directories).is_err());
        shared.release(directories);
        shared.read.store(20_000_000, Ordering::Relaxed);
        shared.keep(directories).expect("paid");
        shared.read.store(u64::MAX, Ordering::Relaxed);
        assert!(shared.keep(1 << 30).is_err(), "never more than that");
    }
}
