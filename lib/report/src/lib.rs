//! Reporting for the tools: tables, statistics, progress, command lines and errors.
//!
//! | part | what |
//! |---|---|
//! | [`table`], [`csv`] | tables as text, fields of CSV |
//! | [`statistics`], [`bootstrap`] | summaries of samples, confidence intervals |
//! | [`random`] | reproducible random numbers |
//! | [`progress`] | the progress of a long run |
//! | [`count`], [`size`] | numbers with nouns in singular or plural; sizes in the form in which users write them |
//! | [`usage`], [`Format`] | parsing of command lines, and its errors; the form of the output |
//! | [`interrupt`] | signals that end a program at its next step |
//! | [`program`] | the path of dayfly itself |
//! | [`mod@say`], [`error`] | writing to standard output, errors |

pub mod bootstrap;
pub mod count;
pub mod csv;
pub mod error;
mod format;
pub mod interrupt;
pub mod program;
pub mod progress;
pub mod random;
pub mod say;
pub mod size;
pub mod statistics;
pub mod table;
pub mod time;
pub mod umask;
pub mod usage;

pub use error::Error;
pub use format::Format;
pub use table::Table;
