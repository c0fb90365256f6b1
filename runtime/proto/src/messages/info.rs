//! The output of a shim executed with `-info`: a [`RuntimeInfo`] on stdout, after it has read the runtime's options (an
//! Any, or nothing) from stdin.

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
        /// The options from its stdin.
        3 => options: Option<Any>,
        /// The runtime's features: JSON of features.md ([`specs::FEATURES`](crate::messages::specs::FEATURES)).
        4 => features: Option<Any>,
        /// The shim's annotations.
        5 => annotations: BTreeMap<String, String>,
    }

    /// `containerd.types.RuntimeRequest`: a client's request to containerd's introspection service, which executes the
    /// shim.
    pub struct RuntimeRequest = "containerd.types.RuntimeRequest" {
        /// The shim's path.
        1 => runtime_path: String,
        /// The shim's stdin.
        2 => options: Option<Any>,
    }
}
