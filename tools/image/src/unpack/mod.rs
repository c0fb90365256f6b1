//! Unpacks one layer.

mod archive;
mod attributes;
mod compression;
mod directories;
mod frame;
mod limits;
mod pax;
mod stream;
mod tree;
pub mod window;

pub use archive::has_valid_sum;
pub use attributes::{Attributes, Keep};
pub use compression::Compression;
pub use directories::keep_names;
pub use frame::{Frames, Record};
pub use limits::{Limits, Shared, TRUST};
pub use tree::{LOOK_UP, open_inside};
pub use window::{LONG_WINDOW, WINDOW};

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::merged::Merged;
use crate::oci::Descriptor;
use crate::store::{LayerInfo, Rights, Work};
use archive::{Archive, Entry, Kind};
use frame::Frame;
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
pub use stream::Decoder;
use stream::{BUFFER, Stream};
use tree::{Place, Tree};

/// The prefix of whiteouts, which mark files that a layer removes.
const WHITEOUT: &[u8] = b".wh.";
/// The marker of an opaque directory: the directory's contents in the layers below are hidden.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The place where file contents are stored. An export reads the contents from there to pack the same archive again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// In the unpacked files.
    Files,
    /// In the frame: for archives in which an entry replaces an earlier one.
    Frame,
}

/// A layer to unpack.
pub struct Task<'a> {
    /// A reader of the blob.
    pub source: Box<dyn Read + 'a>,
    /// The expected descriptor of the blob.
    pub blob: &'a Descriptor,
    /// The expected digest of the archive in the blob.
    pub diff_id: Digest,
    /// The layers below, if they are known.
    pub below: Option<Merged>,
    /// The place where file contents are stored.
    pub way: Way,
    /// The size of the longest allowed zstd window, as the exponent of a power of two.
    pub window: u32,
}

/// Unpacks the layer in `task.source` into `work`: the files into the directory `layer`, and the frame into the
/// directory `record`.
///
/// # Errors
/// Those of reading and writing; a digest differs; an entry is rejected; a limit is exceeded; [`Error::NeedsBelow`] if
/// `task.below` is unknown but needed; [`Error::NeedsFrame`] if `task.way` must be the frame; [`Error::NeedsWindow`] if
/// `task.window` is [`WINDOW`] and too short.
pub fn unpack(task: Task<'_>, work: &Work, keep: &Keep, shared: &Shared) -> Result<LayerInfo> {
    let Task { source, blob, diff_id, below, way, window } = task;
    let (layer, record) = (work.path().join("layer"), work.path().join("record"));
    for directory in [&layer, &record] {
        fs::create_dir(directory).map_err(Error::at("make", directory))?;
    }
    let stream = Stream::new(source, blob, shared, window)?;
    let mut unpacker = Unpacker {
        archive: Archive::new(stream, Frame::create(record.join("frame"))?),
        tree: Tree::new(&layer, keep.rights, below, shared)?,
        keep,
        way,
        buffer: vec![0; BUFFER],
        info: LayerInfo { diff_id, size: 0, entries: 0, implied: Vec::new() },
    };
    while let Some(entry) = unpacker.archive.next()? {
        shared.count_entry()?;
        unpacker.info.entries += 1;
        unpacker.entry(&entry)?;
    }
    unpacker.finish()
}

/// Reads and verifies the layer in `source` without storing anything.
///
/// # Errors
/// As [`unpack`], for reading, digests and limits.
pub fn check(
    source: Box<dyn Read + '_>,
    blob: &Descriptor,
    diff_id: Digest,
    shared: &Shared,
    window: u32,
) -> Result<()> {
    let mut stream = Stream::new(source, blob, shared, window)?;
    let mut buffer = vec![0; BUFFER];
    while stream.read(&mut buffer)? > 0 {}
    diff_id.check(stream.finish()?, "the layer's archive")
}

struct Unpacker<'a, 'k> {
    archive: Archive<'a>,
    tree: Tree<'a>,
    keep: &'k Keep,
    way: Way,
    buffer: Vec<u8>,
    info: LayerInfo,
}

