//! JSON in an Any: parts of the runtime specification, by the type URLs under which containerd registers them
//! (core/runtime/typeurl.go). Type URLs are compared as a whole.

/// `process` of config.json: in Exec.
pub const PROCESS: &str = "types.containerd.io/opencontainers/runtime-spec/1/Process";
/// `linux.resources` of config.json: in Update.
pub const LINUX_RESOURCES: &str =
    "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources";
/// config.json itself.
pub const SPEC: &str = "types.containerd.io/opencontainers/runtime-spec/1/Spec";
/// A runtime's features (features.md of the specification): in [`RuntimeInfo`](crate::messages::info::RuntimeInfo).
pub const FEATURES: &str = "types.containerd.io/opencontainers/runtime-spec/1/features/Features";
