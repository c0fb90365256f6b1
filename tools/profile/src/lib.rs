//! `dayfly profile`: learns a seccomp profile from runs of a container.
//!
//! | part | what |
//! |---|---|
//! | [`calls`] | which system calls are made under a filter, as ptrace(2) tells |
//! | [`narrow`](mod@narrow) | a profile of no more than these, which allows nothing that the former one did not |
//! | [`learner`] | runs a bundle with a profile, and takes away what is left |
//! | [`saved`] | what the new profile saves |
//! | [`command`] | `dayfly profile learn` |
//! | [`options`] | its command line |

pub mod calls;
pub mod command;
pub mod learner;
pub mod narrow;
pub mod options;
pub mod saved;
