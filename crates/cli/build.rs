//! Links the binary without libc: `sys::entry!` brings the entry point and what else is needed.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Shown by `dayfly --version` when packagers set it.
    println!("cargo::rerun-if-env-changed=DAYFLY_COMMIT");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
