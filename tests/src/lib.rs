//! The harness of dayfly's integration tests: real containers, made from a local busybox, run by the runtime that the
//! environment names.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `DAYFLY` | the runtime under test | `target/release/dayfly` of the workspace |
//! | `DAYFLY_UNDEFENDED_BUILD` | a runtime whose defences can be switched off, for `hostile` | none |
//! | `DAYFLY_CRIU` | the criu for checkpoints | the one that `scripts/peers` installs, or the one in PATH |
//! | `DAYFLY_VIEW` | `hybrid`, `v1` or `v2`: the layout of /sys/fs/cgroup | detected |
//! | `DAYFLY_TALLY` | file to which a line `passed failed skipped` is appended | none |
//! | `DAYFLY_JOBS` | number of concurrent cases | 2 × CPUs |
//! | `DAYFLY_SEED` | the seed of random choices | a new one each time |
//! | `DAYFLY_EVERY_CALL` | `1`: `shim::calls` kills before every system call, not before one in ten | none |
//! | `DAYFLY_OLD` | a directory with an older runtime and shim, for `upgrade` | none |
//! | `DAYFLY_PATIENCE` | seconds after which a call or a wait counts as hung | 20 |
//!
//! A case ([`runner::Case`]) gets a [`bed::Bed`]: a directory and a state root of its own. When the case returns, the
//! bed deletes what is left and the runner checks for leaks: mounts, cgroups, processes and state records.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a number that is cut fails the test"
)]

#[doc(hidden)]
pub use linkme;

pub mod agent;
pub mod bed;
pub mod bundle;
pub mod cache;
pub mod cgroups;
pub mod console;
pub mod container;
pub mod criu;
pub mod descent;
pub mod differ;
mod ended;
pub mod filtered;
pub mod image;
pub mod inside;
pub mod kernel;
pub mod killed;
pub mod layers;
pub mod leak;
pub mod mounted;
pub mod order;
pub mod profile;
pub mod program;
pub mod rootfs;
pub mod runner;
mod running;
pub mod runtime;
pub mod seed;
pub mod shim;
pub mod steps;
pub mod subject;
pub mod user;
pub mod victim;
pub mod view;
pub mod wait;
