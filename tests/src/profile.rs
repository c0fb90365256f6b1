//! The default seccomp profile of the machine's engines.

pub use defaults::seccomp::{PATH, linux as seccomp};
