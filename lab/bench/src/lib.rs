//! dayfly's benchmarks: they compare any OCI runtimes on this host, in interleaved rounds.
//!
//! | part | what |
//! |---|---|
//! | [`session`], [`arguments`] | the harness: the trait `Experiment`, what all of them do and can be told |
//! | [`stand`], [`container`], [`process`] | timing one call of a runtime |
//! | [`race`], `steps`, `concurrent` | interleaved rounds; variants of a container; several containers in flight |
//! | `figures` | statistics, tables, CSV and pictures of figures of several entrants |
//! | [`weight`], [`weigh`] | counting instead of timing |
//! | [`accounting`] | the kernel's accounting of CPU time |
//! | [`config`], [`rootfs`], `engine` | the bundle for all runtimes; root filesystems from layers |
//! | [`start`], [`burst`], [`spaced`], [`mod@faas`], [`bulk`], [`first_use`], [`staircase`], [`unshare`], [`favordynmods`], [`memory`], [`mod@restore`], [`templates`], [`mounts`], [`layers`], [`ablation`], [`pools`] | the experiments |
//! | [`shim`] | the cost of the shim between containerd and a container |
//! | [`mod@kubernetes`] | the cost of a RuntimeClass on a node of a cluster |
//! | [`mod@scale`] | a simulation of larger nodes and clusters, from results of the other experiments |
//! | [`groups`] | what control groups do for applications that share a host |
//! | [`trace`], [`mod@flame`] | where the time of a start goes, according to dayfly's own trace, to system calls observed from outside, and to samples of a burst |
//! | [`mod@report`] | all experiments on one page, beside published figures |
//! | [`circumstances`], [`results`] | the circumstances, and the output formats |
//!
//! Every experiment runs its *entrants* (runtimes, each with its options) in turns (A B C, B C A, …), so that
//! disturbances of the machine affect all alike. It compares medians, with an interval from a bootstrap over rounds. A
//! *stand* is what an experiment makes on the host: directories and cgroups.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures are rounded"
)]

pub mod ablation;
pub mod accounting;
pub mod arguments;
pub mod bulk;
pub mod burst;
pub mod cgroup;
pub mod circumstances;
mod concurrent;
pub mod config;
pub mod container;
mod engine;
pub mod error;
pub mod faas;
pub mod favordynmods;
mod figures;
pub mod first_use;
pub mod flame;
pub mod groups;
mod held;
pub mod kubernetes;
pub mod layers;
pub mod learned;
pub mod leftover;
pub mod lookups;
pub mod memory;
pub mod mounts;
pub mod options;
pub mod outcome;
pub mod place;
pub mod pools;
pub mod probe;
pub mod process;
mod python;
pub mod race;
pub mod report;
pub mod restore;
pub mod results;
pub mod rootfs;
pub mod runtime;
pub mod scale;
pub mod session;
pub mod shim;
pub mod spaced;
pub mod staircase;
pub mod stand;
pub mod start;
mod steps;
pub mod templates;
pub mod trace;
pub mod unshare;
pub mod view;
pub mod weigh;
pub mod weight;

pub use error::Error;
