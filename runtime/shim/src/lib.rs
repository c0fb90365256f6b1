//! containerd's shim for dayfly: one single-threaded process per pod, which also launches the containers.
//!
//! containerd executes the program in three ways (`start`, `delete`, `-info`); `start` leaves a daemon behind, which
//! serves tasks over ttrpc until containerd shuts it down.
//!
//! | part | what |
//! |---|---|
//! | `bootstrap` | the ways in which containerd executes the program |
//! | `serve`, `poller` | the loop, and the descriptors that it waits for |
//! | `task`, `starts` | a file for each call of the task service; starts that need no worker |
//! | `table` | containers, processes and calls that wait |
//! | `worker`, `children`, `sweep` | workers, their ends, and what killed ones leave |
//! | `io` | standard streams |
//! | `event` | events for containerd |
//! | `stats`, `oom` | cgroups |
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod bootstrap;
mod caller;
mod children;
pub mod event;
pub mod flags;
pub mod io;
mod limits;
pub mod log;
pub mod oom;
pub mod poller;
mod serve;
mod shim;
mod starts;
pub mod stats;
mod sweep;
mod table;
mod task;
mod worker;

/// The runtime's name in containerd.
pub const NAME: &str = "io.containerd.dayfly.v2";

/// Runs the program; returns its exit status.
pub fn run(args: sys::Args) -> i32 {
    // criu executes this program as `tar`.
    container::untar(args).unwrap_or_else(|| bootstrap::run(args, serve::serve))
}
