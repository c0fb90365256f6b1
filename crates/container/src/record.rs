//! What a container leaves on disk: one compact record, written once.
//!
//! A fixed header holds what is only known after the clone (the process); the body, in postcard, is
//! everything later commands need, so that none of them reads config.json again; the seccomp program,
//! for `exec`, comes last. All of it is on disk before the cgroup is made, so that whatever a killed
//! `create` left can be found and removed. A seal tells whether what `delete` acts on is what was written.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::Context;

use crate::Error;
use crate::directory::RECORD;
use crate::identity::Identity;
use crate::layered::record::LayeredRecord;

/// Changes with every change of [`Record`] or [`Header`].
const MAGIC: [u8; 8] = *b"dayfly\x00\x06";
const HEADER: usize = 40;

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
    /// Whether whoever made it lacks root's rights on the host.
    pub confined: bool,
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
    /// Of the body's part: [`Record::seal`].
    seal: u64,
    /// The limit of memory and swap together that was asked for last, by the configuration or an update;
    /// 0 if none was.
    pub swap: i64,
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let (pid, identity) = match self.process {
            Some((pid, identity)) => (pid.as_raw_nonzero().get(), identity.0),
            None => (0, 0),
        };
        let mut bytes = [0; HEADER];
        let fields = MAGIC.into_iter().chain(pid.to_le_bytes()).chain(self.body.to_le_bytes());
        let fields = fields.chain(identity.to_le_bytes());
        let fields = fields.chain(self.mask(self.seal).to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(fields.chain(self.swap.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    /// A seal that holds for the process as well, or such a seal without it.
    fn mask(&self, seal: u64) -> u64 {
        let (pid, identity) = self.process.map_or((0, 0), |(pid, identity)| {
            (u64::from(pid.as_raw_nonzero().get().unsigned_abs()), identity.0)
        });
        seal ^ identity.rotate_left(32) ^ (pid << 16)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_at_checked(8)?;
        let (pid, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_first_chunk::<4>()?;
        let (identity, rest) = rest.split_first_chunk::<8>()?;
        let (seal, rest) = rest.split_first_chunk::<8>()?;
        let (swap, _) = rest.split_first_chunk::<8>()?;
        // A negative one would be a group of processes.
        let pid = Some(i32::from_le_bytes(*pid)).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let identity = Identity(u64::from_le_bytes(*identity));
        let body = u32::from_le_bytes(*body);
        let process = pid.map(|pid| (pid, identity));
        let mut header = Self { process, body, seal: 0, swap: i64::from_le_bytes(*swap) };
        header.seal = header.mask(u64::from_le_bytes(*seal));
        (magic == MAGIC).then_some(header)
    }
}

impl Record {
    /// A checksum of what `delete` acts on: it must not take away what it was not told to. All of the
    /// record would cost as much as the rest of the command.
    fn seal(&self) -> u64 {
        let places = self.cgroup.iter().flat_map(|location| {
            let legacy = location.legacy.iter().map(|legacy| &legacy.place);
            location.unified.iter().chain(legacy)
        });
        places.fold(cache::hash(1, self.id.as_bytes()), |seal, place| {
            cache::hash(seal, place.directory().as_bytes())
        })
    }
}

/// What there is of a record.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and nearly always a whole one"
)]
pub(crate) enum Found {
    /// All of it.
    Whole(Stored),
    /// Something that was not written so, and the process it speaks of.
    Damaged(Option<(Pid, Identity)>),
    /// Nothing, or its beginning: the `create` has just begun, or was killed that early.
    Nothing,
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
    swap: i64,
    filter: Option<&seccomp::Program>,
) -> Result<Draft, sys::Error> {
    let (header, mut bytes) = draft(record, swap)?;
    if let Some(filter) = filter {
        bytes.extend_from_slice(&filter.to_bytes());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, RECORD, flags, Mode::from_raw_mode(0o600));
    let file = file.context("create", RECORD)?;
    sys::stdio::write_all(&file, &bytes).context("write", RECORD)?;
    Ok(Draft { file, header })
}

/// Header and body of a record without a process.
fn draft(record: &Record, swap: i64) -> Result<(Header, Vec<u8>), sys::Error> {
    let mut bytes = postcard::to_extend(record, [0; HEADER].to_vec())
        .map_err(|_| sys::Error::new("encode", "container record", Errno::INVAL))?;
    let body = (bytes.len() - HEADER) as u32;
    let header = Header { process: None, body, seal: record.seal(), swap };
    for (to, from) in bytes.iter_mut().zip(header.bytes()) {
        *to = from;
    }
    Ok((header, bytes))
}

/// A record's bytes, for a fuzz target.
#[cfg(feature = "fuzz")]
pub(crate) fn encode(record: &Record, process: Option<(Pid, Identity)>) -> Vec<u8> {
    let Ok((header, mut bytes)) = draft(record, 0) else { return Vec::new() };
    for (to, from) in bytes.iter_mut().zip((Header { process, ..header }).bytes()) {
        *to = from;
    }
    bytes
}

/// A record whatever its seal says, for a fuzz target.
#[cfg(feature = "fuzz")]
pub(crate) fn decode_any(bytes: &[u8]) -> Option<Stored> {
    decode(bytes, Header::read(bytes)?)
}

impl Draft {
    /// Adds the process; returns the header as it now is.
    pub(crate) fn complete(&mut self, pid: Pid, identity: Identity) -> Result<Header, sys::Error> {
        self.header.process = Some((pid, identity));
        pwrite(&self.file, &self.header.bytes(), 0).context("write", RECORD)?;
        Ok(self.header)
    }
}

/// Changes the limit of memory and swap in the header of a record: its last field.
pub(crate) fn note_swap(directory: BorrowedFd<'_>, swap: i64) -> Result<(), sys::Error> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(directory, RECORD, flags, Mode::empty()).context("open", RECORD)?;
    let bytes = swap.to_le_bytes();
    pwrite(&file, &bytes, (HEADER - bytes.len()) as u64).context("write", RECORD)?;
    Ok(())
}

/// Reads the record of the container `id`.
///
/// # Errors
/// One that is another user's; failing system calls.
pub(crate) fn read(directory: BorrowedFd<'_>, id: &str) -> Result<Found, Error> {
    let (bytes, owner) = match sys::fs::read_owned_at(directory, RECORD) {
        Ok(read) => read,
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(errno) => return Err(sys::Error::new("read", RECORD, errno).into()),
    };
    // Root trusts nobody else, others trust root.
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Error::Foreign { id: id.into(), owner });
    }
    Ok(parse(&bytes, id))
}

