//! The type URLs for JSON in an Any: parts of the runtime specification, which containerd registers under these URLs
//! (core/runtime/typeurl.go). containerd compares the whole URL, including `types.containerd.io`.

/// The object `process` of config.json; used in Exec.
pub const PROCESS: &str = "types.containerd.io/opencontainers/runtime-spec/1/Process";
/// The object `linux.resources` of config.json; used in Update.
pub const LINUX_RESOURCES: &str =
    "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources";
/// The whole config.json.
pub const SPEC: &str = "types.containerd.io/opencontainers/runtime-spec/1/Spec";
/// The features of a runtime (features.md of the specification); used in
/// [`RuntimeInfo`](crate::messages::info::RuntimeInfo).
pub const FEATURES: &str = "types.containerd.io/opencontainers/runtime-spec/1/features/Features";
