//! The `dayfly-bench` program, which `dayfly bench` executes.

use clap::Parser;
use dayfly_bench::options::{Bundle, Command, Options, Start};
use dayfly_bench::stand::Entrant;
use dayfly_bench::{Error, config, interrupt, rootfs, runtime, session, start};
use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = Options::parse().command;
    let result = interrupt::catch().and_then(|()| match command {
        Command::Start(options) => start(&options),
        Command::Bundle(options) => bundle(&options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dayfly-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: &Start) -> Result<(), Error> {
    let entrants = entrants(&options.common.runtimes)?;
    session::run(&options.common, entrants, |stand, entrants| {
        start::experiment(options, stand, entrants)
    })
}

fn bundle(options: &Bundle) -> Result<(), Error> {
    let directory = &options.directory;
    let config = config::podman(options.profile)?;
    fs::create_dir(directory).map_err(Error::at("make", directory))?;
    rootfs::make(&directory.join("rootfs"), options.profile.owner())?;
    let file = directory.join("config.json");
    fs::write(&file, format!("{config:#}\n")).map_err(Error::at("write", &file))
}

fn entrants(arguments: &[String]) -> Result<Vec<Entrant>, Error> {
    Ok(runtime::find(arguments)?.into_iter().map(Entrant::new).collect())
}
