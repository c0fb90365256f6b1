//! Build script of the runtime and the shim. Links the binary without libc: `sys::entry!` defines the entry point and
//! the other symbols that a linker expects from libc. Has the linker put the functions beside each other that commands
//! execute.
//!
//! A process takes a page fault for each window of 64 KiB that it executes first, and the kernel maps and unmaps the 16
//! pages of the window. A run executes 150 KB of instructions, which the linker would scatter over all 32 windows of
//! the program. `runtime/cli/order` and `runtime/shim/order` list the functions that commands execute: first those that
//! most commands share, then by their first execution. The entries are patterns, because the hashes in symbols change
//! with the compiler. Functions that are missing stay in `.text`, which only costs time. The cases
//! `tests/tests/order.rs` fail if less than 90 % of the executed instructions are in `.text.start`; `scripts/order`
//! writes the lists anew.
//!
//! Optimization by profile (PGO) would order functions, too, and move the parts that are not executed. It needs a
//! profile for each version of the compiler in the tree, or a build in two steps by everybody.

use std::env;
use std::fs;
use std::iter;
use std::path::PathBuf;
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
        if let Some(script) = ordered() {
            let prefix = if is_compiler { "-Wl," } else { "" };
            println!("cargo::rustc-link-arg-bins={prefix}-T{}", script.display());
        }
    }
}

/// Writes a linker script that puts the functions of the package's list `order` beside each other, into the section
/// `.text.start`; returns its path. The list contains patterns of symbols (`scripts/order` writes it). A pattern without
/// a function has no effect.
///
/// Returns `None` without a list, and for linkers that read no linker scripts (mold, wild).
fn ordered() -> Option<PathBuf> {
    let flags =
        ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"].map(|name| env::var(name).unwrap_or_default());
    if flags.iter().any(|flags| flags.contains("mold") || flags.contains("wild")) {
        return None;
    }
    let list = fs::read_to_string("order").ok()?;
    println!("cargo::rerun-if-changed=order");
    // The compiler gives functions that it considers cold sections of another name.
    let functions: String = iter::once("_start")
        .chain(list.lines())
        .map(|name| format!("        *(.text.{name} .text.unlikely.{name})\n"))
        .collect();
    let script =
        format!("SECTIONS {{\n    .text.start : {{\n{functions}    }}\n}}\nINSERT BEFORE .text;\n");
    let path = PathBuf::from(env::var_os("OUT_DIR")?).join("order.ld");
    fs::write(&path, script).ok()?;
    Some(path)
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
