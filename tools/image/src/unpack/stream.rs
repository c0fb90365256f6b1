//! Reads the archive in a blob: decompresses the blob, hashes blob and archive, and enforces the limits.

use super::compression::Compression;
use super::limits::Shared;
use super::window::{self, WINDOW};
use crate::digest::{Digest, Hashed};
use crate::error::{Error, Result};
use crate::oci::Descriptor;
use std::io::{self, BufRead, BufReader, Read};

/// The number of bytes to read at once.
pub const BUFFER: usize = 256 << 10;
/// A blob as stored or transferred.
struct Blob<'a> {
    source: Hashed<Box<dyn Read + 'a>>,
    descriptor: &'a Descriptor,
    shared: &'a Shared,
}

impl Read for Blob<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        if self.source.length > self.descriptor.size {
            return Err(io::Error::other(self.descriptor.wrong_size(self.source.length)));
        }
        self.shared.count_read(count as u64);
        Ok(count)
    }
}

/// What reads a file or a blob, decompressed if necessary.
pub enum Decoder<R: Read> {
    /// As it is.
    Plain(BufReader<R>),
    /// Of gzip.
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<R>>>),
    /// Of zstd.
    Zstd(zstd::stream::read::Decoder<'static, BufReader<R>>),
}

impl<R: Read> Decoder<R> {
    /// Begins to read; [`Compression`] is known by the first bytes.
    ///
    /// # Errors
    /// If these cannot be read.
    pub fn new(source: R, window: u32) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(BUFFER, source);
        let start = reader.fill_buf()?;
        match Compression::of(start) {
            Some(Compression::Gzip) => {
                let decoder = flate2::bufread::MultiGzDecoder::new(reader);
                Ok(Self::Gzip(Box::new(decoder)))
            }
            Some(Compression::Zstd) => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
                decoder.window_log_max(window)?;
                Ok(Self::Zstd(decoder))
            }
            None => Ok(Self::Plain(reader)),
        }
    }

    /// The reader of the source, whose buffer has the bytes that are not decompressed yet.
    pub fn reader(&mut self) -> &mut BufReader<R> {
        match self {
            Self::Plain(reader) => reader,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => decoder.get_mut(),
        }
    }
}

impl<R: Read> Read for Decoder<R> {
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
    decoder: Decoder<Blob<'a>>,
    hash: Hashed<()>,
    /// The number of bytes counted so far.
    length: u64,
    shared: &'a Shared,
    window: u32,
}

impl<'a> Stream<'a> {
    /// Opens the archive in the blob that `source` reads. `window` is the size of the longest allowed zstd window, as
    /// the exponent of a power of two.
    ///
    /// # Errors
    /// Those of reading the beginning of the blob.
    pub fn new(
        source: Box<dyn Read + 'a>,
        descriptor: &'a Descriptor,
        shared: &'a Shared,
        window: u32,
    ) -> Result<Self> {
        let blob = Blob { source: Hashed::new(source), descriptor, shared };
        let decoder = Decoder::new(blob, window).map_err(reading)?;
        Ok(Self { decoder, hash: Hashed::new(()), length: 0, shared, window })
    }

    /// Returns the state shared by all layers of this import.
    pub fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Reads some bytes; returns 0 at the end.
    ///
    /// # Errors
    /// Those of reading and decompressing, a limit, an interruption.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.shared.go_on()?;
        let count = loop {
            match self.decoder.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.map_err(|error| self.failed(error))?,
            }
        };
        self.hash.add(&buffer[..count]);
        self.count(count as u64)?;
        Ok(count)
    }

    fn failed(&mut self, error: io::Error) -> Error {
        match reading(error) {
            Error::System { cause, .. } if window::is_too_long(&cause) => match self.window {
                WINDOW => Error::NeedsWindow,
                _ => window::refused("the layer", self.decoder.reader().buffer()),
            },
            error => error,
        }
    }

    /// Counts bytes as if they were in the archive, for headers that apply to many entries.
    ///
    /// # Errors
    /// A limit.
    pub fn count(&mut self, bytes: u64) -> Result<()> {
        self.length += bytes;
        // The layer's own ratio is checked first, because its error is more specific.
        let packed = self.decoder.reader().get_ref().source.length;
        self.shared.limits.check_ratio(self.length, packed, "the layer")?;
        self.shared.count_length(bytes)
    }

    /// Fills `buffer`; returns fewer bytes only at the end.
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

    /// Reads the rest of the blob, verifies the blob, and returns the digest of the archive.
    ///
    /// # Errors
    /// The length or the digest of the blob differs.
    pub fn finish(mut self) -> Result<Digest> {
        let reader = self.decoder.reader();
        io::copy(reader, &mut io::sink()).map_err(reading)?;
        let Blob { source, descriptor, .. } = reader.get_ref();
        if source.length != descriptor.size {
            return Err(descriptor.wrong_size(source.length));
        }
        descriptor.digest.check(source.digest(), "the blob")?;
        Ok(self.hash.digest())
    }
}

/// Returns our own error that passed through a decoder, or the decoder's error.
fn reading(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(cause) => Error::System { op: "read", object: "blob".to_owned(), cause },
    }
}
