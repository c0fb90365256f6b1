//! Ranges of pages, and records of them.

use alloc::vec::Vec;

use proto::messages::criu::{Mapping, Mappings, MemoryMap, PageRange};

use super::super::format;
use super::is_forked_apart;
use super::pending::{Pending, Range};
use super::touched::{PAGE, Touched};

/// The flags of a range in the image.
const IN_PARENT: u32 = 1;
const LAZY: u32 = 2;
const PRESENT: u32 = 4;

fn range(start: u64, end: u64, offset: u64) -> Range {
    Range { start, end, offset }
}

fn pending() -> Pending {
    Pending([range(10, 20, 0), range(20, 30, 100), range(40, 50, 200)].into())
}

#[test]
fn pages_are_found_by_their_address() {
    let pending = pending();
    assert_eq!(pending.at(9), Err(10));
    assert_eq!(pending.at(10), Ok(range(10, 20, 0)));
    assert_eq!(pending.at(19), Ok(range(19, 20, 9)));
    assert_eq!(pending.at(20), Ok(range(20, 30, 100)));
    assert_eq!(pending.at(30), Err(40));
    assert_eq!(pending.at(50), Err(u64::MAX));
    assert_eq!(pending.len(), 30);
}

#[test]
fn removed_pages_are_returned() {
    let mut all = pending();
    assert_eq!(all.remove(15, 45), [range(15, 20, 5), range(20, 30, 100), range(40, 45, 200)]);
    assert_eq!(all, Pending([range(10, 15, 0), range(45, 50, 205)].into()));
    assert_eq!(all.remove(15, 45), []);
    assert_eq!(all.remove(11, 12), [range(11, 12, 1)]);
    assert_eq!(all, Pending([range(10, 11, 0), range(12, 15, 2), range(45, 50, 205)].into()));
    assert_eq!(all.remove(0, 100).len(), 3);
    assert_eq!(all, Pending::default());
}

#[test]
fn pages_move_with_their_memory() {
    let mut all = pending();
    all.relocate(15, 60, 10);
    let moved = [range(10, 15, 0), range(25, 30, 105), range(40, 50, 200), range(60, 65, 5)];
    assert_eq!(all, Pending([&moved[..], &[range(65, 70, 100)]].concat()));
    all.relocate(60, 0, 10);
    assert_eq!(all.at(0), Ok(range(0, 5, 5)));
}

#[test]
fn memory_maps() {
    let image = |entries: &[PageRange]| {
        let head = MemoryMap { pages: 7 }.encode();
        let all = [head].into_iter().chain(entries.iter().map(PageRange::encode));
        let parts = all.flat_map(|one| {
            [u32::try_from(one.len()).unwrap().to_le_bytes().to_vec(), one].concat()
        });
        [0x5456_4319_u32.to_le_bytes(), format::MEMORY_MAP.to_le_bytes()]
            .concat()
            .into_iter()
            .chain(parts)
            .collect::<Vec<u8>>()
    };
    let entry = |address, pages, flags| PageRange { address, pages, flags, fewer_pages: 0 };
    let [stack, heap, hole] = [entry(10, 3, PRESENT), entry(20, 2, 6), entry(30, 1, LAZY)];
    let last = PageRange { fewer_pages: 4, ..entry(40, 0, 6) };
    let saved = image(&[stack.clone(), heap, hole, last]);
    let ranges = [range(20, 22, 3), range(40, 44, 5)].into();
    assert_eq!(Pending::decode(&saved, 1), Some((7, Pending(ranges))));
    assert_eq!(Pending::decode(&saved[1..], 1), None);
    assert_eq!(Pending::decode(&saved, u64::MAX), None);
    assert_eq!(Pending::decode(&image(&[entry(10, 1, IN_PARENT)]), 1), None);
    assert_eq!(Pending::decode(&image(&[stack.clone(), stack]), 1), None);
}

#[test]
fn mappings_that_a_fork_changes() {
    let of = |advice: &[u64]| {
        let list = advice.iter().map(|advice| Mapping { advice: *advice }).collect();
        is_forked_apart(&Mappings { list }.encode())
    };
    assert!(!of(&[]) && !of(&[0, 1 << 14]));
    assert!(of(&[0, 1 << 10]) && of(&[1 << 18, 0]) && is_forked_apart(&[0xff]));
}

#[test]
fn records() {
    let mut touched = Touched::default();
    touched.add(1, [3, 1, 2, 2, 5].map(|page| [page * PAGE, (page + 1) * PAGE]));
    touched.add(7, []);
    assert_eq!(touched.0[&1], [[PAGE, 4 * PAGE], [5 * PAGE, 6 * PAGE]]);
    touched.add(1, [[PAGE, 2 * PAGE], [5 * PAGE, 8 * PAGE]]);
    assert_eq!(touched.0[&1], [[PAGE, 4 * PAGE], [5 * PAGE, 8 * PAGE]]);
    let bytes = touched.encode();
    touched.0.remove(&7);
    assert_eq!(Touched::decode(&bytes), Some(touched.clone()));
    assert_eq!(Touched::decode(&bytes[..bytes.len() - 8]), None);
    assert_eq!(Touched::decode(&bytes[1..]), None);
    assert_eq!(Touched::decode(b""), None);
    touched.add(1, [[1, 2]]);
    assert_eq!(Touched::decode(&touched.encode()), None);
}
