//! cgroup v2.

pub(crate) mod controllers;
pub(crate) mod limits;
pub mod weight;
