//! The file to which a command writes its trace.
//!
//! While a command waits for its program, it writes a draft: the trace so far. At the end, the trace replaces the draft.
//! To overwrite a file takes less time than to create one, and the command's exit waits for it.

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, SeekFrom, fstat, ftruncate, openat, seek, stat};
use rustix::io::Errno;
use sys::Context;

/// A trace's file that contains a draft.
#[derive(Debug)]
pub(crate) struct Draft {
    file: OwnedFd,
}

impl Draft {
    /// Writes a draft. Returns `None` if that fails, or if the file is not a regular one: a pipe would keep the draft, and
    /// its reader would see the end of the file.
    pub fn write(path: &str, text: &[u8]) -> Option<Self> {
        let is_regular = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        match stat(path) {
            Ok(found) if !is_regular(found.st_mode) => return None,
            _ => {}
        }
        // O_NONBLOCK: in the meantime, the file may have become a FIFO.
        let file = create(path, OFlags::NONBLOCK).ok()?;
        if !is_regular(fstat(&file).ok()?.st_mode) {
            return None;
        }
        sys::stdio::write_all(&file, text).ok()?;
        Some(Self { file })
    }

    /// Returns whether the path leads to this file. It may have been moved or removed.
    fn is_at(&self, path: &str) -> bool {
        let found = stat(path).ok().zip(fstat(&self.file).ok());
        found.is_some_and(|(one, other)| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
    }

    /// Replaces the draft.
    fn replace(&self, text: &[u8]) -> Result<(), Errno> {
        seek(&self.file, SeekFrom::Start(0))?;
        let written = sys::stdio::write_all(&self.file, text);
        // The draft may have been longer, or another command may have written to the same file. If the trace was not
        // written, no mixture with the draft remains.
        let length = if written.is_ok() { text.len() as u64 } else { 0 };
        if fstat(&self.file)?.st_size.unsigned_abs() != length {
            ftruncate(&self.file, length)?;
        }
        written
    }
}

/// Writes a trace to a file, in place of the draft if there is one.
///
/// # Errors
/// If the file cannot be created or written.
pub(crate) fn write(path: &str, text: &[u8], draft: Option<Draft>) -> Result<(), sys::Error> {
    let written = match draft.filter(|draft| draft.is_at(path)) {
        Some(draft) => draft.replace(text),
        None => {
            let file = create(path, OFlags::empty()).context("create trace", path)?;
            sys::stdio::write_all(file, text)
        }
    };
    written.context("write trace", path)
}

fn create(path: &str, further: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | further;
    openat(CWD, path, flags, Mode::from_raw_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read;

    #[test]
    fn a_trace_replaces_its_draft() {
        let path = std::env::temp_dir().join(format!("draft-{}", std::process::id()));
        let path = path.to_str().unwrap();
        for (draft, text) in [("longer than it", "the trace"), ("short", "the trace"), ("", "t")] {
            let draft = Draft::write(path, draft.as_bytes());
            let number = stat(path).unwrap().st_ino;
            // Without this, a new file could get the number of the old one.
            let held = std::fs::File::open(path).unwrap();
            write(path, text.as_bytes(), draft).unwrap();
            assert_eq!(read(path).unwrap(), text.as_bytes());
            assert_eq!(stat(path).unwrap().st_ino, number);
            drop(held);
        }
        let draft = Draft::write(path, b"draft");
        std::fs::remove_file(path).unwrap();
        write(path, b"the trace", draft).unwrap();
        assert_eq!(read(path).unwrap(), b"the trace");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_regular_files_get_a_draft() {
        assert!(Draft::write("/dev/null", b"draft").is_none());
        assert!(Draft::write("/nowhere/file", b"draft").is_none());
        write("/dev/null", b"trace", None).unwrap();
    }
}
