//! The program `dayfly`, for tools that call it.

use std::path::PathBuf;

/// Returns the path of the dayfly to which this tool belongs: that of [`near`], or else the first one in $PATH.
#[must_use]
pub fn dayfly() -> Option<PathBuf> {
    near().or_else(|| in_path("dayfly"))
}

/// Returns the path of the dayfly in the same directory as this program, or where `make install` installs it.
#[must_use]
pub fn near() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    // An installed tool is in libexec/dayfly, with bin beside libexec.
    let installed = own.ancestors().nth(3).map(|prefix| prefix.join("bin/dayfly"));
    [Some(own.with_file_name("dayfly")), installed]
        .into_iter()
        .flatten()
        .find(|path| path.is_file())
}

/// Returns the path of the first file with this name in $PATH.
#[must_use]
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
