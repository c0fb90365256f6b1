//! `dayfly profile`: learns a seccomp profile from runs of a container.
//!
//! | part | what |
//! |---|---|
//! | [`calls`] | records by ptrace(2) the system calls made under a filter |
//! | [`mod@follow`] | follows a command and all its descendants by ptrace(2) |
//! | [`narrow`](mod@narrow) | narrows a profile to these calls: the result allows nothing that the original denies |
//! | [`learner`] | runs a bundle with a profile, and cleans up |
//! | [`saved`] | the savings of the new profile |
//! | [`command`] | `dayfly profile learn` |
//! | [`options`] | the command line |
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures are rounded"
)]

pub mod calls;
pub mod command;
pub mod follow;
pub mod learner;
pub mod narrow;
pub mod options;
pub mod saved;
