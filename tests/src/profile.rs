//! The seccomp profile for containers of images, like the engines' profiles.

pub use defaults::seccomp::own as seccomp;
