//! What has come of a part, kept in the report's directory.

use crate::Error;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Where parts are kept, in the directory.
pub(super) const PLACE: &str = "parts";

/// A part that was executed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The words after `dayfly`.
    pub command: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Why it has no result, if it has none.
    pub failure: Option<String>,
    /// What it wrote.
    pub result: Value,
}

impl Kept {
    /// What is kept of a part; nothing where there is nothing, or nothing that can be read.
    pub(super) fn read(directory: &Path, part: &str) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(file(directory, part)).ok()?).ok()
    }

    /// Whether the part needs not be executed again by this command.
    pub(super) fn is_done(&self, command: &[String]) -> bool {
        self.failure.is_none() && self.command == command
    }

    /// Keeps it: as a whole, or what was there before.
    pub(super) fn write(&self, directory: &Path, part: &str) -> Result<(), Error> {
        let text =
            serde_json::to_string(self).map_err(|error| Error::Unfit(format!("JSON: {error}")))?;
        replace(&file(directory, part), &text)
    }
}

/// Writes a file anew: whoever reads it meanwhile has the old one or the new one.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), Error> {
    let new = file.with_extension("new");
    fs::write(&new, text).map_err(Error::at("write", &new))?;
    fs::rename(&new, file).map_err(Error::at("write", file))
}

fn file(directory: &Path, part: &str) -> PathBuf {
    directory.join(PLACE).join(part).with_extension("json")
}

/// The picture that a part has drawn, if it has.
pub(super) fn picture(directory: &Path, part: &str) -> Option<String> {
    fs::read_to_string(directory.join(PLACE).join(part).with_extension("svg")).ok()
}

/// Keeps others from working in the directory until dropped.
pub(super) fn lock(directory: &Path) -> Result<File, Error> {
    let file = File::open(directory).map_err(Error::at("open", directory))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => {
            let directory = directory.display();
            Err(Error::Unfit(format!(
                "{directory}: another report is being made there: wait for it"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_is_what_succeeded_by_the_same_command() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let done = Kept { command: words("bench spaced --count 5"), ..Kept::default() };
        assert!(done.is_done(&words("bench spaced --count 5")));
        assert!(!done.is_done(&words("bench spaced --count 50")));
        let failed = Kept { failure: Some("no runtime got through".to_owned()), ..done };
        assert!(!failed.is_done(&words("bench spaced --count 5")));
    }

    #[test]
    fn a_directory_has_one_report() {
        let directory = std::env::temp_dir().join(format!("bench-kept-{}", std::process::id()));
        fs::create_dir_all(directory.join(PLACE)).expect("mkdir");
        let first = lock(&directory).expect("free");
        assert!(lock(&directory).expect_err("taken").to_string().contains("another report"));
        drop(first);
        lock(&directory).expect("free again");
        assert!(Kept::read(&directory, "x").is_none());
        let kept = Kept { seconds: 1.5, ..Kept::default() };
        kept.write(&directory, "x").expect("written");
        assert_eq!(Kept::read(&directory, "x").map(|kept| kept.seconds), Some(1.5));
        fs::write(file(&directory, "x"), "{").expect("write");
        assert!(Kept::read(&directory, "x").is_none());
        fs::remove_dir_all(&directory).expect("remove");
    }
}
