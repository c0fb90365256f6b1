//! The result of a part, kept in the report's directory.

use crate::harness::*;
use rustix::fs::{FlockOperation, flock};

/// The subdirectory of the parts' results.
pub(super) const PLACE: &str = "parts";

/// The subdirectory of results from a virtual machine.
pub(super) const GUEST: &str = "guest";

/// An executed part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The command's arguments after `dayfly`.
    pub command: Vec<String>,
    /// The date and time of the start, in UTC; empty if not recorded.
    #[serde(default)]
    pub date: String,
    /// The duration of the part, in seconds.
    pub seconds: f64,
    /// The reason why the part has no result, if it has none.
    pub failure: Option<String>,
    /// The output of the part's experiment.
    pub result: Value,
}

impl Kept {
    /// Reads the kept result of a part; `None` if there is no result, or it can't be read.
    pub(super) fn read(directory: &Path, part: &str) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(file(directory, part)).ok()?).ok()
    }

    /// Reads a result from a virtual machine; `None` if there is none, or it can't be read.
    pub(super) fn of_guest(directory: &Path, name: &str) -> Option<Self> {
        let file = directory.join(GUEST).join(name).with_extension("json");
        let result: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
        let date = result["record"]["date"].as_str().unwrap_or_default().to_owned();
        Some(Self { date, result, ..Self::default() })
    }

    /// Returns whether the part was finished with this command.
    pub(super) fn is_done(&self, command: &[String]) -> bool {
        self.failure.is_none() && self.command == command
    }

    /// Writes the result atomically.
    pub(super) fn write(&self, directory: &Path, part: &str) -> Result<(), Error> {
        replace(&file(directory, part), &crate::results::value(self)?.to_string())
    }
}

/// Replaces a file atomically: readers see the old file or the new one.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), Error> {
    Ok(host::output::replace(file, text, None)?)
}

fn file(directory: &Path, part: &str) -> PathBuf {
    directory.join(PLACE).join(part).with_extension("json")
}

/// Returns the picture that an experiment has drawn in a subdirectory, if any.
pub(super) fn picture(directory: &Path, place: &str, name: &str) -> Option<String> {
    fs::read_to_string(directory.join(place).join(name).with_extension("svg")).ok()
}

/// Locks the directory against other reports until dropped.
pub(super) fn lock(directory: &Path) -> Result<File, Error> {
    let file = File::open(directory).map_err(Error::at("open", directory))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => {
            let directory = directory.display();
            Err(unfit!(
                "{directory}: another report is being made there: wait until it is finished"
            ))
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
        fs::remove_dir_all(&directory).expect("remove");
    }
}
