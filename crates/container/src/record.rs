//! What a container leaves on disk: one compact record, written once.
//!
//! A fixed header holds what is only known after the clone (the process); the body, in postcard, is
//! everything later commands need, so that none of them reads config.json again; the seccomp program,
//! for `exec`, comes last. All of it is on disk before the cgroup is made, so that whatever a killed
//! `create` left can be found and removed.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::Context;

use crate::identity::Identity;
use crate::layered::LayeredRecord;

/// The name of the record in the container's directory.
pub(crate) const FILE: &str = "record";
/// Changes with every change of [`Record`] or [`Header`].
const MAGIC: [u8; 8] = *b"dayfly\x00\x04";
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
    pub resctrl: Option<cgroup::resctrl::Group>,
    /// The namespaces that differ from the host's, as clone flags.
    pub namespaces: u64,
    /// Those of them that are its own.
    pub own_namespaces: u64,
    /// The process of config.json, as JSON: what `exec` starts from.
    pub process: String,
    /// What every process has.
    pub execution: plan::Execution,
    /// poststart hooks, as JSON.
    pub poststart: String,
    /// poststop hooks, as JSON.
    pub poststop: String,
    /// Whether a session keyring was made.
    pub keyring: bool,
    /// The constant part of the state that hooks are told.
    pub state_head: String,
    /// What its root filesystem has of the host, if that came in layers.
    pub layered: Option<Box<LayeredRecord>>,
    /// Socket and metadata of the seccomp filter's agent, if it has one; few have.
    pub agent: Option<Box<(String, String)>>,
}

/// The fixed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Init, or `None` before the clone.
    pub process: Option<(Pid, Identity)>,
    /// Bytes of the body; what follows it is the seccomp program.
    body: u32,
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let (pid, identity) = match self.process {
            Some((pid, identity)) => (pid.as_raw_nonzero().get(), identity.0),
            None => (0, 0),
        };
        let mut bytes = [0; HEADER];
        let fields = MAGIC.into_iter().chain(pid.to_le_bytes()).chain(self.body.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(fields.chain(identity.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_at_checked(8)?;
        let (pid, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_first_chunk::<4>()?;
        let (identity, _) = rest.split_first_chunk::<8>()?;
        let pid = Pid::from_raw(i32::from_le_bytes(*pid));
        let identity = Identity(u64::from_le_bytes(*identity));
        let body = u32::from_le_bytes(*body);
        (magic == MAGIC).then_some(Self { process: pid.map(|pid| (pid, identity)), body })
    }
}

/// A record on disk, as a whole.
#[derive(Debug)]
pub(crate) struct Stored {
    pub header: Header,
    pub record: Record,
    /// The seccomp program's bytes; empty without one.
    pub filter: Vec<u8>,
}

/// A record that is being written.
#[derive(Debug)]
pub(crate) struct Draft {
    file: OwnedFd,
    header: Header,
}

/// Writes the record of a container that has no process yet.
pub(crate) fn write(
    directory: BorrowedFd<'_>,
    record: &Record,
    filter: Option<&seccomp::Program>,
) -> Result<Draft, sys::Error> {
    let room = Header { process: None, body: 0 }.bytes().to_vec();
    let mut bytes = postcard::to_extend(record, room)
        .map_err(|_| sys::Error::new("encode", "container record", Errno::INVAL))?;
    let header = Header { process: None, body: (bytes.len() - HEADER) as u32 };
    for (to, from) in bytes.iter_mut().zip(header.bytes()) {
        *to = from;
    }
    if let Some(filter) = filter {
        bytes.extend_from_slice(&filter.to_bytes());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, FILE, flags, Mode::from_raw_mode(0o600));
    let file = file.context("create", FILE)?;
    sys::stdio::write_all(&file, &bytes).context("write", FILE)?;
    Ok(Draft { file, header })
}

impl Draft {
    /// Adds the process; returns the header as it now is.
    pub(crate) fn complete(&mut self, pid: Pid, identity: Identity) -> Result<Header, sys::Error> {
        self.header.process = Some((pid, identity));
        pwrite(&self.file, &self.header.bytes(), 0).context("write", FILE)?;
        Ok(self.header)
    }
}

/// Reads a record; `None` if it is not whole, which a `create` that was killed early leaves.
pub(crate) fn read(directory: BorrowedFd<'_>) -> Result<Option<Stored>, sys::Error> {
    let bytes = match sys::fs::read_at(directory, FILE) {
        Ok(bytes) => bytes,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(sys::Error::new("read", FILE, errno)),
    };
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Option<Stored> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let header = Header::read(head)?;
    let (body, filter) = rest.split_at_checked(header.body as usize)?;
    let record = postcard::from_bytes(body).ok()?;
    Some(Stored { header, record, filter: filter.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_foreign_ones_are_refused() {
        let process = Pid::from_raw(77).map(|pid| (pid, Identity(1 << 40)));
        let header = Header { process, body: 70_000 };
        assert_eq!(Header::read(&header.bytes()), Some(header));
        let none = Header { process: None, body: 0 };
        assert_eq!(Header::read(&none.bytes()), Some(none));
        let mut other = header.bytes();
        other[7] ^= 1;
        assert_eq!(Header::read(&other), None);
        assert_eq!(Header::read(&other[..20]), None);
    }
}
