//! Device access rules, as `linux.resources.devices` gives them.
//!
//! What a list of rules means: nothing is allowed to begin with; a rule of kind `a` forgets all rules
//! before it and allows or refuses everything, whatever its numbers and access say (as the kernel's v1
//! controller and runc have it); and each kind of access to a device is decided by the last rule that
//! speaks about it. cgroup v2 gets all of that as an eBPF program ([`program`]), cgroup v1 what its
//! files can express.

pub(crate) mod legacy;
pub mod program;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use spec::resources::{DeviceKind, DeviceRule};

use crate::Error;

/// What may be done with a device: the bits of BPF_DEVCG_ACC_* in linux/bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Making a node of it.
    pub const MKNOD: Self = Self(1);
    /// Reading.
    pub const READ: Self = Self(2);
    /// Writing.
    pub const WRITE: Self = Self(4);
    /// Everything.
    pub const ALL: Self = Self(7);

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// What is in either.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one only.
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it is nothing.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in this one.
    pub const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Reads letters such as `rwm`; others, as in `rwa`, count for nothing, as with runc and crun, and `None` is
    /// for letters of which none counts.
    pub fn from_letters(letters: &str) -> Option<Self> {
        let access = letters.chars().fold(Self::NONE, |access, letter| {
            access.union(match letter {
                'r' => Self::READ,
                'w' => Self::WRITE,
                'm' => Self::MKNOD,
                _ => Self::NONE,
            })
        });
        Some(access).filter(|access| !access.is_none())
    }

    /// The letters, as cgroup files and configurations want them.
    pub const fn letters(self) -> &'static str {
        match self.0 & 7 {
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

/// A checked device rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Whether the access is granted or refused.
    pub allow: bool,
    /// The kind of device.
    pub kind: DeviceKind,
    /// Major number, or every one.
    pub major: Option<u32>,
    /// Minor number, or every one.
    pub minor: Option<u32>,
    /// The access in question.
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

    /// Checks one entry of `linux.resources.devices`; `index` is its place in the list.
    ///
    /// # Errors
    /// [`Error::Invalid`] for empty or unknown access and for numbers beyond 32 bits.
    pub fn new(index: usize, rule: &DeviceRule) -> Result<Self, Error> {
        let invalid = |reason: String| Error::Invalid { setting: "devices", reason };
        let number = |name: &str, number: Option<i64>| match number {
            // -1 is the way of configurations to write "every"; runc takes all negative ones so.
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

    /// Checks all of `linux.resources.devices`.
    ///
    /// # Errors
    /// As [`Rule::new`].
    pub fn list(rules: &[DeviceRule]) -> Result<Vec<Self>, Error> {
        rules.iter().enumerate().map(|(index, rule)| Self::new(index, rule)).collect()
    }

    /// Whether this rule speaks about every device that `other` speaks about.
    fn covers(&self, other: &Self) -> bool {
        let within = |ours: Option<u32>, theirs| ours.is_none() || ours == theirs;
        self.kind == other.kind
            && within(self.major, other.major)
            && within(self.minor, other.minor)
    }

    /// Whether there are devices and kinds of access that both rules speak about.
    fn meets(&self, other: &Self) -> bool {
        let same = |a: Option<u32>, b: Option<u32>| a.is_none() || b.is_none() || a == b;
        self.kind == other.kind
            && same(self.major, other.major)
            && same(self.minor, other.minor)
            && !self.access.intersection(other.access).is_none()
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

/// As cgroup v1 files have it: `c 1:3 rwm`, `b *:* m`.
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

/// The rules that every container gets after its own ones, as with runc: the devices of the runtime
/// specification ("Default Devices"), mknod of anything, pseudo terminals, and /dev/net/tun. Those of
/// a path fall away when `linux.devices` puts another device there.
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

/// [`DEFAULT_RULES`] ready to be appended to `linux.resources.devices`, without those whose path
/// `is_replaced` by `linux.devices`.
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
            assert_eq!(Access::from_letters(Access(bits).letters()), Some(Access(bits)));
        }
        assert_eq!(Access::from_letters("mwr"), Some(Access::ALL));
        assert_eq!(Access::from_letters("rwa"), Some(Access(Access::READ.0 | Access::WRITE.0)));
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
