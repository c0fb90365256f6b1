//! The types of namespaces and of device nodes, as enumerations.
use core::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use crate::text::Str;

/// A type of namespace, namespaces(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamespaceKind {
    /// Process ids.
    Pid,
    /// Network stack.
    Network,
    /// Mount table.
    Mount,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Host and domain name.
    Uts,
    /// User and group ids.
    User,
    /// cgroup root.
    Cgroup,
    /// Boot and monotonic clocks.
    Time,
}

impl NamespaceKind {
    /// All eight types.
    pub const ALL: [Self; 8] = [
        Self::Pid,
        Self::Network,
        Self::Mount,
        Self::Ipc,
        Self::Uts,
        Self::User,
        Self::Cgroup,
        Self::Time,
    ];

    /// Returns the name of the type in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Network => "network",
            Self::Mount => "mount",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::User => "user",
            Self::Cgroup => "cgroup",
            Self::Time => "time",
        }
    }

    /// Returns the name under `/proc/PID/ns`.
    pub const fn proc_name(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Mount => "mnt",
            _ => self.name(),
        }
    }

    /// Returns the flag for clone(2), unshare(2) and setns(2).
    pub const fn clone_flag(self) -> u64 {
        match self {
            Self::Time => 0x0000_0080,
            Self::Mount => 0x0002_0000,
            Self::Cgroup => 0x0200_0000,
            Self::Uts => 0x0400_0000,
            Self::Ipc => 0x0800_0000,
            Self::User => 0x1000_0000,
            Self::Pid => 0x2000_0000,
            Self::Network => 0x4000_0000,
        }
    }

    /// Returns the type with this name in the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }
}

impl fmt::Display for NamespaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for NamespaceKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for NamespaceKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Str::deserialize(deserializer)?;
        Self::parse(&word)
            .ok_or_else(|| D::Error::custom(format_args!("namespace {word:?} does not exist")))
    }
}

/// A type of device node, mknod(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// Character device: `c`, or `u` for an unbuffered one.
    Char,
    /// Block device: `b`.
    Block,
    /// Named pipe: `p`.
    Fifo,
}

impl DeviceKind {
    /// Returns the letter for the type in the configuration.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Char => "c",
            Self::Block => "b",
            Self::Fifo => "p",
        }
    }

    /// Returns the file type bits for mknod(2).
    pub const fn file_type(self) -> u32 {
        match self {
            Self::Char => 0o020_000,
            Self::Block => 0o060_000,
            Self::Fifo => 0o010_000,
        }
    }

    /// Returns the type with this letter in the configuration.
    pub fn parse(letter: &str) -> Option<Self> {
        match letter {
            "c" | "u" => Some(Self::Char),
            "b" => Some(Self::Block),
            "p" => Some(Self::Fifo),
            _ => None,
        }
    }
}

impl Serialize for DeviceKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.letter())
    }
}

impl<'de> Deserialize<'de> for DeviceKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let letter = Str::deserialize(deserializer)?;
        Self::parse(&letter)
            .ok_or_else(|| D::Error::custom(format_args!("invalid device type {letter:?}")))
    }
}
