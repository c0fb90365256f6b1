//! The CPUs and memory of this host. [`Topology::read`] takes a root directory, so that other hosts
//! can stand in for this one.

pub use cgroup::List;
pub use cgroup::topology::{Ccx, Cpu, Node, Topology};
