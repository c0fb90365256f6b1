//! The record of the pages that the restored processes accessed first: a file beside the images.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use rustix::io::Errno;

use super::super::images::{Directory, RECORD};
use crate::Error;

/// The first bytes of the record.
const MAGIC: [u8; 8] = *b"touched1";
/// The smallest size of a page.
pub(super) const PAGE: u64 = 4096;
/// The longest record that is read.
const LONGEST: usize = 1 << 24;

/// For each process, by its pid in the images: ranges of addresses, from the first to before the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Touched(pub BTreeMap<i32, Vec<[u64; 2]>>);

impl Touched {
    /// Reads the record, if there is one.
    pub fn read(images: &Directory) -> Result<Option<Self>, Error> {
        match images.read(RECORD, LONGEST) {
            Err(Error::System(error)) if error.errno == Errno::NOENT => Ok(None),
            // A damaged record is replaced.
            read => Ok(Self::decode(&read?)),
        }
    }

    /// Adds ranges of addresses to those of a process.
    pub fn add(&mut self, pid: i32, more: impl IntoIterator<Item = [u64; 2]>) {
        let ranges = self.0.entry(pid).or_default();
        ranges.extend(more);
        ranges.sort_unstable();
        ranges.dedup_by(|[start, end], [_, last]| {
            let is_next = *start <= *last;
            if is_next {
                *last = (*last).max(*end);
            }
            is_next
        });
    }

    /// Each range becomes three numbers: the pid, the first address, and the one after the last.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        for (pid, ranges) in &self.0 {
            for [start, end] in ranges {
                let words = [i64::from(*pid).cast_unsigned(), *start, *end];
                bytes.extend(words.map(u64::to_le_bytes).as_flattened());
            }
        }
        bytes
    }

    /// Decodes a record; returns `None` if it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.strip_prefix(&MAGIC)?.as_chunks::<8>() else { return None };
        let mut touched = Self::default();
        for entry in words.chunks(3) {
            let [pid, start, end] = entry else { return None };
            let [pid, start, end] = [pid, start, end].map(|word| u64::from_le_bytes(*word));
            let pid = i32::try_from(pid).ok()?;
            let is_whole = start < end && (start | end) & (PAGE - 1) == 0;
            if !is_whole {
                return None;
            }
            touched.0.entry(pid).or_default().push([start, end]);
        }
        Some(touched)
    }
}
