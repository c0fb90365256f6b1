//! The differential oracle: a configuration is drawn from a seed, run by dayfly and by its peers, and what its program
//! sees must be the same.

pub mod bed;
pub mod compare;
pub mod draw;
pub mod execute;
pub mod mountinfo;
pub mod observe;
pub mod random;
pub mod reasons;
pub mod shrink;
mod streams;
pub mod view;

/// Adds bytes to a sum that tells contents apart (FNV-1a).
#[must_use]
pub fn sum(start: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(start, add)
}
