//! An open cgroup directory and its files.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{self, Display, Write};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fstat, openat, statat};
use rustix::io::{Errno, read, write};
use sys::Context;

use crate::{Error, parse};

/// An open cgroup directory (O_PATH). Its path is used for messages, mkdir(2) and rmdir(2).
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: String,
}

/// An open file of a cgroup. Each value must be written by one write(2), because the kernel does not accept partial
/// writes.
#[derive(Debug)]
pub(crate) struct File<'a> {
    fd: OwnedFd,
    directory: &'a str,
    name: &'a str,
}

impl Directory {
    /// Opens the directory at an absolute path.
    pub fn open(path: &str) -> Result<Self, sys::Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).context("open", path)?;
        Ok(Self { fd, path: path.to_string() })
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Returns whether the path still leads to this cgroup: it has neither been removed nor replaced by another one.
    pub fn is_at_its_path(&self) -> bool {
        let found = statat(CWD, self.path.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        match (found, fstat(&self.fd)) {
            (Ok(found), Ok(own)) => (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino),
            _ => false,
        }
    }

    /// Opens a file of this cgroup.
    pub fn file<'a>(&'a self, name: &'a str, flags: OFlags) -> Result<File<'a>, sys::Error> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty())
            .context("open", format_args!("{}/{name}", self.path))?;
        Ok(File { fd, directory: &self.path, name })
    }

    /// Returns whether this cgroup has a file with this name.
    pub fn has(&self, name: &str) -> bool {
        accessat(&self.fd, name, Access::EXISTS, AtFlags::empty()).is_ok()
    }

    /// Writes one value to a file.
    pub fn write(&self, name: &str, value: impl Display) -> Result<(), sys::Error> {
        self.file(name, OFlags::WRONLY)?.write(value)
    }

    /// Reads a whole file of any length.
    pub fn read(&self, name: &str) -> Result<String, sys::Error> {
        let file = self.file(name, OFlags::RDONLY)?;
        let bytes = sys::fs::read_all(&file.fd).context("read", &file)?;
        String::from_utf8(bytes).map_err(|_| Errno::ILSEQ).context("read", file)
    }

    /// Reads a file of at most one page with one read(2). Every file with a single value is that short.
    pub fn read_short<'b>(&self, name: &str, page: &'b mut [u8]) -> Result<&'b str, sys::Error> {
        self.file(name, OFlags::RDONLY)?.read_short(page)
    }

    /// Reads a file that contains one number; the text `max` is returned as [`u64::MAX`].
    pub fn read_number(&self, name: &str) -> Result<u64, Error> {
        let mut page = [0; 64];
        let text = self.read_short(name, &mut page)?.trim_end();
        parse::number_or_max(text).ok_or_else(|| self.unreadable(name, text))
    }

    /// Returns the value of `key` in a file with lines of the form `key value`; 0 if the key is missing.
    pub fn read_key(&self, name: &str, key: &str) -> Result<u64, Error> {
        let mut page = [0; 4096];
        Ok(parse::key(self.read_short(name, &mut page)?, key).unwrap_or(0))
    }

    /// Returns the error for a file whose contents do not have the documented format.
    pub fn unreadable(&self, name: &str, content: &str) -> Error {
        Error::Unreadable {
            file: format!("{}/{name}", self.path),
            content: content.chars().take(120).collect(),
        }
    }
}

impl<'a> File<'a> {
    /// Opens a file to read, below a directory that is not open.
    pub fn below(directory: &'a str, name: &'a str) -> Result<Self, sys::Error> {
        let path = format!("{directory}/{name}");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path.as_str(), flags, Mode::empty()).context("open", path)?;
        Ok(Self { fd, directory, name })
    }

    /// Writes one value with one write(2).
    pub fn write(&self, value: impl Display) -> Result<(), sys::Error> {
        let mut line = Line::default();
        let written = match write!(line, "{value}") {
            Ok(()) => write(&self.fd, line.bytes()),
            Err(fmt::Error) => write(&self.fd, value.to_string().as_bytes()),
        };
        written.map(drop).map_err(|errno| {
            let object = format!("{:?} to {}/{}", value.to_string(), self.directory, self.name);
            sys::Error::new("write", object, errno)
        })
    }

    /// Reads at most one page from the start of the file.
    pub fn read_short<'b>(&self, page: &'b mut [u8]) -> Result<&'b str, sys::Error> {
        let count = read(&self.fd, &mut *page).context("read", self)?;
        let bytes = page.get(..count).unwrap_or_default();
        core::str::from_utf8(bytes).map_err(|_| Errno::ILSEQ).context("read", self)
    }

    /// Reads the file again from its start, for example after poll(2) has reported a change.
    pub fn reread<'b>(&self, page: &'b mut [u8]) -> Result<&'b str, sys::Error> {
        let count = rustix::io::pread(&self.fd, &mut *page, 0).context("read", self)?;
        let bytes = page.get(..count).unwrap_or_default();
        core::str::from_utf8(bytes).map_err(|_| Errno::ILSEQ).context("read", self)
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for File<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.directory, self.name)
    }
}

/// A buffer on the stack for the text of one value. Values that do not fit are rare; they are formatted on the heap.
struct Line {
    bytes: [u8; 128],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 128], length: 0 }
    }
}

impl Line {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
