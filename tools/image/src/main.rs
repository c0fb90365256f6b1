//! The `dayfly-image` program, which `dayfly image` and `dayfly rootfs` execute.

use dayfly_image::error::printable;
use dayfly_image::options::{Command, Options};
use dayfly_image::rootfs::options::RootfsCommand;
use dayfly_image::{commands, rootfs};
use report::interrupt::{self, Second};
use report::usage;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;

fn main() -> ExitCode {
    report::umask::guard();
    let command = usage::arguments::<Options>().command;
    // The walk of a deep directory tree holds a descriptor for each level, and each unfinished layer holds one as well.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let result = match interrupt::catch(Second::Ends) {
        Err(error) => Err(error.to_string()),
        Ok(()) => match command {
            Command::Image(command) => {
                commands::execute(command).map_err(|error| error.to_string())
            }
            Command::Rootfs(command) => rootfs::execute(&command),
            Command::Gc(gc) => rootfs::execute(&RootfsCommand::Gc(gc)),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => usage::fail(printable(&message)),
    }
}
