//! Copies files with holes. Holes are skipped, because a file of a few blocks can be terabytes long.

use super::limits::Shared;
use crate::error::{Error, Result};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Copies `from` to the empty file `to`. `path` is used in errors.
///
/// # Errors
/// Those of reading and writing; an interruption.
pub fn with_holes(mut from: &File, mut to: &File, shared: &Shared, path: &Path) -> Result<()> {
    let failed = || Error::at("copy", path);
    let size = from.metadata().map_err(Error::at("copy", path))?.len();
    let mut buffer = vec![0; 64 << 10];
    let mut end = 0;
    loop {
        let begin = match seek(from, SeekFrom::Data(end)) {
            Ok(begin) => begin,
            // Only a hole remains.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(failed()(errno)),
        };
        end = seek(from, SeekFrom::Hole(begin)).map_err(failed())?;
        for file in [from, to] {
            seek(file, SeekFrom::Start(begin)).map_err(failed())?;
        }
        let mut left = end - begin;
        while left > 0 {
            shared.go_on()?;
            let part = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = from.read(&mut buffer[..part]).map_err(Error::at("copy", path))?;
            if count == 0 {
                break;
            }
            to.write_all(&buffer[..count]).map_err(Error::at("copy", path))?;
            left -= count as u64;
        }
    }
    to.set_len(size).map_err(Error::at("copy", path))
}
