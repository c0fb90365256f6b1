//! Packs a layer again, byte for byte as in the original archive.

use super::Part;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::unpack::Frames;
use clap::ValueEnum;
use report::interrupt;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sys::inside::{self, Links};

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
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => "+gzip",
            Self::Zstd => "+zstd",
            Self::None => "",
        }
    }
}

/// A writer that counts and hashes what is written.
struct Hashed<W> {
    out: W,
    hash: Sha256,
    length: u64,
}

impl<W> Hashed<W> {
    fn new(out: W) -> Self {
        Self { out, hash: Sha256::new(), length: 0 }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a layer's blob to the file `path`; returns its digest and length.
///
/// # Errors
/// Those of reading and writing; the layer has changed since it was unpacked.
pub fn write(
    store: &Store,
    part: Part,
    path: &Path,
    compression: Compression,
) -> Result<(Digest, u64)> {
    let failed = || Error::at("write", path);
    let file = File::create_new(path).map_err(failed())?;
    let mut blob = Hashed::new(BufWriter::with_capacity(256 << 10, file));
    let diff_id = match compression {
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(&mut blob, flate2::Compression::default());
            let digest = replay(store, part, &mut encoder)?;
            encoder.finish().map_err(failed())?;
            digest
        }
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(&mut blob, 0).map_err(failed())?;
            let digest = replay(store, part, &mut encoder)?;
            encoder.finish().map_err(failed())?;
            digest
        }
        Compression::None => replay(store, part, &mut blob)?,
    };
    part.diff_id.same(diff_id, || {
        format!("layer {} in the store (was something changed in it?)", part.diff_id)
    })?;
    blob.flush().map_err(failed())?;
    Ok((Digest::finish(blob.hash), blob.length))
}

/// Writes the archive that the layer was unpacked from: the frame, with the file contents inserted.
fn replay(store: &Store, part: Part, out: &mut dyn Write) -> Result<Digest> {
    let directory = store.layer(&part.directory);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(&directory, flags, Mode::empty()).map_err(Error::errno("open", &directory))?;
    let mut out = Hashed::new(out);
    let mut frames = Frames::open(&store.record(&part.directory).join("frame"))?;
    let writing = || Error::at("write", format!("layer {}", part.diff_id));
    while let Some(record) = frames.next_record()? {
        interrupt::check()?;
        out.write_all(&record.piece).map_err(writing())?;
        if record.path.is_empty() {
            continue;
        }
        let path = Path::new(OsStr::from_bytes(&record.path));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = CString::new(record.path.as_slice())
            .map_err(|_| Errno::INVAL)
            .and_then(|name| inside::open(root.as_fd(), &name, flags, Links::Refuse))
            .map_err(Error::errno("open", directory.join(path)))?;
        let copied =
            io::copy(&mut File::from(file).take(record.size), &mut out).map_err(writing())?;
        if copied != record.size {
            return Err(Error::Unfit(format!(
                "{} in the store is shorter than it was: import the image again",
                directory.join(path).display()
            )));
        }
    }
    Ok(Digest::finish(out.hash))
}
