//! The constant part of the state passed to hooks.

use alloc::collections::BTreeMap;
use alloc::format;

use init::step::StateText;
use spec::Str;

use crate::keep::text;

/// Returns the state of a new container, without status and pid.
pub fn state(
    id: &str,
    bundle: &str,
    annotations: &BTreeMap<Str<'_>, Str<'_>>,
) -> StateText<'static> {
    let quote = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let mut head = format!(
        "{{\"ociVersion\":{},\"id\":{},\"bundle\":{}",
        quote(spec::VERSION),
        quote(id),
        quote(bundle),
    );
    if !annotations.is_empty() {
        head.push_str(",\"annotations\":");
        head.push_str(&serde_json::to_string(annotations).unwrap_or_default());
    }
    StateText::from_head(text(head))
}
