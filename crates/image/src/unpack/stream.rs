//! From a blob to the archive in it: decompressed, hashed on both sides, and limited.

use super::compression::Compression;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::oci::Descriptor;
use sha2::{Digest as _, Sha256};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How much is read at once.
pub const BUFFER: usize = 256 << 10;
/// Up to here no ratio is too high: a file of zeros compresses a thousand times.
const FREE: u64 = 64 << 20;

/// How much an image may unpack to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes in all of its archives.
    pub bytes: u64,
    /// Entries in all of its archives.
    pub entries: u64,
    /// How many times as long as its blob an archive may be once it is longer than 64 MiB.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: 4_000_000, ratio: 200 }
    }
}

impl Limits {
    /// Refuses what unpacks to `length` bytes so far, of the `packed` ones it is in. `what` names it.
    ///
    /// # Errors
    /// [`Error::Limit`].
    pub fn check_ratio(&self, length: u64, packed: u64, what: impl Display) -> Result<()> {
        let ratio = self.ratio;
        if length <= FREE || length / ratio.max(1) <= packed {
            return Ok(());
        }
        Err(Error::Limit {
            what: format!("{what} unpacks to more than {ratio} times its size"),
            option: "--max-ratio",
        })
    }
}

/// What all layers of one import have in common.
#[derive(Debug, Default)]
pub struct Shared {
    /// How much it may be.
    pub limits: Limits,
    /// Bytes of blobs read, for who watches.
    pub read: AtomicU64,
    /// Set when one layer has failed: the others end.
    pub stop: AtomicBool,
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl Shared {
    /// Nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Counts an entry.
    ///
    /// # Errors
    /// [`Error::Limit`].
    pub fn count_entry(&self) -> Result<()> {
        let limit = self.limits.entries;
        if self.entries.fetch_add(1, Ordering::Relaxed) < limit {
            return Ok(());
        }
        Err(Error::Limit {
            what: format!("the image has more than {limit} entries"),
            option: "--max-entries",
        })
    }

    /// Counts `bytes` that files will have, whether or not they are in the archive.
    ///
    /// # Errors
    /// [`Error::Limit`].
    pub fn count_bytes(&self, bytes: u64) -> Result<()> {
        let limit = self.limits.bytes;
        if self
            .bytes
            .fetch_add(bytes, Ordering::Relaxed)
            .checked_add(bytes)
            .is_some_and(|sum| sum <= limit)
        {
            return Ok(());
        }
        // Nobody else shall find the counter wrapped around.
        self.bytes.store(limit, Ordering::Relaxed);
        Err(Error::Limit {
            what: format!("the image unpacks to more than {limit} bytes"),
            option: "--max-bytes",
        })
    }

    fn go_on(&self) -> Result<()> {
        interrupt::check()?;
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// A blob as it is stored or sent.
struct Blob<'a> {
    source: Box<dyn Read + 'a>,
    descriptor: &'a Descriptor,
    shared: &'a Shared,
    hash: Sha256,
    read: u64,
}

impl Read for Blob<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read += count as u64;
        let (blob, expected) = (self.descriptor.digest, self.descriptor.size);
        if self.read > expected {
            return Err(io::Error::other(Error::Size { blob, expected, found: self.read }));
        }
        self.hash.update(&buffer[..count]);
        self.shared.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

enum Decoder<'a> {
    Plain(BufReader<Blob<'a>>),
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<Blob<'a>>>>),
    Zstd(zstd::stream::read::Decoder<'a, BufReader<Blob<'a>>>),
}

impl<'a> Decoder<'a> {
    fn new(blob: Blob<'a>) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(BUFFER, blob);
        let start = reader.fill_buf()?;
        match Compression::of(start) {
            Some(Compression::Gzip) => {
                let decoder = flate2::bufread::MultiGzDecoder::new(reader);
                Ok(Self::Gzip(Box::new(decoder)))
            }
            Some(Compression::Zstd) => {
                zstd::stream::read::Decoder::with_buffer(reader).map(Self::Zstd)
            }
            None => Ok(Self::Plain(reader)),
        }
    }

    fn blob(&self) -> &Blob<'a> {
        match self {
            Self::Plain(reader) => reader.get_ref(),
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }

    fn into_reader(self) -> BufReader<Blob<'a>> {
        match self {
            Self::Plain(reader) => reader,
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.finish(),
        }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// The archive in a blob.
pub struct Stream<'a> {
    decoder: Decoder<'a>,
    hash: Sha256,
    length: u64,
    shared: &'a Shared,
}

impl<'a> Stream<'a> {
    /// The archive in the blob that `source` reads.
    ///
    /// # Errors
    /// Those of reading its beginning.
    pub fn new(
        source: Box<dyn Read + 'a>,
        descriptor: &'a Descriptor,
        shared: &'a Shared,
    ) -> Result<Self> {
        let blob = Blob { source, descriptor, shared, hash: Sha256::new(), read: 0 };
        let decoder = Decoder::new(blob).map_err(reading)?;
        Ok(Self { decoder, hash: Sha256::new(), length: 0, shared })
    }

    /// What all layers of this import have in common.
    pub fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Reads some bytes; none at the end.
    ///
    /// # Errors
    /// Those of reading and decompressing, a limit, an interruption.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.shared.go_on()?;
        let count = loop {
            match self.decoder.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.map_err(reading)?,
            }
        };
        self.hash.update(&buffer[..count]);
        self.length += count as u64;
        self.shared.count_bytes(count as u64)?;
        let packed = self.decoder.blob().read;
        self.shared.limits.check_ratio(self.length, packed, "the layer")?;
        Ok(count)
    }

    /// Fills `buffer`; less only at the end.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_full(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// The digest of the archive, once all of it has been read and the blob was what it should be.
    ///
    /// # Errors
    /// [`Error::Size`] and [`Error::Digest`] of the blob.
    pub fn finish(self) -> Result<Digest> {
        let mut reader = self.decoder.into_reader();
        io::copy(&mut reader, &mut io::sink()).map_err(reading)?;
        let blob = reader.into_inner();
        let Descriptor { digest, size, .. } = *blob.descriptor;
        if blob.read != size {
            return Err(Error::Size { blob: digest, expected: size, found: blob.read });
        }
        digest.same(Digest::finish(blob.hash), || "the blob".to_owned())?;
        Ok(Digest::finish(self.hash))
    }
}

/// An error of ours that came through a decoder, or one of the decoder's.
fn reading(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(cause) => Error::System { op: "read", object: "blob".to_owned(), cause },
    }
}
