//! The record of a container on disk, in a compact binary format.
//!
//! A header of fixed size contains the fields that may change after the record is first written: init's pid and
//! identity, which are known only after the clone, and the limit on the sum of memory and swap. The body, encoded in
//! postcard, contains everything else that later commands need, so that they do not read config.json again. The seccomp
//! program, which `exec` installs, comes last. The whole record is on disk before the cgroup is created, so that
//! anything left by a killed `create` can be found and removed. A checksum detects changes: altered bits could make
//! `exec` grant other rights, or `delete` remove something else.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::Context;
use sys::fs::Owned;

use crate::directory::RECORD;
use crate::identity::Identity;
use crate::layered::record::LayeredRecord;
use crate::{Error, cache};

/// The first bytes of a record. The last of them is the version of the format, which changes with every change of
/// [`Record`] or [`Header`]. From a record of another version, only the process is read, which is at the same position
/// in all versions: `delete --force` kills that process.
const MAGIC: [u8; 8] = *b"dayfly\x00\x07";
const HEADER: usize = 40;
/// Maximum size of a record in bytes. A record contains arguments, environment and annotations of the configuration, so
/// it is not much longer than a configuration.
const LONGEST: usize = 1 << 26;

/// The part of the record known before the clone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub id: String,
    pub bundle: String,
    pub rootfs: String,
    /// The time of creation, in nanoseconds since 1970.
    pub created: u64,
    /// The uid of the user who created the container.
    pub owner: u32,
    pub annotations: Vec<(String, String)>,
    pub cgroup: Option<cgroup::Location>,
    pub resctrl: Option<cgroup::resctrl::Group>,
    /// The namespaces of the configuration, created or joined, as clone flags.
    pub namespaces: u64,
    /// The part of `namespaces` that was created for the container rather than joined.
    pub own_namespaces: u64,
    /// The process of config.json, as JSON, on which `exec` is based.
    pub process: String,
    /// Attributes that the plan gives to every process of the container.
    pub execution: plan::Execution,
    /// poststart hooks, as JSON.
    pub poststart: String,
    /// poststop hooks, as JSON.
    pub poststop: String,
    /// Whether a session keyring was created.
    pub keyring: bool,
    /// Whether the container's creator lacks root's rights on the host.
    pub confined: bool,
    /// The constant part of the state passed to hooks.
    pub state_head: String,
    /// The host resources of a root filesystem from layers.
    pub layered: Option<Box<LayeredRecord>>,
    /// Socket and metadata of the seccomp filter's agent, rarely present.
    pub agent: Option<Box<(String, String)>>,
}

/// The fixed-size header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Init's pid and identity; `None` before the clone.
    pub process: Option<(Pid, Identity)>,
    /// The length of the body in bytes; the seccomp program follows the body.
    body: u32,
    /// A hash of the body and the seccomp program. The checksum on disk is a hash of this value and the other fields.
    content: u64,
    /// The limit on the sum of memory and swap last set by the configuration or an update; 0 if none.
    pub swap: i64,
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let mut bytes = self.fields();
        let checksum = cache::hash(self.content, &bytes).to_le_bytes();
        for (to, from) in bytes.iter_mut().skip(CHECKSUM).zip(checksum) {
            *to = from;
        }
        bytes
    }

    /// Encodes all fields except the checksum.
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

    /// Decodes the header of a record; `bytes` is the whole record, whose content is hashed.
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

/// The offset of the checksum in a header.
const CHECKSUM: usize = 24;

/// Returns the process in a header of any format.
fn process_in(bytes: &[u8]) -> Option<(Pid, Identity)> {
    let (pid, rest) = bytes.get(8..)?.split_first_chunk::<4>()?;
    let (identity, _) = rest.get(4..)?.split_first_chunk::<8>()?;
    // kill(2) would interpret a negative pid as a process group.
    let pid = Some(i32::from_le_bytes(*pid)).filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
    Some((pid, Identity(u64::from_le_bytes(*identity))))
}

/// The result of reading a record.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and nearly always a whole one"
)]
pub(crate) enum Found {
    /// A complete record.
    Whole(Stored),
    /// The record is damaged or has another version's format. The process that it names is included if readable.
    Damaged(Option<(Pid, Identity)>, Damage),
    /// The record is missing, empty or incomplete: `create` has just begun, or was killed before it wrote the record.
    Nothing,
}

/// The kind of damage of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Bits have changed.
    Altered,
    /// The record has the format of another version of dayfly.
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
                    "written by another version of dayfly, in form {form}; this version uses {own}"
                )
            }
        }
    }
}

