//! The messages, one file per subject. The names and numbers of fields are as in the .proto files of
//! github.com/containerd/containerd/api v1.12.0 and github.com/containerd/cgroups/v3 v3.1.3, but for the counters of
//! cgroup v1, which have the kernel's names.

pub mod any;
pub mod bootstrap;
pub mod criu;
pub mod criu_stats;
pub mod events;
pub mod info;
pub mod metrics_v1;
pub mod metrics_v2;
pub mod mount;
pub mod options;
pub mod process;
pub mod specs;
pub mod task;
pub mod time;
