//! Capabilities by name, capabilities(7).
use alloc::vec::Vec;

use crate::text::Str;

/// A set of capabilities: bit N is capability number N.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Parses names such as `CAP_KILL`. A name that is not in this module's table may be a capability of a newer
    /// kernel. As in runc, such a name is ignored. It is added to `unknown` once, for a warning.
    pub fn parse<'a>(names: &'a [Str<'_>], unknown: &mut Vec<&'a str>) -> Self {
        let mut set = Self::default();
        for name in names {
            match number(name) {
                Some(number) => set.insert(number),
                None if !unknown.contains(&name.as_str()) => unknown.push(name),
                None => {}
            }
        }
        set
    }

    /// Adds a capability by number, 0 to 63.
    pub fn insert(&mut self, number: u32) {
        self.0 |= 1_u64.checked_shl(number).unwrap_or(0);
    }

    /// Returns whether a capability is in the set.
    pub fn contains(self, number: u32) -> bool {
        self.0.checked_shr(number).unwrap_or(0) & 1 == 1
    }

    /// Returns the capabilities in both sets.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Returns the number of a capability by its full name; `CAP_CHOWN` is 0.
pub fn number(name: &str) -> Option<u32> {
    let index = BY_NAME.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    BY_NAME.get(index).map(|(_, number)| *number)
}

/// Returns the name of a capability by its number.
pub fn name(number: u32) -> Option<&'static str> {
    BY_NAME.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// Iterates over the names of all known capabilities, sorted. `dayfly features` reports them.
pub fn known() -> impl Iterator<Item = &'static str> {
    BY_NAME.iter().map(|(name, _)| *name)
}

/// Number of the last capability in the table (Linux 5.9).
pub const LAST: u32 = 40;

const BY_NAME: [(&str, u32); 41] = [
    ("CAP_AUDIT_CONTROL", 30),
    ("CAP_AUDIT_READ", 37),
    ("CAP_AUDIT_WRITE", 29),
    ("CAP_BLOCK_SUSPEND", 36),
    ("CAP_BPF", 39),
    ("CAP_CHECKPOINT_RESTORE", 40),
    ("CAP_CHOWN", 0),
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_FOWNER", 3),
    ("CAP_FSETID", 4),
    ("CAP_IPC_LOCK", 14),
    ("CAP_IPC_OWNER", 15),
    ("CAP_KILL", 5),
    ("CAP_LEASE", 28),
    ("CAP_LINUX_IMMUTABLE", 9),
    ("CAP_MAC_ADMIN", 33),
    ("CAP_MAC_OVERRIDE", 32),
    ("CAP_MKNOD", 27),
    ("CAP_NET_ADMIN", 12),
    ("CAP_NET_BIND_SERVICE", 10),
    ("CAP_NET_BROADCAST", 11),
    ("CAP_NET_RAW", 13),
    ("CAP_PERFMON", 38),
    ("CAP_SETFCAP", 31),
    ("CAP_SETGID", 6),
    ("CAP_SETPCAP", 8),
    ("CAP_SETUID", 7),
    ("CAP_SYSLOG", 34),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_BOOT", 22),
    ("CAP_SYS_CHROOT", 18),
    ("CAP_SYS_MODULE", 16),
    ("CAP_SYS_NICE", 23),
    ("CAP_SYS_PACCT", 20),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_RAWIO", 17),
    ("CAP_SYS_RESOURCE", 24),
    ("CAP_SYS_TIME", 25),
    ("CAP_SYS_TTY_CONFIG", 26),
    ("CAP_WAKE_ALARM", 35),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_whole() {
        assert!(BY_NAME.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut numbers: Vec<u32> = BY_NAME.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..=LAST));
    }

    #[test]
    fn table_agrees_with_the_kernel() {
        let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap();
        assert!(last.trim().parse::<u32>().unwrap() <= LAST, "a newer kernel: extend the table");
    }

    #[test]
    fn names_become_bits() {
        let names = ["CAP_CHOWN", "CAP_KILL", "CAP_NEW", "cap_kill", "CAP_NEW"].map(Str::new);
        let mut unknown = Vec::new();
        let set = CapabilitySet::parse(&names, &mut unknown);
        assert_eq!(set, CapabilitySet(1 | 1 << 5));
        assert_eq!(unknown, ["CAP_NEW", "cap_kill"]);
        assert!(set.contains(5) && !set.contains(6) && !set.contains(64));
    }

    #[test]
    fn numbers_have_names() {
        assert_eq!(name(21), Some("CAP_SYS_ADMIN"));
        assert_eq!(name(LAST + 1), None);
        assert!((0..=LAST).all(|bit| name(bit).and_then(number) == Some(bit)));
    }
}
