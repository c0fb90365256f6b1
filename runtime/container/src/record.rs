//! What a container leaves on disk: one compact record, written once.
//!
//! A fixed header holds what is only known after the clone (the process); the body, in postcard, is
//! everything later commands need, so that none of them reads config.json again; the seccomp program,
//! for `exec`, comes last. All of it is on disk before the cgroup is made, so that whatever a killed
//! `create` left can be found and removed. A seal tells whether all of it is what was written: with other bits `exec`
//! could give other rights, `delete` take away something else.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::Context;
use sys::fs::Owned;

use crate::Error;
use crate::directory::RECORD;
use crate::identity::Identity;
use crate::layered::record::LayeredRecord;

/// The last byte is the record's form, which changes with every change of [`Record`] or [`Header`]. Of another form
/// nothing is read but the process, which stays where it is in all of them: `delete --force` ends it.
const MAGIC: [u8; 8] = *b"dayfly\x00\x07";
const HEADER: usize = 40;
/// Bytes of the longest record. Arguments, environment and annotations are in it, at most a configuration's.
const LONGEST: usize = 1 << 26;

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
    pub resctrl: Option<resctrl::Group>,
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
    /// A hash of both; on disk, of this header as well.
    content: u64,
    /// The limit of memory and swap together that was asked for last, by the configuration or an update;
    /// 0 if none was.
    pub swap: i64,
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let mut bytes = self.fields();
        let seal = cache::hash(self.content, &bytes).to_le_bytes();
        for (to, from) in bytes.iter_mut().skip(SEAL).zip(seal) {
            *to = from;
        }
        bytes
    }

    /// All but the seal.
    fn fields(self) -> [u8; HEADER] {
        let (pid, identity) = match self.process {
            Some((pid, identity)) => (pid.as_raw_nonzero().get(), identity.0),
            None => (0, 0),
        };
        let mut bytes = [0; HEADER];
        let fields = MAGIC.into_iter().chain(pid.to_le_bytes()).chain(self.body.to_le_bytes());
        let fields = fields.chain(identity.to_le_bytes()).chain([0; 8]);
        for (to, from) in bytes.iter_mut().zip(fields.chain(self.swap.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    /// With the content that is behind it.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (head, content) = bytes.split_at_checked(HEADER)?;
        let (magic, rest) = head.split_at_checked(MAGIC.len())?;
        let process = process_in(bytes);
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_first_chunk::<4>()?;
        let (_, rest) = rest.split_first_chunk::<16>()?;
        let (swap, _) = rest.split_first_chunk::<8>()?;
        let body = u32::from_le_bytes(*body);
        let swap = i64::from_le_bytes(*swap);
        let header = Self { process, body, content: cache::hash(1, content), swap };
        (magic == MAGIC).then_some(header)
    }
}

/// Where the seal is in a header.
const SEAL: usize = 24;

/// The process that the header of any form speaks of.
fn process_in(bytes: &[u8]) -> Option<(Pid, Identity)> {
    let (pid, rest) = bytes.get(8..)?.split_first_chunk::<4>()?;
    let (identity, _) = rest.get(4..)?.split_first_chunk::<8>()?;
    // A negative one would be a group of processes.
    let pid = Some(i32::from_le_bytes(*pid)).filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
    Some((pid, Identity(u64::from_le_bytes(*identity))))
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
    /// Something that was not written so, or not by this version, and the process it speaks of.
    Damaged(Option<(Pid, Identity)>, Damage),
    /// Nothing, or its beginning: the `create` has just begun, or was killed that early.
    Nothing,
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Some bit is another.
    Altered,
    /// It has the form of another version of dayfly.
    Form(u8),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., own] = MAGIC;
        match self {
            Self::Altered => f.write_str("not what was written"),
            Self::Form(form) => {
                write!(
                    f,
                    "written by another version of dayfly, in form {form}; this one has {own}"
                )
            }
        }
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

/// Makes the file of a record, with nothing in it. EEXIST where one is there, ENOENT where the directory has been
/// removed.
pub(crate) fn begin(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(directory, RECORD, flags, Mode::from_raw_mode(0o600))
}

/// Writes the record of a container that has no process yet to its `file`.
pub(crate) fn write(
    file: OwnedFd,
    record: &Record,
    swap: i64,
    filter: Option<&seccomp::Program>,
) -> Result<Draft, sys::Error> {
    let (header, bytes) = draft(record, swap, filter)?;
    sys::stdio::write_all(&file, &bytes).context("write", RECORD)?;
    Ok(Draft { file, header })
}

/// Header and all bytes of a record without a process.
fn draft(
    record: &Record,
    swap: i64,
    filter: Option<&seccomp::Program>,
) -> Result<(Header, Vec<u8>), sys::Error> {
    let mut bytes = postcard::to_extend(record, [0; HEADER].to_vec())
        .map_err(|_| sys::Error::new("encode", "container record", Errno::INVAL))?;
    let body = (bytes.len() - HEADER) as u32;
    if let Some(filter) = filter {
        bytes.extend_from_slice(&filter.to_bytes());
    }
    let content = cache::hash(1, bytes.get(HEADER..).unwrap_or_default());
    let header = Header { process: None, body, content, swap };
    for (to, from) in bytes.iter_mut().zip(header.bytes()) {
        *to = from;
    }
    Ok((header, bytes))
}

/// A record's bytes, for a fuzz target.
#[cfg(feature = "fuzz")]
pub(crate) fn encode(record: &Record, process: Option<(Pid, Identity)>) -> Vec<u8> {
    let Ok((header, mut bytes)) = draft(record, 0, None) else { return Vec::new() };
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

/// Changes the limit of memory and swap in the header of a record.
pub(crate) fn note_swap(
    directory: BorrowedFd<'_>,
    header: Header,
    swap: i64,
) -> Result<(), sys::Error> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, RECORD, flags, Mode::empty()).context("open", RECORD)?;
    pwrite(&file, &(Header { swap, ..header }).bytes(), 0).context("write", RECORD)?;
    Ok(())
}

