//! The `dayfly` binary: starts without libc and calls the library.
#![no_std]
#![no_main]

sys::entry!(dayfly_cli::run);
