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
