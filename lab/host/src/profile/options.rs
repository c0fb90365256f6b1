//! The options of `dayfly profile`.

use clap::{Args, Parser, Subcommand};
use report::time;
use std::path::PathBuf;
use std::time::Duration;

/// Learns seccomp profiles from the system calls of containers.
#[derive(Debug, Parser)]
#[command(name = "dayfly-profile", bin_name = "dayfly", version)]
pub struct Options {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Learn a seccomp profile from the system calls of a container
    #[command(subcommand)]
    Profile(ProfileCommand),
}

/// Commands of `dayfly profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Run a bundle several times, and write a seccomp profile of the system calls that its processes made
    ///
    /// During these runs, the bundle's own profile is in effect. The new profile never allows more:
    /// rules that deny calls are kept, and rules that allow calls are kept for the calls that were
    /// made, with their arguments. A bundle without a profile gets one that denies all other calls
    /// with EPERM.
    ///
    /// Calls are traced by ptrace(2), which slows the program down; a program that itself traces
    /// others fails. Calls that no run made are denied later: the runs should use all functions of
    /// the program, and --merge adds the profiles of other runs. Then the same runs are repeated
    /// with the new profile, and nothing is written unless they succeed.
    Learn(Learn),
}

/// `learn`.
#[derive(Debug, Args)]
pub struct Learn {
    /// The bundle, whose program must exit by itself with status 0
    #[arg(short, long, value_name = "DIR")]
    pub bundle: PathBuf,
    /// Number of runs to learn from
    #[arg(short = 'n', long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub count: u16,
    /// Write the profile to FILE: the JSON of linux.seccomp [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also allow the calls that FILE, a profile learned before, allows, as far as the bundle's
    /// profile allows them
    #[arg(long, value_name = "FILE")]
    pub merge: Vec<PathBuf>,
    /// Use this runtime, whose own calls under the filter are learned too [default: dayfly]
    #[arg(long, value_name = "PATH")]
    pub runtime: Option<PathBuf>,
    /// Kill a run after this time, and count it as failed
    #[arg(long = "deadline", value_name = "TIME", default_value = "60s", value_parser = deadline)]
    pub deadline: Duration,
    /// Run this program in the container instead of the bundle's program
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

fn deadline(text: &str) -> Result<Duration, String> {
    time::within(time::seconds(text)?, Duration::from_secs(1), Duration::from_secs(86_400))
}