/// Reads the record of the container `id`.
///
/// # Errors
/// One that is another user's; failing system calls.
pub(crate) fn read(directory: BorrowedFd<'_>, id: &str) -> Result<Found, Error> {
    // Root trusts nobody else, others trust root.
    let euid = rustix::process::geteuid().as_raw();
    match sys::fs::read_owned_at(directory, RECORD, |owner| owner == 0 || owner == euid, LONGEST) {
        Ok(Owned::Read(bytes)) => Ok(parse(&bytes, id)),
        Ok(Owned::Foreign(owner)) => Err(Error::Foreign { id: id.into(), owner }),
        // A FIFO, a device, a link, a directory, a socket: nobody waits for it, nor follows it.
        Ok(Owned::Special) | Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR | Errno::FBIG) => {
            Ok(Found::Damaged(None, Damage::Altered))
        }
        Err(Errno::NOENT) => Ok(Found::Nothing),
        Err(errno) => Err(sys::Error::new("read", RECORD, errno).into()),
    }
}

pub(crate) fn parse(bytes: &[u8], id: &str) -> Found {
    let Some(header) = Header::read(bytes) else {
        return match bytes {
            // The file is there a moment before what is in it.
            [] => Found::Nothing,
            [b'd', b'a', b'y', b'f', b'l', b'y', 0, form, ..] if [*form] != MAGIC[7..] => {
                Found::Damaged(process_in(bytes), Damage::Form(*form))
            }
            _ => Found::Damaged(None, Damage::Altered),
        };
    };
    let sealed = bytes.get(..HEADER) == Some(&header.bytes());
    let whole = |stored: &Stored| sealed && stored.record.id == id;
    match decode(bytes, header).filter(whole) {
        Some(stored) => Found::Whole(stored),
        None if header.process.is_none() && bytes.len() < HEADER + header.body as usize => {
            Found::Nothing
        }
        None => Found::Damaged(header.process, Damage::Altered),
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
        let content = cache::hash(1, &[]);
        let header = Header { process, body: 70_000, content, swap: -1 };
        assert_eq!(Header::read(&header.bytes()), Some(header));
        let none = Header { process: None, body: 0, content, swap: 1 << 40 };
        assert_eq!(Header::read(&none.bytes()), Some(none));
        let mut other = header.bytes();
        other[7] ^= 1;
        assert_eq!(Header::read(&other), None);
        assert_eq!(Header::read(&other[..20]), None);
        assert!(matches!(
            parse(&other, "id"),
            Found::Damaged(found, Damage::Form(6)) if found == process
        ));
    }
}
