//! The `dayfly-host` program, which `dayfly host` and `dayfly cgroup` execute.

use dayfly_host::options::Options;
use report::usage;
use std::process::ExitCode;

fn main() -> ExitCode {
    dayfly_host::execute(usage::arguments::<Options>().command).unwrap_or_else(usage::fail)
}
