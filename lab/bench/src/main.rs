//! The `dayfly-bench` program, which `dayfly bench` executes.

use std::process::ExitCode;

fn main() -> ExitCode {
    dayfly_bench::main()
}
