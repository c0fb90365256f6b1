//! Links the binary without libc: `sys::entry!` brings the entry point and what else is needed.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Shown by `-v` when packagers set it.
    println!("cargo::rerun-if-env-changed=DAYFLY_COMMIT");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The first is a C compiler's alone: a linker by itself (`rust-lld`) brings no start files.
        let is_compiler = !env::var("RUSTC_LINKER").is_ok_and(|linker| linker.ends_with("lld"));
        let arguments = ["-nostartfiles", "-nostdlib", "-static", "-no-pie"];
        for argument in &arguments[usize::from(!is_compiler)..] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