pub(crate) fn parse(bytes: &[u8], id: &str) -> Found {
    let Some(header) = Header::read(bytes) else {
        // The file is there a moment before what is in it.
        return if bytes.is_empty() { Found::Nothing } else { Found::Damaged(None) };
    };
    let whole = |stored: &Stored| stored.record.id == id && stored.record.seal() == header.seal;
    match decode(bytes, header).filter(whole) {
        Some(stored) => Found::Whole(stored),
        None if header.process.is_none() && bytes.len() < HEADER + header.body as usize => {
            Found::Nothing
        }
        None => Found::Damaged(header.process),
    }
}

fn decode(bytes: &[u8], header: Header) -> Option<Stored> {
    let (body, filter) = bytes.get(HEADER..)?.split_at_checked(header.body as usize)?;
    let record = postcard::from_bytes(body).ok()?;
    Some(Stored { header, record, filter: filter.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_foreign_ones_are_refused() {
        let process = Pid::from_raw(77).map(|pid| (pid, Identity(1 << 40)));
        let header = Header { process, body: 70_000, seal: 7, swap: -1 };
        assert_eq!(Header::read(&header.bytes()), Some(header));
        let none = Header { process: None, body: 0, seal: 0, swap: 1 << 40 };
        assert_eq!(Header::read(&none.bytes()), Some(none));
        let mut other = header.bytes();
        other[7] ^= 1;
        assert_eq!(Header::read(&other), None);
        assert_eq!(Header::read(&other[..20]), None);
    }
}
