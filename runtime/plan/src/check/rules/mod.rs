//! The table of rules by subject, roughly in the order of a start.

mod birth;
mod filter;
mod handshake;
mod mounts;
mod namespaces;
mod process;
mod slots;
mod start;

use crate::check::Rule;

/// Every rule.
pub static ALL: [&[Rule]; 8] = [
    start::RULES,
    birth::RULES,
    handshake::RULES,
    namespaces::RULES,
    slots::RULES,
    mounts::RULES,
    process::RULES,
    filter::RULES,
];
