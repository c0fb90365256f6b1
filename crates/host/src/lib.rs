//! Looks after the cgroups of this host and what it does to container starts.

pub mod options;