/// A complete record from disk.
#[derive(Debug)]
pub(crate) struct Stored {
    pub header: Header,
    pub record: Record,
    /// The seccomp program's bytes; empty if none.
    pub filter: Vec<u8>,
}

/// A record being written.
#[derive(Debug)]
pub(crate) struct Draft<'f> {
    file: BorrowedFd<'f>,
    header: Header,
}

/// Serializes a part of the configuration for the record.
///
/// # Errors
/// [`Error::Json`]: without this part, later commands would not do what the configuration says.
pub(crate) fn to_json<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String, Error> {
    let failed = |error| Error::Json { what: format!("{what} for the record"), error };
    serde_json::to_string(value).map_err(failed)
}

/// Encodes a value for another process of dayfly.
pub(crate) fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, sys::Error> {
    postcard::to_allocvec(value).map_err(|_| sys::Error::new("encode", "record", Errno::INVAL))
}

/// Creates the empty file of a record. Fails with EEXIST if the file exists, and with ENOENT if the directory has been
/// removed.
pub(crate) fn begin(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(directory, RECORD, flags, Mode::from_raw_mode(0o600))
}

/// Writes a record to `file`, before the container has a process.
pub(crate) fn write<'f>(
    file: &'f OwnedFd,
    record: &Record,
    swap: i64,
    filter: Option<&seccomp::Program>,
) -> Result<Draft<'f>, sys::Error> {
    let (header, bytes) = draft(record, swap, filter)?;
    sys::stdio::write_all(file, &bytes).context("write", RECORD)?;
    Ok(Draft { file: file.as_fd(), header })
}

/// Returns the header and all bytes, including the header, of the record of a container that has no process yet.
fn draft(
    record: &Record,
    swap: i64,
    filter: Option<&seccomp::Program>,
) -> Result<(Header, Vec<u8>), sys::Error> {
    let mut bytes = [0; HEADER].to_vec();
    bytes.append(&mut to_bytes(record)?);
    let body = u32::try_from(bytes.len() - HEADER)
        .map_err(|_| sys::Error::new("encode", "container record", Errno::TOOBIG))?;
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

/// Returns a record's bytes, for a fuzz target.
#[cfg(feature = "fuzz")]
pub(crate) fn encode(record: &Record, process: Option<(Pid, Identity)>) -> Vec<u8> {
    let Ok((header, mut bytes)) = draft(record, 0, None) else { return Vec::new() };
    for (to, from) in bytes.iter_mut().zip((Header { process, ..header }).bytes()) {
        *to = from;
    }
    bytes
}

/// Decodes a record regardless of its checksum, for a fuzz target.
#[cfg(feature = "fuzz")]
pub(crate) fn decode_any(bytes: &[u8]) -> Option<Stored> {
    decode(bytes, Header::read(bytes)?)
}

impl Draft<'_> {
    /// Adds the process to the record; returns the new header.
    pub(crate) fn complete(&mut self, pid: Pid, identity: Identity) -> Result<Header, sys::Error> {
        self.header.process = Some((pid, identity));
        pwrite(self.file, &self.header.bytes(), 0).context("write", RECORD)?;
        Ok(self.header)
    }
}

/// Changes the limit on the sum of memory and swap in a record's header.
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
/// If the record belongs to another user; if a system call fails.
pub(crate) fn read(directory: BorrowedFd<'_>, id: &str) -> Result<Found, Error> {
    // Root accepts only its own records; other users accept their own and root's.
    let euid = rustix::process::geteuid().as_raw();
    match sys::fs::read_owned_at(directory, RECORD, |owner| owner == 0 || owner == euid, LONGEST) {
        Ok(Owned::Read(bytes)) => Ok(parse(&bytes, id)),
        Ok(Owned::Foreign(owner)) => Err(Error::Foreign { id: id.into(), owner }),
        // The record is a FIFO, device, link, directory or socket, or it is too long. Opening it never blocks or
        // follows a link.
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
            // `create` creates the file first and writes its contents later.
            [] => Found::Nothing,
            [b'd', b'a', b'y', b'f', b'l', b'y', 0, form, ..] if [*form] != MAGIC[7..] => {
                Found::Damaged(process_in(bytes), Damage::Form(*form))
            }
            _ => Found::Damaged(None, Damage::Altered),
        };
    };
    let intact = bytes.get(..HEADER) == Some(&header.bytes());
    let whole = |stored: &Stored| intact && stored.record.id == id;
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
