//! dayfly's benchmarks: they compare any OCI runtimes on this host, in interleaved rounds.
//!
//! | part | what |
//! |---|---|
//! | `base`, `harness` | what other modules import |
//! | [`session`], [`arguments`] | the harness: the trait `Experiment`, what all of them do and can be told |
//! | [`stand`], [`container`], [`process`] | timing one call of a runtime |
//! | [`race`], `steps`, `concurrent` | interleaved rounds; variants of a container; several containers in flight |
//! | `figures` | statistics, tables, CSV and pictures of figures of several entrants |
//! | [`weight`], [`weigh`] | counting instead of timing |
//! | [`accounting`] | the kernel's accounting of CPU time |
//! | [`config`], [`rootfs`], `engine` | the bundle for all runtimes; root filesystems from layers |
//! | [`start`], [`burst`], [`spaced`], [`mod@faas`], [`bulk`], [`first_use`], [`staircase`], [`unshare`], [`favordynmods`], [`memory`], [`density`], [`mod@restore`], [`templates`], [`mounts`], [`layers`], [`ablation`], [`pools`] | the experiments |
//! | [`shim`] | the cost of the shim between containerd and a container |
//! | [`mod@kubernetes`] | the cost of a RuntimeClass on a node of a cluster |
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

#[macro_use]
mod error;

mod ablation;
mod accounting;
mod arguments;
mod base;
mod bulk;
mod burst;
mod cgroup;
mod circumstances;
mod concurrent;
mod config;
mod container;
mod density;
mod engine;
mod faas;
mod favordynmods;
mod figures;
mod first_use;
mod flame;
mod groups;
mod harness;
mod held;
mod kubernetes;
mod layers;
mod learned;
mod leftover;
mod lookups;
mod memory;
mod mounts;
pub mod options;
mod outcome;
mod place;
mod placement;
mod pools;
mod probe;
mod process;
mod python;
mod race;
mod report;
mod restore;
mod results;
mod rootfs;
mod runtime;
mod session;
mod shim;
mod spaced;
mod staircase;
mod stand;
mod start;
mod steps;
mod templates;
mod trace;
mod unshare;
mod view;
mod weigh;
mod weight;

use ::report::interrupt::{self, Second};
use ::report::usage;
use error::Error;
use options::Options;
use std::process::ExitCode;

/// The program: executes the command of its command line.
pub fn main() -> ExitCode {
    // `dayfly trace` is one of the experiments, but has its own command.
    let name = match std::env::args_os().nth(1) {
        Some(word) if word == "trace" => "dayfly",
        _ => "dayfly bench",
    };
    let command = usage::arguments_as::<Options>(name).command;
    report::end_with_the_report();
    let result = interrupt::catch(Second::Waits).map_err(Error::from);
    match result.and_then(|()| command.execute()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => usage::fail(error),
    }
}
