//! Step records of a container start: who did what, from when to when, and how it ended.
//!
//! Always compiled in: a step costs two clock readings when a recorder is there and nothing when not.
//! The phases are the categories of seed 004 (Table I), with shutdown beside them.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod record;
mod report;

pub use record::{Actor, Kind, Phase, Record, Recorder, now};
pub use report::{Label, table};
