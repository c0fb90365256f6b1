//! The messages for a shim that is executed with `-info`: it reads the runtime's options (an Any, or nothing) from
//! stdin, and writes a [`RuntimeInfo`] to stdout.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::messages::any::Any;

message! {
    /// `containerd.types.RuntimeVersion`.
    pub struct RuntimeVersion = "containerd.types.RuntimeVersion" {
        /// The version.
        1 => version: String,
        /// The commit from which the shim was built.
        2 => revision: String,
    }

    /// `containerd.types.RuntimeInfo`.
    pub struct RuntimeInfo = "containerd.types.RuntimeInfo" {
        /// The shim's name: `io.containerd.dayfly.v2`.
        1 => name: String,
        /// The shim's version.
        2 => version: Option<RuntimeVersion>,
        /// The options that were read from stdin.
        3 => options: Option<Any>,
        /// The runtime's features: JSON in the format of features.md
        /// ([`specs::FEATURES`](crate::messages::specs::FEATURES)).
        4 => features: Option<Any>,
        /// The shim's annotations.
        5 => annotations: BTreeMap<String, String>,
    }
}
