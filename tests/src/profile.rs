//! The seccomp profile for containers of images, like the engines' profiles.

pub use spec::defaults::seccomp::own as seccomp;
