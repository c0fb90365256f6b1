//! The `dayfly-image` program, which `dayfly image` and `dayfly rootfs` execute.

use dayfly_image::error::printable;
use dayfly_image::options::{Command, Options};
use dayfly_image::rootfs::options::RootfsCommand;
use dayfly_image::{bridge, commands, rootfs};
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
    let result = interrupt::catch(Second::Ends).map_err(|error| error.to_string()).and_then(|()| {
        let done = match command {
            Command::Image(command) => commands::execute(command),
            Command::Rootfs(command) => rootfs::execute(&command),
            Command::Gc(gc) => rootfs::execute(&RootfsCommand::Gc(gc)),
            Command::Bridge(hook) => bridge::execute(&hook),
        };
        done.map_err(|error| error.to_string())
    });
    result.map_or_else(|message| usage::fail(printable(&message)), |()| ExitCode::SUCCESS)
}
