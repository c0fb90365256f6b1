//! The pages of a process that are in an image and not in its memory yet.

use alloc::vec::Vec;

use proto::messages::criu::PageRange;

use super::super::format::{self, messages};

/// The flags of a range: its pages are in an earlier dump, may be loaded late, are in the image.
const IN_PARENT: u32 = 1;
const LAZY: u32 = 2;
const PRESENT: u32 = 4;

/// A range of addresses whose pages are at an offset of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
}

impl Range {
    /// Returns the part of the range from `start` to `end`, if there is one.
    pub fn part(&self, start: u64, end: u64) -> Option<Self> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        let offset = self.offset + from.saturating_sub(self.start);
        (from < to).then_some(Self { start: from, end: to, offset })
    }
}

/// Ranges in the order of their addresses, none of which overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pending(pub Vec<Range>);

impl Pending {
    /// Decodes the image of a process's memory map; returns the number of the image with its pages, and those pages that
    /// criu leaves to the server. Returns `None` if the image is damaged, or needs an earlier dump.
    pub fn decode(image: &[u8], page: u64) -> Option<(u32, Self)> {
        let all = messages(image, format::MEMORY_MAP)?;
        let (head, entries) = all.split_first()?;
        let number = proto::messages::criu::MemoryMap::decode(head).ok()?.pages;
        let mut ranges: Vec<Range> = Vec::with_capacity(entries.len());
        let (mut last, mut offset) = (0, 0_u64);
        for entry in entries {
            let entry = PageRange::decode(entry).ok()?;
            let pages = if entry.pages == 0 { entry.fewer_pages.into() } else { entry.pages };
            let len = pages.checked_mul(page)?;
            let (start, end) = (entry.address, entry.address.checked_add(len)?);
            if entry.flags & IN_PARENT != 0 || start < last {
                return None;
            }
            last = end;
            if entry.flags & (PRESENT | LAZY) == PRESENT | LAZY && len > 0 {
                ranges.push(Range { start, end, offset });
            }
            if entry.flags & PRESENT != 0 {
                offset = offset.checked_add(len)?;
            }
        }
        Some((number, Self(ranges)))
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the first range.
    pub fn first(&self) -> Option<Range> {
        self.0.first().copied()
    }

    /// Returns the range at this address, or else the address at which the next range begins.
    pub fn at(&self, address: u64) -> Result<Range, u64> {
        let index = self.0.partition_point(|range| range.end <= address);
        match self.0.get(index) {
            Some(range) if range.start <= address => {
                range.part(address, range.end).ok_or(range.end)
            }
            range => Err(range.map_or(u64::MAX, |range| range.start)),
        }
    }

    /// Removes all pages from `start` to `end`, and returns them.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<Range> {
        let first = self.0.partition_point(|range| range.end <= start);
        let last = self.0.partition_point(|range| range.start < end).max(first);
        let affected: Vec<Range> = self.0.get(first..last).unwrap_or_default().to_vec();
        let kept =
            affected.iter().flat_map(|range| [range.part(0, start), range.part(end, u64::MAX)]);
        let kept: Vec<Range> = kept.flatten().collect();
        self.0.splice(first..last, kept);
        affected.iter().filter_map(|range| range.part(start, end)).collect()
    }

    /// Moves the pages of `len` bytes from one address to another, at which there are none.
    pub fn relocate(&mut self, from: u64, to: u64, len: u64) {
        let moved = self.remove(from, from.saturating_add(len));
        self.remove(to, to.saturating_add(len));
        for range in moved {
            let start = range.start - from + to;
            let range = Range { start, end: start + (range.end - range.start), ..range };
            let index = self.0.partition_point(|other| other.start < start);
            self.0.insert(index, range);
        }
    }
}