impl Unpacker<'_, '_> {
    fn entry(&mut self, entry: &Entry) -> Result<()> {
        let (place, name) = self.tree.place(&entry.path)?;
        let hostile = |reason| Error::hostile(OsStr::from_bytes(&entry.path), reason);
        if name.is_empty() && entry.kind != Kind::Directory {
            return Err(hostile("the root of a layer must be a directory"));
        }
        if name.as_bytes() == OPAQUE {
            return self.tree.set_opaque(&place);
        }
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            return match hidden {
                b"" | b"." | b".." => Err(hostile("it removes no file")),
                // Such names are metadata of AUFS, and are ignored.
                _ if hidden.starts_with(WHITEOUT) => Ok(()),
                _ => self.tree.whiteout(&place, OsStr::from_bytes(hidden)),
            };
        }
        match &entry.kind {
            Kind::Directory => self.tree.directory(&place, &name, self.keep.attributes(entry)?),
            Kind::File | Kind::Sparse { .. } => {
                let (path, attributes) = (place.path.join(&name), self.keep.attributes(entry)?);
                let mut file = self.tree.file(&place, &name, entry.mode)?;
                self.info.size += match &entry.kind {
                    Kind::Sparse { size, segments } => {
                        self.copy_sparse(&mut file, &path, *size, segments)?
                    }
                    _ => {
                        if self.way == Way::Files {
                            self.archive.contents_in(path.as_os_str().as_bytes())?;
                        }
                        self.copy(&mut file, &path, u64::MAX, self.way == Way::Frame)?
                    }
                };
                attributes.apply_to_file(&file, &path)
            }
            Kind::HardLink(target) => self.tree.hard_link(&place, &name, target),
            Kind::Symlink(target) => {
                if target.is_empty() || target.contains(&0) {
                    return Err(hostile("it is a link that leads nowhere"));
                }
                self.tree.symlink(&place, &name, target)?;
                self.set_attributes(entry, &place, &name)
            }
            // Unprivileged users may create device 0:0, which is a whiteout.
            Kind::Node(kind, major, minor)
                if *kind == FileType::Fifo
                    || (*kind, *major, *minor) == (FileType::CharacterDevice, 0, 0)
                    || self.keep.rights == Rights::Root =>
            {
                self.tree.node(&place, &name, *kind, entry.mode, (*major, *minor))?;
                self.set_attributes(entry, &place, &name)
            }
            Kind::Node(..) => {
                self.keep.lose("devices", &entry.path);
                Ok(())
            }
        }
    }

    /// Sets the attributes of a link, a device or a FIFO.
    fn set_attributes(&self, entry: &Entry, place: &Place, name: &OsStr) -> Result<()> {
        let is_link = matches!(entry.kind, Kind::Symlink(_));
        self.keep.attributes(entry)?.apply_to_name(place.fd.as_fd(), name, is_link)
    }

    /// Copies the entry's contents, or the next `most` bytes of them.
    fn copy(&mut self, file: &mut File, path: &Path, most: u64, record: bool) -> Result<u64> {
        let mut copied = 0;
        loop {
            let part = usize::try_from(most - copied).unwrap_or(usize::MAX).min(self.buffer.len());
            match self.archive.read_data(&mut self.buffer[..part], record)? {
                0 => return Ok(copied),
                count => {
                    file.write_all(&self.buffer[..count]).map_err(Error::at("write", path))?;
                    copied += count as u64;
                }
            }
        }
    }

    /// Copies the segments of a sparse file to their offsets, leaving holes between them.
    fn copy_sparse(
        &mut self,
        file: &mut File,
        path: &Path,
        size: u64,
        segments: &[(u64, u64)],
    ) -> Result<u64> {
        let wrong = || Error::hostile(path, "its map of holes contradicts itself");
        self.archive.shared().count_bytes(size)?;
        let (mut end, mut copied) = (0, 0);
        for &(offset, length) in segments {
            if offset < end {
                return Err(wrong());
            }
            end = offset.checked_add(length).filter(|&end| end <= size).ok_or_else(wrong)?;
            file.seek(SeekFrom::Start(offset)).map_err(Error::at("seek in", path))?;
            if self.copy(file, path, length, true)? < length {
                return Err(wrong());
            }
            copied += length;
        }
        file.set_len(size).map_err(Error::at("set length of", path))?;
        Ok(copied)
    }

    fn finish(mut self) -> Result<LayerInfo> {
        let (stream, frame) = self.archive.finish()?;
        let found = stream.finish()?;
        self.info.diff_id.check(found, "the layer's archive")?;
        frame.finish()?;
        if self.tree.replaced && self.way == Way::Files {
            return Err(Error::NeedsFrame);
        }
        self.info.implied = self.tree.finish()?;
        Ok(self.info)
    }
}
