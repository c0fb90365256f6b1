//! Build script of the runtime and the shim. Links the binary without libc: `sys::entry!` defines the entry point and
//! the other symbols that a linker expects from libc.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    // Printed by `--version`, and by `-v` of the shim.
    println!("cargo::rerun-if-env-changed=DAYFLY_COMMIT");
    println!("cargo::rustc-env=DAYFLY_BUILD={}", build());
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // `-nostartfiles` is for C compilers only: a linker that is called directly (`rust-lld`) adds no start files.
        let is_compiler = !env::var("RUSTC_LINKER").is_ok_and(|linker| linker.ends_with("lld"));
        let arguments = ["-nostartfiles", "-nostdlib", "-static", "-no-pie"];
        for argument in &arguments[usize::from(!is_compiler)..] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}

/// Returns the build target and the compiler: `x86_64-unknown-linux-gnu, rustc 1.95.0`.
fn build() -> String {
    let said = env::var_os("RUSTC")
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    let compiler: Vec<&str> = said.split_whitespace().take(2).collect();
    let target = env::var("TARGET").unwrap_or_default();
    format!("{target}, {}", compiler.join(" "))
}
