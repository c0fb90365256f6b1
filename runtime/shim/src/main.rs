//! The `containerd-shim-dayfly-v2` binary: enters without libc and hands over to the library.
#![no_std]
#![no_main]

sys::entry!(dayfly_shim::run);
