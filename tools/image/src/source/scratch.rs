//! Temporary copies of sources without random access: pipes and compressed archives.

use super::read_up_to;
use crate::error::{Error, Result, ensure, unfit};
use crate::unpack::{Compression, Decoder, LONG_WINDOW, Limits, TRUST, has_valid_sum, window};
use report::interrupt;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;

/// The length of a tar header.
pub const BLOCK: usize = 512;

/// Returns whether a block is a tar header with a valid checksum.
pub fn is_header(block: &[u8]) -> bool {
    let mut header = tar::Header::new_old();
    let Some(block) = block.get(..BLOCK) else { return false };
    header.as_mut_bytes().copy_from_slice(block);
    has_valid_sum(&header).unwrap_or(false)
}

/// Returns an archive with random access: `file` itself if it is a plain file, else an uncompressed copy in `scratch`,
/// a directory that only the caller can access. `is_file` is false if the file is a pipe or the like.
///
/// # Errors
/// Those of reading and writing; the input is not an archive, or exceeds `limits`.
pub fn plain(
    mut file: File,
    is_file: bool,
    path: &Path,
    scratch: &Path,
    limits: &Limits,
) -> Result<File> {
    if !is_file {
        let block = read_up_to(&file, BLOCK as u64, path)?;
        // The input is checked before it is copied to the disk.
        if Compression::of(&block).is_none() && !is_header(&block) {
            return Err(no_archive(path));
        }
        file = copy(block.chain(file), None, path, &scratch.join("archive"), limits)?;
    }
    let start = read_up_to(&file, BLOCK as u64, path)?;
    ensure!(
        !start.starts_with(b"\xfd7zXZ"),
        "{} is compressed with xz: decompress it first (xz -d)",
        path.display()
    );
    let length = file.metadata().map_err(Error::at("read", path))?.len();
    let to = scratch.join("plain");
    file.rewind().map_err(Error::at("read", path))?;
    if Compression::of(&start).is_none() {
        return Ok(file);
    }
    let mut decoder = Decoder::new(file, LONG_WINDOW).map_err(Error::at("read", path))?;
    match copy(&mut decoder, Some(length), path, &to, limits) {
        Err(Error::System { cause, .. }) if window::is_too_long(&cause) => {
            Err(window::refused(path.display(), decoder.reader().buffer()))
        }
        result => result,
    }
}

/// Returns the error for a file that is not an archive.
pub fn no_archive(path: &Path) -> Error {
    unfit!("{} is not an archive, or a damaged one", path.display())
}

/// Writes a new file. `compressed` is the length of the compressed input.
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
        let (most, shown) = (limits.bytes, path.display());
        ensure!(length <= most, "{shown} has more than {most} bytes; --max-bytes {TRUST}");
        if let Some(packed) = compressed {
            limits.check_ratio(length, packed, shown)?;
        }
        file.write_all(&buffer[..count]).map_err(Error::at("write", to))?;
    }
    file.rewind().map_err(Error::at("read", to))?;
    Ok(file)
}
