//! Device access rules: `linux.resources.devices`.
//!
//! A list of rules has these semantics: initially, all access is denied. A rule of type `a` discards all rules before
//! it and allows or denies all access, whatever its device numbers and access letters are (as in the kernel's v1
//! controller and in runc). For other rules, the last rule that matches an access is decisive. On cgroup v2, the
//! complete list is implemented by an eBPF program ([`program`]). On cgroup v1, lists that the kernel's files cannot
//! express are refused.

pub(crate) mod legacy;
pub mod program;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use spec::resources::{DeviceKind, DeviceRule};

use crate::Error;

bitflags::bitflags! {
    /// Kinds of access to a device: the bits of BPF_DEVCG_ACC_* in linux/bpf.h.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Access: u8 {
        /// The permission to create a device node.
        const MKNOD = 1;
        /// The permission to read.
        const READ = 2;
        /// The permission to write.
        const WRITE = 4;
    }
}

impl Access {
    /// Every kind of access.
    pub const ALL: Self = Self::all();

    /// Parses letters such as `rwm`. Ignores other letters, for example the `a` in `rwa`, as runc and crun do. Returns
    /// `None` if there is no valid letter.
    pub fn from_letters(letters: &str) -> Option<Self> {
        let access = letters.chars().fold(Self::empty(), |access, letter| {
            access.union(match letter {
                'r' => Self::READ,
                'w' => Self::WRITE,
                'm' => Self::MKNOD,
                _ => Self::empty(),
            })
        });
        Some(access).filter(|access| !access.is_empty())
    }

    /// Returns the letters as used in cgroup files and configurations.
    pub const fn letters(self) -> &'static str {
        match self.bits() {
            0 => "",
            1 => "m",
            2 => "r",
            3 => "rm",
            4 => "w",
            5 => "wm",
            6 => "rw",
            _ => "rwm",
        }
    }
}

/// A validated device rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Whether the rule allows or denies access.
    pub allow: bool,
    /// The kind of device.
    pub kind: DeviceKind,
    /// The major number; `None` means all.
    pub major: Option<u32>,
    /// The minor number; `None` means all.
    pub minor: Option<u32>,
    /// The kinds of access that the rule allows or denies.
    pub access: Access,
}

impl Rule {
    const fn allow(
        kind: DeviceKind,
        major: Option<u32>,
        minor: Option<u32>,
        access: Access,
    ) -> Self {
        Self { allow: true, kind, major, minor, access }
    }

    /// Validates one entry of `linux.resources.devices`; `index` is the entry's position in the list.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the access is empty or unknown, or a number has more than 32 bits.
    pub fn new(index: usize, rule: &DeviceRule) -> Result<Self, Error> {
        let invalid = |reason: String| Error::Invalid { setting: "devices", reason };
        let number = |name: &str, number: Option<i64>| match number {
            // Configurations use -1 for "all", and runc treats every negative number as "all".
            None | Some(..0) => Ok(None),
            Some(number) => u32::try_from(number)
                .map(Some)
                .map_err(|_| invalid(format!("invalid {name} {number} at {index}"))),
        };
        if rule.access.is_empty() {
            return Err(invalid(format!("device access at {index} field cannot be empty")));
        }
        let access = Access::from_letters(&rule.access).ok_or_else(|| {
            invalid(format!("unknown device access {:?} at {index}: use r, w and m", rule.access))
        })?;
        Ok(Self {
            allow: rule.allow,
            kind: rule.kind,
            major: number("major", rule.major)?,
            minor: number("minor", rule.minor)?,
            access,
        })
    }

    /// Validates all of `linux.resources.devices`.
    ///
    /// # Errors
    /// Those of [`Rule::new`].
    pub fn list(rules: &[DeviceRule]) -> Result<Vec<Self>, Error> {
        rules.iter().enumerate().map(|(index, rule)| Self::new(index, rule)).collect()
    }

    /// Returns whether this rule matches every device that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        let within = |ours: Option<u32>, theirs| ours.is_none() || ours == theirs;
        self.kind == other.kind
            && within(self.major, other.major)
            && within(self.minor, other.minor)
    }

    /// Returns whether there is an access that both rules match.
    fn meets(&self, other: &Self) -> bool {
        let same = |a: Option<u32>, b: Option<u32>| a.is_none() || b.is_none() || a == b;
        self.kind == other.kind
            && same(self.major, other.major)
            && same(self.minor, other.minor)
            && self.access.intersects(other.access)
    }
}

