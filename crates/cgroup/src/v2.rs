//! cgroup v2.

pub(crate) mod controllers;
pub(crate) mod limits;
pub(crate) mod weight;
