//! The options of `templates`.

use super::{Common, Written, some};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

/// `templates`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
#[command(mut_arg("profile", |profile| profile.default_value("userns")))]
pub struct Templates {
    /// Options of all experiments; only the first runtime takes part.
    #[command(flatten)]
    pub common: Common,
    /// The figures to measure
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "answer,memory,burst,fork"
    )]
    pub figure: Vec<Question>,
    /// Ways to provide containers; the others are compared with the first
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "cold,restored,warm,template"
    )]
    pub ways: Vec<Provision>,
    /// The program criu [default: peers/bin/criu of the build directory, or criu in $PATH]
    #[arg(long, value_name = "PATH")]
    pub criu: Option<PathBuf>,
    /// Number of measured rounds of single answers and forks
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 30)]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// Requests in flight in a burst
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 16)]
    pub width: usize,
    /// Requests of a burst [default: as many as in flight]
    #[arg(long, value_name = "N", value_parser = some)]
    pub count: Option<usize>,
    /// Bursts of each way
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 6)]
    pub bursts: usize,
    /// Memory that a warm-up touches, in MiB, for the figure fork
    #[arg(long, value_name = "MIB,…", value_delimiter = ',', default_value = "0,5,50,200",
        value_parser = clap::value_parser!(u32).range(0..=16_384))]
    pub touched: Vec<u32>,
    /// The output format
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// A figure of `templates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// The time until the function answers
    Answer,
    /// The memory that each way keeps, and the memory of a running container
    Memory,
    /// Answers with several requests in flight
    Burst,
    /// The time of a container with a forked program that ends at once, compared with an executed one
    Fork,
}

/// A way to provide a container whose function answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provision {
    /// A container is started
    Cold,
    /// A container is restored from a checkpoint, by criu
    Restored,
    /// A started container waits for requests, and answers one after the other
    Warm,
    /// A container is started whose program a template forks
    Template,
}

impl Provision {
    /// Returns the way's name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Restored => "restored",
            Self::Warm => "warm",
            Self::Template => "template",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;
    use crate::options::{Command, Options};
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<Templates, clap::Error> {
        let line = ["bench", "templates"].iter().chain(words);
        Options::try_parse_from(line).map(|options| match options.command {
            Command::Templates(templates) => templates,
            other => panic!("not templates: {other:?}"),
        })
    }

    #[test]
    fn templates_have_their_defaults() {
        let options = parse(&[]).expect("no arguments needed");
        assert_eq!(options.common.profile, Profile::Userns);
        assert_eq!((options.figure.len(), options.ways.len()), (4, 4));
        assert_eq!(options.touched, [0, 5, 50, 200]);
        assert!(parse(&["--bundle", "/b"]).is_ok_and(|options| options.common.bundle.is_some()));
        assert!(parse(&["--touched", "x"]).is_err() && parse(&["--width", "0"]).is_err());
    }
}
