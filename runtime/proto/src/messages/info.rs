//! What a shim writes to its stdout when it is executed with `-info`: a [`RuntimeInfo`], after it has read the
//! runtime's options (an Any, or nothing) from its stdin.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::messages::any::Any;

message! {
    /// `containerd.types.RuntimeVersion`.
    pub struct RuntimeVersion = "containerd.types.RuntimeVersion" {
        /// The version.
        1 => version: String,
        /// The commit.
        2 => revision: String,
    }

    /// `containerd.types.RuntimeInfo`.
    pub struct RuntimeInfo = "containerd.types.RuntimeInfo" {
        /// The shim's name: `io.containerd.dayfly.v2`.
        1 => name: String,
        /// The shim's version.
        2 => version: Option<RuntimeVersion>,
        /// The options that it was asked with.
        3 => options: Option<Any>,
        /// What the runtime can do: JSON of features.md ([`specs::FEATURES`](crate::messages::specs::FEATURES)).
        4 => features: Option<Any>,
        /// The shim's annotations.
        5 => annotations: BTreeMap<String, String>,
    }

    /// `containerd.types.RuntimeRequest`: what a client asks of containerd's introspection, which executes the
    /// shim.
    pub struct RuntimeRequest = "containerd.types.RuntimeRequest" {
        /// The shim.
        1 => runtime_path: String,
        /// What becomes the shim's stdin.
        2 => options: Option<Any>,
    }
}
