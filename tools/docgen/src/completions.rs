//! Completions for bash, zsh and fish.

use std::fs;
use std::io;
use std::path::Path;

use clap_complete::Shell;
use dayfly_cli::definition::NAME;

use crate::command;

/// Writes one file per shell, under the name that the shell looks for.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command::with_tools(), NAME, directory)?;
    }
    Ok(())
}
