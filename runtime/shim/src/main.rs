//! The `containerd-shim-dayfly-v2` binary: starts without libc and calls the library.
#![no_std]
#![no_main]

sys::entry!(dayfly_shim::run);
