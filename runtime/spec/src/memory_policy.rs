//! Translates the names of modes and flags in `linux.memoryPolicy` to the numbers of set_mempolicy(2).

use crate::invalid::{Invalid, invalid};
use crate::linux::MemoryPolicy;
use crate::number_set::NumberSet;
use crate::scheduling::value;

/// Modes with their numbers; `dayfly features` reports the names.
pub const MODES: [(&str, u32); 7] = [
    ("MPOL_DEFAULT", 0),
    ("MPOL_PREFERRED", 1),
    ("MPOL_BIND", 2),
    ("MPOL_INTERLEAVE", 3),
    ("MPOL_LOCAL", 4),
    ("MPOL_PREFERRED_MANY", 5),
    ("MPOL_WEIGHTED_INTERLEAVE", 6),
];

/// Flags with their bits; `dayfly features` reports the names.
pub const FLAGS: [(&str, u32); 3] = [
    ("MPOL_F_STATIC_NODES", 1 << 15),
    ("MPOL_F_RELATIVE_NODES", 1 << 14),
    ("MPOL_F_NUMA_BALANCING", 1 << 13),
];

/// The mask of the mode's bits in a number that also contains flags.
pub const MODE_BITS: u32 = 0xfff;

impl MemoryPolicy<'_> {
    /// Returns the mode and the flags, combined by OR as set_mempolicy(2) expects.
    ///
    /// # Errors
    /// An unknown mode or flag.
    pub fn number(&self) -> Result<u32, Invalid> {
        let unknown = || invalid!("invalid memory policy mode {:?}", self.mode);
        let mode = value(&MODES, &self.mode).ok_or_else(unknown)?;
        self.flags.iter().try_fold(mode, |number, flag| {
            let unknown = || invalid!("invalid memory policy flag {flag:?}");
            Ok(number | value(&FLAGS, flag).ok_or_else(unknown)?)
        })
    }

    /// Returns the nodes.
    ///
    /// # Errors
    /// The property `nodes` is not a list of nodes.
    pub fn node_set(&self) -> Result<NumberSet, Invalid> {
        let invalid = |error| invalid!("invalid memory policy nodes {:?}: {error}", self.nodes);
        NumberSet::parse(&self.nodes).map_err(invalid)
    }

    /// Validates the policy by runc's rules.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.number()?;
        let nodes = self.node_set()?.count();
        match self.mode.as_str() {
            "MPOL_DEFAULT" | "MPOL_LOCAL" if nodes > 0 => {
                Err(invalid!("memory policy mode requires 0 nodes but got {nodes}"))
            }
            // The kernel treats MPOL_PREFERRED without nodes as MPOL_LOCAL.
            "MPOL_DEFAULT" | "MPOL_LOCAL" | "MPOL_PREFERRED" => Ok(()),
            _ if nodes == 0 => {
                Err(invalid!("memory policy mode requires at least one node but got 0"))
            }
            _ => Ok(()),
        }
    }
}
