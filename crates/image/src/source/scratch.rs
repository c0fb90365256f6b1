//! Copies of what cannot be read at random: pipes, and archives that are compressed as a whole.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::unpack::Limits;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: usize = 512;

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Gzip,
    Zstd,
    /// A header of tar, with a true sum.
    Tar,
    Other,
}

impl Start {
    fn of(block: &[u8]) -> Self {
        match block {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ if is_header(block) => Self::Tar,
            _ => Self::Other,
        }
    }
}

fn is_header(block: &[u8]) -> bool {
    let mut header = tar::Header::new_old();
    let Some(block) = block.get(..BLOCK) else { return false };
    header.as_mut_bytes().copy_from_slice(block);
    let written = header.cksum().ok();
    header.set_cksum();
    written.is_some() && written == header.cksum().ok()
}

/// An archive that can be read at random: `from` itself if it is a plain file, else a copy in the directory
/// `scratch` of what it reads or unpacks to, which is nobody's but the caller's.
///
/// # Errors
/// Those of reading and writing; that it is no archive, or a longer one than `limits` allow.
pub fn plain(from: From, path: &Path, scratch: &Path, limits: &Limits) -> Result<File> {
    let mut file = match from {
        From::File(file) => file,
        From::Pipe(mut pipe) => {
            let mut block = Vec::new();
            (&mut pipe)
                .take(BLOCK as u64)
                .read_to_end(&mut block)
                .map_err(Error::at("read", path))?;
            // Before a disk is filled with it.
            if Start::of(&block) == Start::Other {
                return Err(no_archive(path));
            }
            copy(block.chain(pipe), None, path, &scratch.join("archive"), limits)?
        }
    };
    let mut block = [0; BLOCK];
    let count = read_start(&file, &mut block).map_err(Error::at("read", path))?;
    let length = file.metadata().map_err(Error::at("read", path))?.len();
    let to = scratch.join("plain");
    file.rewind().map_err(Error::at("read", path))?;
    match Start::of(&block[..count]) {
        Start::Gzip => {
            let reader = flate2::bufread::MultiGzDecoder::new(BufReader::new(file));
            copy(reader, Some(length), path, &to, limits)
        }
        Start::Zstd => {
            let reader = zstd::stream::read::Decoder::new(file).map_err(Error::at("read", path))?;
            copy(reader, Some(length), path, &to, limits)
        }
        Start::Tar | Start::Other => Ok(file),
    }
}

/// What an archive is read from.
pub enum From {
    /// A file, from its beginning.
    File(File),
    /// Anything else.
    Pipe(Box<dyn Read>),
}

/// What is said of a file that is none.
pub fn no_archive(path: &Path) -> Error {
    Error::Unfit(format!("{} is no archive, or a damaged one", path.display()))
}

fn read_start(file: &File, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match file.read_at(&mut block[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Writes a new file. `compressed` is the length of what is unpacked.
fn copy(
    mut from: impl Read,
    compressed: Option<u64>,
    path: &Path,
    to: &Path,
    limits: &Limits,
) -> Result<File> {
    let op = if compressed.is_some() { "decompress" } else { "copy" };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(to)
        .map_err(Error::at("make", to))?;
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        interrupt::check()?;
        let count = match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            count => count.map_err(Error::at(op, path))?,
        };
        if count == 0 {
            break;
        }
        length += count as u64;
        if length > limits.bytes {
            return Err(Error::Limit {
                what: format!("{} has more than {} bytes", path.display(), limits.bytes),
                option: "--max-bytes",
            });
        }
        if let Some(packed) = compressed {
            limits.check_ratio(length, packed, path.display())?;
        }
        file.write_all(&buffer[..count]).map_err(Error::at("write", to))?;
    }
    file.rewind().map_err(Error::at("read", to))?;
    Ok(file)
}
