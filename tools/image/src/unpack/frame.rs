//! The frame of an archive: everything except the file contents, kept so that the same archive can be packed again.
//!
//! The files alone are not enough: the order of entries, the header format and the padding are the packer's choice, and
//! the diff-id depends on all of them. A frame is a file of records, compressed with zstd. A record consists of the
//! length of a piece of the archive (4 bytes, little endian), the piece, the length of the file whose contents follow
//! in the archive (8 bytes), the length of that file's path (2 bytes), and the path in the layer. A record with an
//! empty path refers to no file.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
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
    pub fn contents(&mut self, size: u64, path: &[u8]) -> Result<()> {
        self.record(size, path)
    }

    fn record(&mut self, size: u64, path: &[u8]) -> Result<()> {
        let write = |out: &mut dyn Write| {
            let length = |length: usize| io::Error::other(format!("{length} bytes are too many"));
            let piece = u32::try_from(self.piece.len()).map_err(|_| length(self.piece.len()))?;
            let name = u16::try_from(path.len()).map_err(|_| length(path.len()))?;
            out.write_all(&piece.to_le_bytes())?;
            out.write_all(&self.piece)?;
            out.write_all(&size.to_le_bytes())?;
            out.write_all(&name.to_le_bytes())?;
            out.write_all(path)
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
        let mut word = [0; 4];
        // The file may end only at the start of a record.
        if self.input.read(&mut word[..1])? == 0 {
            return Ok(None);
        }
        self.input.read_exact(&mut word[1..])?;
        let mut record = Record::default();
        let piece = u64::from(u32::from_le_bytes(word));
        if (&mut self.input).take(piece).read_to_end(&mut record.piece)? as u64 != piece {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut size = [0; 8];
        self.input.read_exact(&mut size)?;
        record.size = u64::from_le_bytes(size);
        let mut length = [0; 2];
        self.input.read_exact(&mut length)?;
        record.path = vec![0; usize::from(u16::from_le_bytes(length))];
        self.input.read_exact(&mut record.path)?;
        Ok(Some(record))
    }
}
