//! What a container leaves on disk: one compact record, written once.
//!
//! A fixed header holds what is only known after the clone (the process); the body, in postcard, is
//! everything later commands need, so that none of them reads config.json again. The body is on disk
//! before the cgroup is made, so that whatever a killed `create` left can be found and removed.

use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::Context;

use crate::identity::Identity;

/// The name of the record in the container's directory.
pub(crate) const FILE: &str = "record";
/// Changes with every change of [`Record`] or [`Header`].
const MAGIC: [u8; 8] = *b"dayfly\x00\x01";
const HEADER: usize = 32;

/// The part of the record that is known before the clone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub id: String,
    pub bundle: String,
    pub rootfs: String,
    /// Nanoseconds since 1970.
    pub created: u64,
    /// The user who created it.
    pub owner: u32,
    pub annotations: Vec<(String, String)>,
    pub cgroup: Option<cgroup::Location>,
    /// The namespaces that differ from the host's, as clone flags.
    pub namespaces: u64,
    /// Those of them that are its own.
    pub own_namespaces: u64,
    /// The process of config.json, as JSON: what `exec` starts from.
    pub process: String,
    /// poststart hooks, as JSON.
    pub poststart: String,
    /// poststop hooks, as JSON.
    pub poststop: String,
    /// Whether a session keyring was made.
    pub keyring: bool,
    /// Whether a seccomp filter lies beside the record.
    pub filter: bool,
    /// The constant part of the state that hooks are told.
    pub state_head: String,
}

/// The part of the record that is known after the clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Init, or `None` before the clone.
    pub process: Option<(Pid, Identity)>,
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let (pid, identity) = match self.process {
            Some((pid, identity)) => (pid.as_raw_nonzero().get(), identity.0),
            None => (0, 0),
        };
        let mut bytes = [0; HEADER];
        let fields = MAGIC.into_iter().chain(pid.to_le_bytes()).chain([0; 4]);
        for (to, from) in bytes.iter_mut().zip(fields.chain(identity.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_at_checked(8)?;
        let (pid, rest) = rest.split_first_chunk::<4>()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (identity, _) = rest.split_first_chunk::<8>()?;
        let pid = Pid::from_raw(i32::from_le_bytes(*pid));
        let identity = Identity(u64::from_le_bytes(*identity));
        (magic == MAGIC).then_some(Self { process: pid.map(|pid| (pid, identity)) })
    }
}

/// Writes the record of a container that has no process yet.
pub(crate) fn write(directory: BorrowedFd<'_>, record: &Record) -> Result<(), sys::Error> {
    let mut bytes = Header { process: None }.bytes().to_vec();
    let body = postcard::to_allocvec(record)
        .map_err(|_| sys::Error::new("encode", "container record", Errno::INVAL))?;
    bytes.extend_from_slice(&body);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, FILE, flags, Mode::from_raw_mode(0o600));
    let file = file.context("create", FILE)?;
    sys::stdio::write_all(&file, &bytes).context("write", FILE)
}

/// Adds the process.
pub(crate) fn write_process(
    directory: BorrowedFd<'_>,
    pid: Pid,
    identity: Identity,
) -> Result<(), sys::Error> {
    let file = openat(directory, FILE, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let file = file.context("open", FILE)?;
    let header = Header { process: Some((pid, identity)) };
    pwrite(file.as_fd(), &header.bytes(), 0).context("write", FILE).map(drop)
}

/// Reads a record; `None` if it is not whole, which a `create` that was killed early leaves.
pub(crate) fn read(directory: BorrowedFd<'_>) -> Result<Option<(Header, Record)>, sys::Error> {
    let bytes = match sys::fs::read_at(directory, FILE) {
        Ok(bytes) => bytes,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(sys::Error::new("read", FILE, errno)),
    };
    let Some((head, body)) = bytes.split_at_checked(HEADER) else { return Ok(None) };
    let record = postcard::from_bytes(body).ok();
    Ok(Header::read(head).zip(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_foreign_ones_are_refused() {
        let header = Header { process: Pid::from_raw(77).map(|pid| (pid, Identity(1 << 40))) };
        assert_eq!(Header::read(&header.bytes()), Some(header));
        let none = Header { process: None };
        assert_eq!(Header::read(&none.bytes()), Some(none));
        let mut other = header.bytes();
        other[7] ^= 1;
        assert_eq!(Header::read(&other), None);
        assert_eq!(Header::read(&other[..20]), None);
    }
}
