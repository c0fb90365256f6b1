//! The seccomp profile for containers of images, like those of engines.

pub use defaults::seccomp::own as seccomp;
