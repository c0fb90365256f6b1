//! What a host lacks for an experiment or a verdict.

use crate::base::*;
use crate::circumstances::Circumstances;
use crate::{accounting, placement};

/// What a host lacks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// It has fewer CPUs.
    CpusBelow(usize),
    /// It has fewer memory nodes.
    NodesBelow(usize),
    /// It has no swap device.
    NoSwap,
    /// All its CPUs are equally close.
    Placements,
    /// Its kernel divides CPU time into user and system time by ticks.
    TimeByTicks,
}

impl Lack {
    /// Returns whether a host lacks this.
    pub fn is_of(&self, host: &Circumstances) -> bool {
        match self {
            Self::CpusBelow(count) => host.cpus < *count,
            Self::NodesBelow(count) => host.nodes < *count,
            Self::NoSwap => {
                !std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
            }
            Self::Placements => !placement::has_several(),
            Self::TimeByTicks => !accounting::is_split(),
        }
    }
}
