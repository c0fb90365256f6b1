//! `--version`, in runc's format.

use alloc::string::String;
use core::fmt::{self, Display, Formatter};

use serde::Serialize;
use sys::defence::TEST_BUILD;

use crate::NAME;
use crate::failure::Failure;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The source revision, if the Makefile or the packager knows it.
pub const COMMIT: Option<&str> = match option_env!("DAYFLY_COMMIT") {
    Some(commit) if !commit.is_empty() => Some(commit),
    _ => None,
};

/// The build target and compiler.
pub const BUILD: &str = env!("DAYFLY_BUILD");

/// The output of `--version`.
pub struct Version;

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{NAME} version {VERSION}")?;
        if let Some(commit) = COMMIT {
            writeln!(f, "commit: {commit}")?;
        }
        if let Some(switches) = TEST_BUILD {
            writeln!(f, "built for tests: {switches}")?;
        }
        writeln!(f, "spec: {}", spec::VERSION)?;
        // Only the first line may contain the word "version": Docker parses the text after the last occurrence of this
        // word.
        writeln!(f, "build: {BUILD}")
    }
}

/// Returns the same as a line of JSON.
///
/// # Errors
/// As [`super::json`].
pub fn json() -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Parts {
        version: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<&'static str>,
        spec: &'static str,
        build: &'static str,
    }
    super::json(&Parts { version: VERSION, commit: COMMIT, spec: spec::VERSION, build: BUILD })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = Version.to_string();
        assert!(text.starts_with(concat!("dayfly version ", env!("CARGO_PKG_VERSION"), "\n")));
        assert!(text.contains("\nspec: 1.3.0\n"));
        assert!(text.contains(concat!("\nbuild: ", env!("DAYFLY_BUILD"), "\n")));
        assert!(BUILD.contains("-linux-") && BUILD.contains(", rustc "), "{BUILD}");
        assert_eq!(text.matches("version").count(), 1, "{text}");
    }
}
