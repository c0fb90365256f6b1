//! The fuzz targets: one module each, with a function of bytes that panics if an invariant is broken. libFuzzer calls
//! them through `fuzz_targets/`; `tests/corpus.rs` calls them with the inputs in `corpus/`, on any compiler.

mod allocation;
pub mod cgroup_values;
pub mod config;
pub mod dbus;
pub mod devices;
pub mod ids;
pub mod kept;
pub mod messages;
pub mod mount_options;
pub mod paths;
pub mod process;
pub mod record;
mod scratch;
pub mod seccomp;
pub mod trace_lines;
pub mod ttrpc;
pub mod unpack;

/// A target: its name, which is also the name of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("config", config::target),
    ("ids", ids::target),
    ("paths", paths::target),
    ("cgroup_values", cgroup_values::target),
    ("mount_options", mount_options::target),
    ("seccomp", seccomp::target),
    ("devices", devices::target),
    ("process", process::target),
    ("record", record::target),
    ("dbus", dbus::target),
    ("trace_lines", trace_lines::target),
    ("unpack", unpack::target),
    ("messages", messages::target),
    ("ttrpc", ttrpc::target),
];

/// Returns the lines of an input, if it is UTF-8.
fn texts(data: &[u8]) -> Option<Vec<&str>> {
    Some(std::str::from_utf8(data).ok()?.split('\n').collect())
}

/// Removes the files that targets leave on disk.
pub fn clean_up() {
    scratch::remove();
}
