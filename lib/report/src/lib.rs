//! Reporting for ordinary programs: tables, command lines, signals and errors.
//!
//! | part | what |
//! |---|---|
//! | [`table`] | tables as text |
//! | [`count`], [`size`] | numbers with nouns in singular or plural; sizes in the form in which users write them |
//! | [`usage`], [`Format`] | parsing of command lines, and its errors; the form of the output |
//! | [`interrupt`] | signals that end a program at its next step |
//! | [`program`] | the path of dayfly itself |
//! | [`mod@say`], [`error`] | writing to standard output, errors |

pub mod count;
pub mod error;
mod format;
pub mod interrupt;
pub mod program;
pub mod say;
pub mod size;
pub mod table;
pub mod time;
pub mod umask;
pub mod usage;

pub use error::Error;
pub use format::Format;
pub use table::Table;
