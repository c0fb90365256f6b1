//! The state of runtime-spec (runtime.md, "State"), as hooks read it from standard input.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use spec::Str;

/// The state's JSON text, with room for what changes over time. Written without allocation, so that
/// init can do it too.
#[derive(Debug, Clone)]
pub struct StateText {
    head: String,
}

impl StateText {
    /// The constant part.
    pub fn new(id: &str, bundle: &str, annotations: &BTreeMap<Str<'_>, Str<'_>>) -> Self {
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
        Self { head }
    }

    /// The constant part as text.
    pub fn from_head(head: String) -> Self {
        Self { head }
    }

    /// Everything before `status` and `pid`.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// What follows the head, without a pid when it is 0.
    pub fn tail(status: &str, pid: i32) -> impl core::fmt::Display {
        core::fmt::from_fn(move |f| {
            write!(f, ",\"status\":\"{status}\"")?;
            if pid != 0 {
                write!(f, ",\"pid\":{pid}")?;
            }
            f.write_str("}")
        })
    }
}
