//! The default seccomp profile of the machine's engines, which the benchmarks use as well.

pub use dayfly_bench::profile::{PATH, seccomp};
