//! The formats of commands' output, with one module per format.

pub mod brief;
pub mod event;
pub mod features;
pub mod list;
pub mod plan;
pub mod prometheus;
pub mod rules;
pub mod table;
pub mod template;
pub mod version;

use alloc::string::String;

use serde::Serialize;

use crate::failure::Failure;

/// Returns `value` as one line of JSON.
///
/// # Errors
/// None occur for the types of this project.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string(value)? + "\n")
}

/// Returns `value` as JSON, with one property or list element per line, indented by two blanks per level.
///
/// # Errors
/// As [`json`].
pub fn indented_json(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value)?)
}
