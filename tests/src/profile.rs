//! The seccomp profile that containers of images get: one such as engines have.

pub use defaults::seccomp::own as seccomp;
