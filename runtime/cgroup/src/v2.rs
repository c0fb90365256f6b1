//! cgroup v2: controllers, limits, and conversion from v1 units.

pub(crate) mod controllers;
pub(crate) mod limits;
pub mod weight;
