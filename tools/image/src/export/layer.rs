//! Packs a layer again, byte for byte as in the original archive.

use super::Part;
use crate::digest::{Digest, Hashed};
use crate::error::{Error, Result, ensure};
use crate::options::Compression;
use crate::store::Store;
use crate::unpack::{Frames, open_inside};
use flate2::write::GzEncoder;
use report::interrupt;
use rustix::fs::{Mode, OFlags, open};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
    match compression {
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(&mut blob, flate2::Compression::default());
            replay(store, part, &mut encoder)?;
            encoder.finish().map_err(failed())?;
        }
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(&mut blob, 0).map_err(failed())?;
            replay(store, part, &mut encoder)?;
            encoder.finish().map_err(failed())?;
        }
        Compression::None => replay(store, part, &mut blob)?,
    }
    blob.flush().map_err(failed())?;
    Ok((blob.digest(), blob.length))
}

/// Writes the archive that the layer was unpacked from: the frame, with the file contents inserted.
fn replay(store: &Store, part: Part, out: &mut dyn Write) -> Result<()> {
    let directory = store.layer(&part.directory);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(&directory, flags, Mode::empty()).map_err(Error::at("open", &directory))?;
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
        let file = open_inside(root.as_fd(), path, flags)
            .map_err(Error::at("open", directory.join(path)))?;
        let copied = io::copy(&mut file.take(record.size), &mut out).map_err(writing())?;
        ensure!(
            copied == record.size,
            "{} in the store is shorter than it was: import the image again",
            directory.join(path).display()
        );
    }
    let what = format!("layer {} in the store (was something changed in it?)", part.diff_id);
    part.diff_id.check(out.digest(), what)
}
