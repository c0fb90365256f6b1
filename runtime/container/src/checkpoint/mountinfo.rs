//! Mount tables in the format of mountinfo (proc_pid_mountinfo(5)).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use spec::mount_options::{
    MOUNT_ATTR_NOATIME, MOUNT_ATTR_NODIRATIME, MOUNT_ATTR_NOSYMFOLLOW, MOUNT_ATTR_STRICTATIME,
};
use sys::Context;
use sys::mount::{attr, propagation};

use crate::Error;

#[cfg(test)]
mod tests;

/// The attributes of a mount, as words of mountinfo. `relatime` is the default access time mode, whose bits are zero.
const WORDS: [(&str, u64); 8] = [
    ("ro", attr::RDONLY),
    ("nosuid", attr::NOSUID),
    ("nodev", attr::NODEV),
    ("noexec", attr::NOEXEC),
    ("noatime", MOUNT_ATTR_NOATIME),
    ("nodiratime", MOUNT_ATTR_NODIRATIME),
    ("nosymfollow", MOUNT_ATTR_NOSYMFOLLOW),
    ("relatime", 0),
];
/// All attributes that [`WORDS`] name, with the whole field of the access time mode.
pub(super) const ALL: u64 = attr::RDONLY
    | attr::NOSUID
    | attr::NODEV
    | attr::NOEXEC
    | attr::ATIME
    | MOUNT_ATTR_NODIRATIME
    | MOUNT_ATTR_NOSYMFOLLOW;

/// The mounts with which a mount shares mount events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sharing {
    /// The mount's peer group, or 0.
    pub group: u64,
    /// The peer group whose mount events it receives, or 0.
    pub master: u64,
}

/// The peer group that a mount gets when it becomes shared; the kernel chooses its number.
const NEW: u64 = u64::MAX;

impl Sharing {
    /// Returns whether the mount shares no mount events.
    pub fn is_private(self) -> bool {
        self == Self::default()
    }

    /// Returns the sharing of a copy after a change of propagation.
    pub fn after(self, kind: u64) -> Self {
        match (kind, self.group) {
            (propagation::SHARED, 0) => Self { group: NEW, ..self },
            (propagation::SLAVE, 1..NEW) => Self { group: 0, master: self.group },
            // The mount has no peers that could become its masters.
            (propagation::SLAVE, NEW) => Self { group: 0, ..self },
            (propagation::SHARED | propagation::SLAVE, _) => self,
            _ => Self::default(),
        }
    }

    /// Returns whether a mount has this sharing.
    pub fn is_of(self, found: Self) -> bool {
        let same_group =
            if self.group == NEW { found.group != 0 } else { found.group == self.group };
        same_group && self.master == found.master
    }
}

/// A mount of a mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The mount's id.
    pub id: u64,
    /// The numbers of the device of its file system.
    pub device: String,
    /// The directory or file of the file system that is mounted.
    pub root: String,
    /// The mount point.
    pub point: String,
    /// The attributes as MOUNT_ATTR_* bits.
    pub attr: u64,
    /// Whether the ids of its files are mapped.
    pub is_mapped: bool,
    /// The mounts with which it exchanges mount events.
    pub sharing: Sharing,
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let id = words.next()?.parse().ok()?;
        let (device, root) = (words.nth(1)?.to_string(), unescape(words.next()?));
        let (point, options) = (unescape(words.next()?), words.next()?);
        let mut sharing = Sharing::default();
        for tag in words.take_while(|word| *word != "-") {
            match tag.split_once(':') {
                Some(("shared", group)) => sharing.group = group.parse().ok()?,
                Some(("master", group)) => sharing.master = group.parse().ok()?,
                _ => {}
            }
        }
        let has = |word: &str| options.split(',').any(|option| option == word);
        let attr = WORDS.iter().filter(|(word, _)| has(word)).fold(0, |all, (_, bit)| all | bit);
        // Without a word, the access time is always updated.
        let strict = if has("relatime") || has("noatime") { 0 } else { MOUNT_ATTR_STRICTATIME };
        let (attr, is_mapped) = (attr | strict, has("idmapped"));
        Some(Self { id, device, root, point, attr, is_mapped, sharing })
    }
}

/// Reads a mount table.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn read(file: &str) -> Result<Vec<Line>, Error> {
    let text = sys::fs::read_text(file).context("read", file)?;
    Ok(text.lines().filter_map(Line::parse).collect())
}

/// Decodes mountinfo's three-digit octal escapes of spaces, tabs, newlines and backslashes.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', left @ ..]) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = left;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