impl From<&Rule> for DeviceRule {
    fn from(rule: &Rule) -> Self {
        Self {
            allow: rule.allow,
            kind: rule.kind,
            major: rule.major.map(i64::from),
            minor: rule.minor.map(i64::from),
            access: rule.access.letters().to_string(),
        }
    }
}

/// Formats the rule as in cgroup v1 files: `c 1:3 rwm`, `b *:* m`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            DeviceKind::All => "a ",
            DeviceKind::Block => "b ",
            DeviceKind::Char => "c ",
        })?;
        match self.major {
            Some(major) => write!(f, "{major}:")?,
            None => f.write_str("*:")?,
        }
        match self.minor {
            Some(minor) => write!(f, "{minor}")?,
            None => f.write_str("*")?,
        }
        write!(f, " {}", self.access.letters())
    }
}

const fn device(minor: u32, major: u32) -> Rule {
    Rule::allow(DeviceKind::Char, Some(major), Some(minor), Access::ALL)
}

/// The rules that are appended to every container's own rules, as with runc. They allow the devices of the runtime
/// specification ("Default Devices"), mknod of any device, pseudo terminals, and /dev/net/tun. A rule with a path is
/// left out if `linux.devices` creates another device at that path.
pub const DEFAULT_RULES: [(Option<&str>, Rule); 11] = [
    (None, Rule::allow(DeviceKind::Char, None, None, Access::MKNOD)),
    (None, Rule::allow(DeviceKind::Block, None, None, Access::MKNOD)),
    (Some("/dev/null"), device(3, 1)),
    (Some("/dev/random"), device(8, 1)),
    (Some("/dev/full"), device(7, 1)),
    (Some("/dev/tty"), device(0, 5)),
    (Some("/dev/zero"), device(5, 1)),
    (Some("/dev/urandom"), device(9, 1)),
    (None, Rule::allow(DeviceKind::Char, Some(136), None, Access::ALL)),
    (None, device(2, 5)),
    (None, device(200, 10)),
];

/// Returns [`DEFAULT_RULES`] in the form of entries of `linux.resources.devices`. Omits a rule if `is_replaced` returns
/// true for its path, because `linux.devices` then creates another device at that path.
pub fn default_rules(is_replaced: impl Fn(&str) -> bool) -> impl Iterator<Item = DeviceRule> {
    DEFAULT_RULES
        .iter()
        .filter(move |(path, _)| !path.is_some_and(&is_replaced))
        .map(|(_, rule)| rule.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: DeviceKind, major: Option<i64>, access: &str) -> DeviceRule {
        DeviceRule { allow: true, kind, major, minor: None, access: access.into() }
    }

    #[test]
    fn access_letters_round_trip() {
        for bits in 1..=7 {
            assert_eq!(
                Access::from_letters(Access::from_bits_retain(bits).letters()),
                Access::from_bits(bits)
            );
        }
        assert_eq!(Access::from_letters("mwr"), Some(Access::ALL));
        assert_eq!(Access::from_letters("rwa"), Some(Access::READ | Access::WRITE));
        assert_eq!(Access::from_letters("a"), None);
    }

    #[test]
    fn rules_are_checked() {
        let rule = Rule::new(0, &entry(DeviceKind::Char, Some(-1), "rw")).unwrap();
        assert_eq!(rule.to_string(), "c *:* rw");
        assert!(Rule::new(0, &entry(DeviceKind::Char, Some(1 << 32), "r")).is_err());
        assert!(Rule::new(0, &entry(DeviceKind::Char, None, "x")).is_err());
        let error = Rule::new(3, &entry(DeviceKind::Char, None, "")).unwrap_err();
        assert!(error.to_string().ends_with("device access at 3 field cannot be empty"));
    }

    #[test]
    fn defaults_leave_out_replaced_devices() {
        assert_eq!(default_rules(|_| false).count(), DEFAULT_RULES.len());
        let rules: Vec<_> = default_rules(|path| path == "/dev/null").collect();
        assert_eq!(rules.len(), DEFAULT_RULES.len() - 1);
        assert!(!rules.iter().any(|rule| (rule.major, rule.minor) == (Some(1), Some(3))));
        assert_eq!(DEFAULT_RULES[2].1.to_string(), "c 1:3 rwm");
    }
}
