//! What the end had to wait for.

use alloc::vec::Vec;

use crate::Timeline;

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Whose.
    pub row: usize,
    /// Which of its spans; none between two.
    pub span: Option<usize>,
    /// From when.
    pub start: u64,
    /// To when.
    pub end: u64,
}

/// The critical path, in order of time.
pub fn critical_path(timeline: &Timeline) -> Vec<Stretch> {
    let _ = timeline;
    Vec::new()
}
