//! What the ordinary programs report with.
//!
//! | part | what |
//! |---|---|
//! | [`table`], [`csv`] | results for people, fields for programs |
//! | [`statistics`], [`bootstrap`] | what samples say, and what they don't |
//! | [`random`] | chance that can be repeated |
//! | [`progress`] | how far a long run is |
//! | [`count`], [`size`] | numbers of things; sizes as users write them |
//! | [`usage`] | command lines, read or refused |
//! | [`interrupt`] | signals that end a program at its next step |
//! | [`mod@say`], [`error`] | standard output, and what went wrong |

pub mod bootstrap;
pub mod count;
pub mod csv;
pub mod error;
pub mod interrupt;
pub mod progress;
pub mod random;
pub mod say;
pub mod size;
pub mod statistics;
pub mod table;
pub mod time;
pub mod usage;

pub use error::Error;
pub use table::Table;
