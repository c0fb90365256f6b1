//! The `dayfly` binary: enters without libc and hands over to the library.
#![no_std]
#![no_main]

sys::entry!(dayfly_cli::run);
