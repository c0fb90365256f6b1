//! The directories of images and of criu's work: the caller's own, and nobody else may write there. Images hold what the
//! container's processes had in memory, and say who they are when they are made again.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, mkdir, openat, unlinkat};
use rustix::io::Errno;
use sys::Context;
use sys::fs::Owned;

use crate::Error;
use crate::path::absolute;

/// What criu writes last.
const INVENTORY: &str = "inventory.img";
/// What it begins with.
const MAGIC: [u8; 4] = 0x5831_3116_u32.to_le_bytes();
/// What standard streams led to, as runc has it.
const DESCRIPTORS: &str = "descriptors.json";

/// A directory for criu.
#[derive(Debug)]
pub(super) struct Directory {
    pub fd: OwnedFd,
    pub path: String,
}

impl Directory {
    /// Opens it; made, with those above it, if it is not there: mode 0700.
    pub fn make(path: &str) -> Result<Self, Error> {
        let path = absolute(path)?;
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        for end in ends.chain([path.len()]) {
            let part = path.get(..end).unwrap_or_default();
            match mkdir(part, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                // Somebody else's part of the way there, read-only: what is missing says so itself.
                Err(Errno::ROFS | Errno::ACCESS) if end < path.len() => {}
                Err(errno) => return Err(sys::Error::new("mkdir", part, errno).into()),
            }
        }
        Self::open(&path)
    }

    /// Opens one that is there.
    pub fn open(path: &str) -> Result<Self, Error> {
        let path = absolute(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path.as_str(), flags, Mode::empty()).context("open", &path)?;
        let stat = fstat(&fd).context("fstat", &path)?;
        let euid = rustix::process::geteuid().as_raw();
        if stat.st_uid != euid {
            return Err(Error::Text(format!(
                "{path} belongs to user {}: images must be the caller's own",
                stat.st_uid
            )));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(Error::Text(format!(
                "{path} can be written to by others (mode {:04o}): images must be the caller's alone; \
                 take a directory with mode 0700",
                stat.st_mode & 0o7777
            )));
        }
        Ok(Self { fd, path })
    }

    /// Its number, for criu.
    pub fn number(&self) -> Option<i32> {
        Some(self.fd.as_raw_fd())
    }

    /// The same directory, opened anew: by the mount namespace that this process is in now.
    pub fn reopened(&self) -> Result<Self, Error> {
        Self::open(&self.path)
    }

    fn read(&self, name: &'static str, longest: usize) -> Result<Vec<u8>, Error> {
        let euid = rustix::process::geteuid().as_raw();
        let object = || format!("{}/{name}", self.path);
        match sys::fs::read_owned_at(self.fd.as_fd(), name, |owner| owner == euid, longest) {
            Ok(Owned::Read(bytes)) => Ok(bytes),
            Ok(Owned::Foreign(owner)) => Err(Error::Text(format!(
                "{} belongs to user {owner}: images must be the caller's own",
                object()
            ))),
            Ok(Owned::Special) | Err(Errno::LOOP | Errno::NXIO) => {
                Err(Error::Text(format!("{} is no ordinary file", object())))
            }
            Err(errno) => Err(sys::Error::new("open", object(), errno).into()),
        }
    }

    /// Refuses a directory without a whole checkpoint: criu writes the inventory when all else is there.
    pub fn check_whole(&self) -> Result<(), Error> {
        match self.read(INVENTORY, 1 << 20) {
            Ok(bytes) if bytes.starts_with(&MAGIC) => Ok(()),
            Ok(_) => Err(Error::Text(format!(
                "{}/{INVENTORY} is damaged: no inventory of criu's",
                self.path
            ))),
            Err(Error::System(error)) if error.errno == Errno::NOENT => Err(Error::Text(format!(
                "{} has no checkpoint: {INVENTORY} is missing, which criu writes last",
                self.path
            ))),
            Err(error) => Err(error),
        }
    }

    /// Takes the inventory of an earlier checkpoint away: until there is a new one, the directory has none.
    pub fn forget_inventory(&self) -> Result<(), Error> {
        match unlinkat(&self.fd, INVENTORY, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(sys::Error::new("unlink", INVENTORY, errno).into()),
        }
    }

    /// Notes what standard streams lead to.
    pub fn write_descriptors(&self, streams: &[String; 3]) -> Result<(), Error> {
        let text = serde_json::to_string(streams).unwrap_or_default();
        match unlinkat(&self.fd, DESCRIPTORS, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(sys::Error::new("unlink", DESCRIPTORS, errno).into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.fd, DESCRIPTORS, flags, Mode::from_raw_mode(0o600))
            .context("create", DESCRIPTORS)?;
        Ok(sys::stdio::write_all(file, text.as_bytes()).context("write", DESCRIPTORS)?)
    }

    /// What standard streams led to.
    pub fn descriptors(&self) -> Result<Vec<String>, Error> {
        let text = self.read(DESCRIPTORS, 1 << 16)?;
        let streams: Vec<String> = serde_json::from_slice(&text).map_err(|error| {
            Error::Text(format!("{}/{DESCRIPTORS} is damaged: {error}", self.path))
        })?;
        Ok(streams)
    }
}
