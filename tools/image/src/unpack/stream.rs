//! Reads the archive in a blob: decompresses the blob, hashes blob and archive, and enforces the limits.

use super::compression::Compression;
use super::limits::Shared;
use super::window::{self, WINDOW};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::Descriptor;
use sha2::{Digest as _, Sha256};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::Ordering;

/// The number of bytes to read at once.
pub const BUFFER: usize = 256 << 10;
/// A blob as stored or transferred.
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
    fn new(blob: Blob<'a>, window: u32) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(BUFFER, blob);
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

    fn blob(&self) -> &Blob<'a> {
        match self {
            Self::Plain(reader) => reader.get_ref(),
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }

    /// Returns the buffered bytes of the blob that are not decompressed yet.
    fn ahead(&self) -> &[u8] {
        match self {
            Self::Plain(reader) => reader.buffer(),
            Self::Gzip(decoder) => decoder.get_ref().buffer(),
            Self::Zstd(decoder) => decoder.get_ref().buffer(),
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
        let blob = Blob { source, descriptor, shared, hash: Sha256::new(), read: 0 };
        let decoder = Decoder::new(blob, window).map_err(reading)?;
        Ok(Self { decoder, hash: Sha256::new(), length: 0, shared, window })
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
        self.hash.update(&buffer[..count]);
        self.count(count as u64)?;
        Ok(count)
    }

    fn failed(&self, error: io::Error) -> Error {
        match reading(error) {
            Error::System { cause, .. } if window::is_too_long(&cause) => match self.window {
                WINDOW => Error::NeedsWindow,
                _ => window::refused("the layer", self.decoder.ahead()),
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
        let packed = self.decoder.blob().read;
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

/// Returns our own error that passed through a decoder, or the decoder's error.
fn reading(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(cause) => Error::System { op: "read", object: "blob".to_owned(), cause },
    }
}
