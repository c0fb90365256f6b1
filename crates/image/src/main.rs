//! The `dayfly-image` program, which `dayfly image` and `dayfly rootfs` execute.

use clap::Parser;
use dayfly_image::options::{Command, Options};
use dayfly_image::rootfs;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Options::parse().command {
        Command::Image(command) => match command {},
        Command::Rootfs(command) => rootfs::execute(&command),
    }
}
