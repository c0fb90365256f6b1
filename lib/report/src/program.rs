//! The program `dayfly`, for tools that call it.

use std::path::PathBuf;

/// Returns the path of the dayfly to which this tool belongs: the one in the same directory as this
/// program, the one where `make install` installs it, or else the first one in $PATH.
#[must_use]
pub fn dayfly() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let beside = own.with_file_name("dayfly");
    // An installed tool is in libexec/dayfly, with bin beside libexec.
    let installed = own.ancestors().nth(3).map(|prefix| prefix.join("bin/dayfly"));
    [Some(beside), installed, in_path("dayfly")].into_iter().flatten().find(|path| path.is_file())
}

/// Returns the path of the first file with this name in $PATH.
#[must_use]
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
