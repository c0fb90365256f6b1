//! Tables for people.

pub use dayfly_bench::report::Table;
