//! What commands print, one file a format.

pub mod brief;
pub mod event;
pub mod features;
pub mod list;
pub mod plan;
pub mod prometheus;
pub mod rules;
pub mod state;
pub mod table;
pub mod version;

use alloc::string::String;

use serde::Serialize;

use crate::failure::Failure;

/// `value` as JSON in one line, without a line break at its end.
///
/// # Errors
/// None that the types of this project could cause.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(Failure::new)
}

/// `value` as JSON, a member a line, with two blanks of indent a level.
///
/// # Errors
/// As [`json`].
pub fn indented_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(Failure::new)
}
