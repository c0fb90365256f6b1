//! The command line.

use crate::rootfs::options::RootfsCommand;
use clap::{Parser, Subcommand};

/// Keeps images, and assembles root filesystems from their layers.
#[derive(Debug, Parser)]
#[command(name = "dayfly-image", bin_name = "dayfly", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep images, unpacked
    #[command(subcommand)]
    Image(ImageCommand),
    /// Assemble root filesystems from layers
    #[command(subcommand)]
    Rootfs(RootfsCommand),
}

/// Commands of `dayfly image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {}
