//! Reads a layer's archive entry by entry, in the formats ustar, PAX, GNU tar and old tar.
//!
//! The crate `tar` parses header fields and writes archives. Its own archive reader is not used: it ends PAX values at
//! newlines (which an xattr may contain) and reads headers of any length into memory.

use super::frame::Frame;
use super::pax::{self, Pax, Segment, Xattrs};
use super::stream::Stream;
use crate::error::{Error, Result, bail, ensure, unfit};
use rustix::fs::FileType;
use std::io;
use std::rc::Rc;
use tar::{EntryType, GnuExtSparseHeader, Header};

const BLOCK: usize = 512;
/// The maximum length of a PAX header, name or sparse map.
const LONGEST: u64 = 2 << 20;
/// The maximum number of consecutive headers for one entry.
const HEADERS: usize = 8;

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file, with its contents.
    File,
    /// A file with holes.
    Sparse {
        /// The length of the file including holes.
        size: u64,
        /// The segments in the archive.
        segments: Vec<Segment>,
    },
    /// A hard link, with its target.
    HardLink(Vec<u8>),
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A directory.
    Directory,
    /// A device or a FIFO: its type, and the major and minor number of a device.
    Node(FileType, u32, u32),
}

/// One entry.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name of the entry, as it is in the archive.
    pub path: Vec<u8>,
    /// The type of the entry.
    pub kind: Kind,
    /// Permissions with set-id and sticky bits.
    pub mode: u32,
    /// The owner of the entry.
    pub uid: u32,
    /// The group of the entry.
    pub gid: u32,
    /// Modification time: seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    /// Extended attributes.
    pub xattrs: Rc<Xattrs>,
}

/// An archive that is being read.
pub struct Archive<'a> {
    stream: Stream<'a>,
    frame: Frame,
    /// The number of unread bytes of the current entry.
    left: u64,
    /// The number of padding bytes after the contents.
    padding: u64,
    global: Pax,
}

impl<'a> Archive<'a> {
    /// Returns a reader of the archive in `stream`; everything except file contents is written to `frame`.
    pub fn new(stream: Stream<'a>, frame: Frame) -> Self {
        Self { stream, frame, left: 0, padding: 0, global: Pax::default() }
    }

