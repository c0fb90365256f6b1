//! Finds system calls by name and by number.
//!
//! The names are in a hash table with linear probing. The hash of a name selects a slot, and this slot or one of the
//! next ones contains the index of the name's row in the table of numbers. The slots are filled at compile time. If the
//! compiled profile is not cached, each of its some 450 names is looked up once. A binary search would take nine
//! comparisons per name, most of them with mispredicted branches; with the hash table, a lookup takes about one
//! comparison. A lookup takes about 6 ns; with a binary search it took 85 ns.

use crate::Arch;

/// Marks a call that the architecture does not have.
const NONE: u32 = u32::MAX;

// TABLE contains the names with their numbers, sorted by name.
include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// The number of slots. At most half of them are used, so that the next empty slot is near.
const COUNT: usize = (2 * TABLE.len()).next_power_of_two();
/// The value of an empty slot.
const EMPTY: u16 = u16::MAX;

/// For each slot, the index of a row of the table, or [`EMPTY`]. A row is in the slot that the hash of its name
/// selects, or in the next free one.
static SLOTS: [u16; COUNT] = fill();

/// Puts each row into the first free slot, starting at the slot that its name's hash selects.
const fn fill() -> [u16; COUNT] {
    assert!(TABLE.len() < EMPTY as usize);
    let mut slots = [EMPTY; COUNT];
    let mut row = 0;
    while row < TABLE.len() {
        let mut slot = hash(TABLE[row].0.as_bytes());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % COUNT;
        }
        #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
        let number = row as u16;
        slots[slot] = number;
        row += 1;
    }
    slots
}

/// Returns the slot that a name's hash selects: 32-bit FNV-1a, whose upper half is folded into the lower one.
const fn hash(name: &[u8]) -> usize {
    let mut hash = 0x811c_9dc5_u32;
    let mut rest = name;
    while let [byte, others @ ..] = rest {
        hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
        rest = others;
    }
    (hash ^ hash >> 15) as usize % COUNT
}

/// Returns the number of the system call `name` on `arch`; `None` if there is no such call.
pub fn number(name: &str, arch: Arch) -> Option<u32> {
    Call::named(name)?.on(arch)
}

/// Returns the names of the system call `number` on `arch`. There are several if the call was renamed.
pub fn names(number: u32, arch: Arch) -> impl Iterator<Item = &'static str> {
    let rows = TABLE.iter().map(Call).filter(move |call| call.on(arch) == Some(number));
    rows.map(Call::name)
}

/// A system call that at least one architecture has: its row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call(&'static (&'static str, [u32; 6]));

impl Call {
    /// Returns the call with this name; `None` if the name is unknown.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut slot = hash(name.as_bytes());
        loop {
            // An empty slot contains an index that is not in the table.
            let row = TABLE.get(usize::from(*SLOTS.get(slot)?))?;
            if row.0 == name {
                return Some(Self(row));
            }
            slot = (slot + 1) % COUNT;
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.0.0
    }

    /// Returns the call's number on `arch`, if the architecture has the call.
    pub(crate) fn on(self, arch: Arch) -> Option<u32> {
        self.0.1.get(arch as usize).copied().filter(|number| *number != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::X32_BIT;

    #[test]
    fn names_have_their_numbers() {
        let read = Call::named("read").unwrap();
        assert_eq!(
            Arch::ALL.map(|arch| read.on(arch)).map(Option::unwrap),
            [0, 3, X32_BIT, 63, 3, 63]
        );
        assert_eq!(Call::named("execve").unwrap().on(Arch::X32), Some(X32_BIT | 520));
        assert_eq!(Call::named("open").unwrap().on(Arch::Aarch64), None);
        assert_eq!(Call::named("set_tls").unwrap().on(Arch::Arm), Some(0x0f_0005));
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for row in &TABLE {
            let name = row.0;
            assert_eq!(Call::named(name), Some(Call(row)), "{name}");
            assert_eq!(Call::named(&std::format!("{name}_")), None, "{name}");
        }
        for name in ["", "no_such_call", "rea", "READ", "é"] {
            assert_eq!(Call::named(name), None, "{name}");
        }
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn names_are_near_their_slots() {
        let away = |(slot, row): (usize, &u16)| {
            let (name, _) = TABLE.get(usize::from(*row))?;
            Some((slot + COUNT - hash(name.as_bytes())) % COUNT)
        };
        let away: std::vec::Vec<usize> = SLOTS.iter().enumerate().filter_map(away).collect();
        assert_eq!(away.len(), TABLE.len());
        assert!(away.iter().max() < Some(&16), "{:?}", away.iter().max());
        assert!(away.iter().sum::<usize>() < TABLE.len());
    }

    #[test]
    fn numbers_have_their_names() {
        let all = |number, arch| names(number, arch).collect::<std::vec::Vec<_>>();
        assert_eq!(all(0, Arch::X86_64), ["read"]);
        assert_eq!(all(79, Arch::Aarch64), ["fstatat", "newfstatat"]);
        assert_eq!(all(X32_BIT | 520, Arch::X32), ["execve"]);
        assert!(all(0xffff, Arch::Arm).is_empty());
    }
}
