//! The constant part of the state passed to hooks.

use alloc::collections::BTreeMap;
use alloc::format;

use init::step::StateText;
use serde::Serialize;
use spec::Str;

use crate::Error;
use crate::keep::text;

/// The state (runtime-spec, runtime.md) without status and pid.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    oci_version: &'static str,
    id: &'a str,
    bundle: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<Str<'a>, Str<'a>>,
}

/// Returns the state of a new container, without status and pid.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn state(
    id: &str,
    bundle: &str,
    annotations: &BTreeMap<Str<'_>, Str<'_>>,
) -> Result<StateText<'static>, Error> {
    let head = Head { oci_version: spec::VERSION, id, bundle, annotations };
    let mut head = serde_json::to_string(&head)
        .map_err(|error| Error::config(format!("state for hooks: {error}")))?;
    // Status and pid follow.
    head.pop();
    Ok(StateText::from_head(text(head)))
}
