//! The harness of dayfly's integration tests: real containers, made from a
//! local busybox, run by whatever runtime the environment names.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `DAYFLY` | the runtime under test | `target/release/dayfly` of the workspace |
//! | `DAYFLY_UNDEFENDED_BUILD` | a runtime whose defences can be switched off, for `hostile` | none |
//! | `DAYFLY_CRIU` | the criu of checkpoints | that of `scripts/peers`, else of the PATH |
//! | `DAYFLY_VIEW` | `hybrid`, `v1` or `v2`: what /sys/fs/cgroup shows | looked up |
//! | `DAYFLY_TALLY` | file that gets one line `passed failed skipped` | none |
//! | `DAYFLY_JOBS` | cases run at the same time | 2 × CPUs |
//! | `DAYFLY_SEED` | a number that repeats what a case does at random | another one each time |
//! | `DAYFLY_PATIENCE` | seconds until a call or a wait counts as hung | 20 |
//!
//! A case ([`runner::Case`]) gets a [`bed::Bed`]: a directory and a state root
//! of its own. When it returns, the bed deletes what is left and the runner
//! looks for leaks: mounts, cgroups, processes and state records.

pub mod agent;
pub mod bed;
pub mod bundle;
pub mod cgroups;
pub mod console;
pub mod container;
pub mod criu;
pub mod filtered;
pub mod image;
pub mod inside;
pub mod kernel;
pub mod layers;
pub mod leak;
pub mod mounted;
pub mod profile;
pub mod program;
pub mod rootfs;
pub mod runner;
pub mod runtime;
pub mod seed;
pub mod shim;
pub mod steps;
pub mod user;
pub mod victim;
pub mod view;
pub mod wait;