    /// Reads the rest of the archive and records it in the frame. Returns the stream, which is at its end, and the
    /// frame.
    ///
    /// # Errors
    /// Those of reading to the end.
    pub fn finish(mut self) -> Result<(Stream<'a>, Frame)> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.stream.read(&mut buffer)? {
                0 => return Ok((self.stream, self.frame)),
                count => self.frame.raw(&buffer[..count])?,
            }
        }
    }

    /// Returns the next entry, or `None` at the end.
    ///
    /// # Errors
    /// Those of reading; the archive is malformed.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        self.skip()?;
        let mut own: Option<Pax> = None;
        let (mut long_path, mut long_link) = (None, None);
        for _ in 0..HEADERS {
            let Some(header) = self.header()? else {
                ensure!(
                    own.is_none() && long_path.is_none() && long_link.is_none(),
                    "the archive ends after a header that describes a further entry"
                );
                return Ok(None);
            };
            let size = header.entry_size().map_err(field)?;
            match header.entry_type() {
                EntryType::GNULongName => long_path = Some(self.text(size)?),
                EntryType::GNULongLink => long_link = Some(self.text(size)?),
                EntryType::XGlobalHeader => {
                    let text = self.take(size)?;
                    self.global.add(&text)?;
                }
                EntryType::XHeader => {
                    let text = self.take(size)?;
                    own.get_or_insert_with(|| self.global.clone()).add(&text)?;
                }
                _ => {
                    // A global header counts as if each entry had its own copy.
                    self.stream.count(self.global.weight())?;
                    let mut pax = own.unwrap_or_else(|| self.global.clone());
                    pax.path = pax.path.or(long_path);
                    pax.link = pax.link.or(long_link);
                    return self.entry(&header, pax).map(Some);
                }
            }
        }
        bail!("the archive has too many headers for one entry")
    }

    fn entry(&mut self, header: &Header, pax: Pax) -> Result<Entry> {
        let named = pax.path.as_ref().map(|path| path.to_vec());
        let path = named.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = || {
            let bytes = header.link_name_bytes().map(|name| name.into_owned());
            let named = pax.link.as_ref().map(|link| link.to_vec());
            named.or(bytes).ok_or_else(|| unfit!("the archive has a link that leads nowhere"))
        };
        let device = |kind| {
            let number = |number: io::Result<Option<u32>>| number.ok().flatten();
            let numbers = number(header.device_major()).zip(number(header.device_minor()));
            let numbers = numbers.map(|(major, minor)| Kind::Node(kind, major, minor));
            numbers.ok_or_else(|| unfit!("the archive has a device without numbers"))
        };
        let size = pax.size.map_or_else(|| header.entry_size().map_err(field), Ok)?;
        let kind = match header.entry_type() {
            EntryType::GNUSparse => self.gnu_sparse(header)?,
            // Old tar marks directories only by a trailing slash.
            EntryType::Regular if path.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Link => Kind::HardLink(link()?),
            EntryType::Symlink => Kind::Symlink(link()?),
            EntryType::Directory => Kind::Directory,
            EntryType::Char => device(FileType::CharacterDevice)?,
            EntryType::Block => device(FileType::BlockDevice)?,
            EntryType::Fifo => Kind::Node(FileType::Fifo, 0, 0),
            other => {
                let byte = char::from(other.as_byte());
                bail!("the archive has an entry of type {byte:?}, which is not known");
            }
        };
        if matches!(kind, Kind::File | Kind::Sparse { .. }) {
            self.begin(size);
        }
        let mut entry = Entry {
            path,
            kind,
            mode: header.mode().map_err(field)? & 0o7777,
            uid: pax.uid.map_or_else(|| header.uid().map_err(field).and_then(pax::id), Ok)?,
            gid: pax.gid.map_or_else(|| header.gid().map_err(field).and_then(pax::id), Ok)?,
            // Negative times are stored in binary with all upper bits set.
            mtime: match pax.mtime {
                Some(time) => time,
                None => (header.mtime().map_err(field)?.cast_signed(), 0),
            },
            xattrs: Rc::clone(&pax.xattrs),
        };
        self.pax_sparse(&mut entry, pax)?;
        Ok(entry)
    }

    /// Parses the map of a sparse file in old GNU format. The map is in the file's header and in the blocks after the
    /// header.
    fn gnu_sparse(&mut self, header: &Header) -> Result<Kind> {
        let gnu =
            header.as_gnu().ok_or_else(|| unfit!("the archive has a sparse file without a map"))?;
        let mut segments = Vec::new();
        let mut add = |blocks: &[tar::GnuSparseHeader]| {
            for block in blocks.iter().filter(|block| !block.is_empty()) {
                let segment = (block.offset().map_err(field)?, block.length().map_err(field)?);
                pax::add_segment(&mut segments, segment)?;
            }
            Ok::<_, Error>(())
        };
        add(&gnu.sparse)?;
        let mut extended = gnu.is_extended();
        while extended {
            let mut block = GnuExtSparseHeader::new();
            let bytes = block.as_mut_bytes();
            let all = self.stream.read_full(bytes)? == bytes.len();
            self.frame.raw(bytes)?;
            ensure!(all, "the archive ends inside a sparse file's map");
            add(block.sparse())?;
            self.stream.shared().count_entry()?;
            extended = block.is_extended();
        }
        let size = gnu.real_size().map_err(field)?;
        Ok(Kind::Sparse { size, segments })
    }

    /// Parses the map of a sparse file in one of the three PAX formats.
    fn pax_sparse(&mut self, entry: &mut Entry, pax: Pax) -> Result<()> {
        let sparse = pax.sparse;
        if entry.kind != Kind::File || (sparse.major.is_none() && sparse.map.is_none()) {
            return Ok(());
        }
        let size =
            sparse.size.ok_or_else(|| unfit!("the archive has a sparse file without a size"))?;
        let segments = match (sparse.major, sparse.map) {
            (Some(1), _) => self.sparse_map()?,
            (None | Some(0), Some(map)) => Rc::unwrap_or_clone(map),
            _ => bail!("the archive has a sparse file in an unknown format"),
        };
        entry.kind = Kind::Sparse { size, segments };
        if let Some(name) = sparse.name {
            entry.path = name.to_vec();
        }
        Ok(())
    }

    /// Parses the map of a sparse file in PAX format 1.0. The map precedes the contents. It consists of lines with a
    /// decimal number each: the number of segments, then the offset and the length of each segment. It is padded to a
    /// block.
    fn sparse_map(&mut self) -> Result<Vec<Segment>> {
        let mut map = Vec::new();
        let mut digits = Vec::new();
        let (mut wanted, mut offset) = (None, None);
        for _ in 0..LONGEST / BLOCK as u64 {
            let mut block = [0; BLOCK];
            if self.read_data(&mut block, true)? != BLOCK {
                break;
            }
            for &byte in &block {
                if byte != b'\n' {
                    digits.push(byte);
                    continue;
                }
                let number = pax::number(&digits)?;
                digits.clear();
                match (wanted, offset.take()) {
                    (None, _) => wanted = Some(number),
                    (Some(_), None) => offset = Some(number),
                    (Some(_), Some(offset)) => pax::add_segment(&mut map, (offset, number))?,
                }
                if wanted == Some(map.len() as u64) && offset.is_none() {
                    return Ok(map);
                }
            }
        }
        bail!("the archive has a sparse file whose map does not end")
    }

    /// Fills `buffer` with contents of the current entry, and returns the number of bytes. The number is less than the
    /// buffer's length only at the end of the contents. If `record` is true, the contents are also written to the
    /// frame, because no unpacked file will contain them in this form.
    ///
    /// # Errors
    /// Those of reading; the archive ends prematurely.
    pub fn read_data(&mut self, buffer: &mut [u8], record: bool) -> Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..length];
        ensure!(self.stream.read_full(buffer)? == length, "the archive ends inside a file");
        if record {
            self.frame.raw(buffer)?;
        }
        self.left -= length as u64;
        Ok(length)
    }

    /// Records that the file `path` will contain the current entry's contents.
    ///
    /// # Errors
    /// Those of writing the frame.
    pub fn contents_in(&mut self, path: &[u8]) -> Result<()> {
        let left = self.left;
        self.frame.record(left, path)
    }

    /// Returns the state shared by all layers of this import.
    pub fn shared(&self) -> &'a super::Shared {
        self.stream.shared()
    }

    /// Skips to the next header.
    fn skip(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        while self.left > 0 {
            self.read_data(&mut buffer, true)?;
        }
        self.left = std::mem::take(&mut self.padding);
        while self.left > 0 {
            self.read_data(&mut buffer, true)?;
        }
        Ok(())
    }

    /// Returns a header with a valid checksum, or `None` at a block of zeros or the end of the stream.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        let read = self.stream.read_full(header.as_mut_bytes())?;
        let bytes = *header.as_bytes();
        self.frame.raw(&bytes[..read])?;
        if read == 0 || bytes[..read].iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        ensure!(read == BLOCK, "the archive ends inside a header");
        ensure!(
            has_valid_sum(&header).map_err(field)?,
            "invalid checksum of a tar header: this is not an archive, or a damaged one"
        );
        Ok(Some(header))
    }

    /// Begins the data of an entry.
    fn begin(&mut self, size: u64) {
        (self.left, self.padding) = (size, size.wrapping_neg() % BLOCK as u64);
    }

    /// Reads the data of an extension header.
    fn take(&mut self, size: u64) -> Result<Vec<u8>> {
        ensure!(size <= LONGEST, "the archive has a header longer than 2 MiB");
        let mut data = vec![0; usize::try_from(size).unwrap_or_default()];
        self.begin(size);
        self.read_data(&mut data, true)?;
        self.skip()?;
        Ok(data)
    }

    /// Reads the data of an extension header, up to the first zero byte.
    fn text(&mut self, size: u64) -> Result<Rc<[u8]>> {
        let text = self.take(size)?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Ok(text[..end].into())
    }
}

/// Returns whether the checksum of a header is valid. The checksum counts its own field as spaces. Some old writers
/// summed signed bytes.
///
/// # Errors
/// The field is not a number.
pub fn has_valid_sum(header: &Header) -> io::Result<bool> {
    let sum = |value: fn(u8) -> i64| -> i64 {
        let byte = |(at, &byte)| value(if (148..156).contains(&at) { b' ' } else { byte });
        header.as_bytes().iter().enumerate().map(byte).sum()
    };
    let written = i64::from(header.cksum()?);
    Ok(written == sum(i64::from) || written == sum(|byte| i64::from(byte.cast_signed())))
}

fn field(_: io::Error) -> Error {
    unfit!("the archive has an invalid header: this is not an archive, or a damaged one")
}
