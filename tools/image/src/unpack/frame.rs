//! The frame of an archive: everything except the file contents, kept so that the same archive can be packed again.
//!
//! The files alone are not enough: the order of entries, the header format and the padding are the packer's choice, and
//! the diff-id depends on all of them. A frame is a file of records, compressed with zstd. A record consists of the
//! length of a piece of the archive (4 bytes, little endian), the piece, the length of the file whose contents follow
//! in the archive (8 bytes), the length of that file's path (2 bytes), and the path in the layer. A record with an
//! empty path refers to no file.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const PIECE: usize = 64 << 10;
const LEVEL: i32 = 1;

/// Writes a frame.
pub struct Frame {
    out: zstd::stream::write::Encoder<'static, File>,
    piece: Vec<u8>,
    path: PathBuf,
}

impl Frame {
    /// Creates the frame `path`.
    ///
    /// # Errors
    /// Those of creating the file.
    pub fn create(path: PathBuf) -> Result<Self> {
        let out = File::create_new(&path)
            .and_then(|file| zstd::stream::write::Encoder::new(file, LEVEL))
            .map_err(Error::at("make", &path))?;
        Ok(Self { out, piece: Vec::with_capacity(PIECE), path })
    }

    /// Appends `bytes` of the archive.
    ///
    /// # Errors
    /// Those of writing.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE { self.record(0, b"") } else { Ok(()) }
    }

    /// Appends a reference to `size` bytes of contents of the file `path`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn record(&mut self, size: u64, path: &[u8]) -> Result<()> {
        let write = |out: &mut dyn Write| {
            let piece = u32::try_from(self.piece.len()).map_err(io::Error::other)?;
            let name = u16::try_from(path.len()).map_err(io::Error::other)?;
            out.write_all(&piece.to_le_bytes())?;
            out.write_all(&self.piece)?;
            out.write_all(&[&size.to_le_bytes()[..], &name.to_le_bytes(), path].concat())
        };
        write(&mut self.out).map_err(Error::at("write", &self.path))?;
        self.piece.clear();
        Ok(())
    }

    /// Flushes the remaining data.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> Result<()> {
        self.record(0, b"")?;
        self.out.finish().map_err(Error::at("write", &self.path))?;
        Ok(())
    }
}

/// Reads a frame.
pub struct Frames {
    input: BufReader<zstd::stream::read::Decoder<'static, BufReader<File>>>,
    path: PathBuf,
}

/// One record: a piece of the archive, then the contents of a file if there is a path.
#[derive(Debug, Default)]
pub struct Record {
    /// The piece.
    pub piece: Vec<u8>,
    /// The file's length.
    pub size: u64,
    /// The file's path in the layer.
    pub path: Vec<u8>,
}

impl Frames {
    /// Opens the frame `path`.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn open(path: &Path) -> Result<Self> {
        let input = File::open(path)
            .and_then(zstd::stream::read::Decoder::new)
            .map_err(Error::at("open", path))?;
        Ok(Self { input: BufReader::new(input), path: path.to_owned() })
    }

    /// Returns the next record, or `None` at the end.
    ///
    /// # Errors
    /// Those of reading; the frame is damaged.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.read().map_err(Error::at("read", &self.path))
    }

    fn read(&mut self) -> io::Result<Option<Record>> {
        // The file may end only at the start of a record.
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let piece = u32::from_le_bytes(self.number()?);
        let mut record = Record::default();
        if (&mut self.input).take(piece.into()).read_to_end(&mut record.piece)? != piece as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        record.size = u64::from_le_bytes(self.number()?);
        record.path = vec![0; u16::from_le_bytes(self.number()?).into()];
        self.input.read_exact(&mut record.path)?;
        Ok(Some(record))
    }

    fn number<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map(|()| bytes)
    }
}
