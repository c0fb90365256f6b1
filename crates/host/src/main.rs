//! The `dayfly-host` program, which `dayfly cgroup` and `dayfly host` execute.

use clap::Parser;
use dayfly_host::options::Options;

fn main() {
    match Options::parse().command {}
}
