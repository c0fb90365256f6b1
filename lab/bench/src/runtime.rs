//! The compared runtimes.

use crate::base::*;
use crate::process;
use report::program;
use sha2::{Digest, Sha256};
use std::io;

/// A runtime: its executable, name and version.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Runtime {
    /// The name of the runtime in reports.
    pub name: String,
    /// The absolute path of the executable.
    pub path: PathBuf,
    /// The first line that `--version` prints.
    pub version: String,
    /// The SHA-256 of the executable, in hexadecimal.
    pub sha256: String,
}

impl Runtime {
    /// Returns the version, and the beginning of the hash.
    pub(crate) fn build(&self) -> String {
        format!("{}, sha256 {}…", self.version, self.sha256.get(..12).unwrap_or_default())
    }

    /// Parses `NAME=PATH` or `PATH`; without a name, the runtime is named after the last component
    /// of the path. A path without a slash is searched for in the default directories of runtimes,
    /// and in $PATH.
    ///
    /// # Errors
    /// There is no such executable.
    pub fn from_argument(argument: &str) -> Result<Self, Error> {
        let (name, path) = match argument.split_once('=') {
            Some((name, path)) => (Some(name), path),
            None => (None, argument),
        };
        let path = if path.contains('/') {
            fs::canonicalize(path).map_err(Error::at("find runtime", Path::new(path)))?
        } else {
            known(path).ok_or_else(|| unfit!("no runtime {path} in $PATH"))?
        };
        let last = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.map_or_else(last, str::to_owned);
        Self::at(name, path)
    }

    /// Returns whether the runtime is a dayfly, according to its version.
    pub fn is_dayfly(&self) -> bool {
        self.version.starts_with("dayfly")
    }

    fn at(name: String, path: PathBuf) -> Result<Self, Error> {
        let sha256 = hash(&path).map_err(Error::at("read", &path))?;
        let version = version(&path);
        Ok(Self { name, path, version, sha256 })
    }

    /// Returns the runtime's state directory below `parent`.
    pub fn state_root(&self, parent: &Path) -> PathBuf {
        parent.join(&self.name)
    }
}

/// Returns the runtimes that `arguments` name. The default is this dayfly and, as far as they are found, crun, runc and
/// youki, each in `peers/bin` of the build directory or else in $PATH.
///
/// # Errors
/// A named runtime is missing, or none is found.
pub fn find(arguments: &[String]) -> Result<Vec<Runtime>, Error> {
    let mut runtimes = match arguments {
        [] => installed()?,
        _ => arguments.iter().map(|it| Runtime::from_argument(it)).collect::<Result<_, _>>()?,
    };
    tell_apart(&mut runtimes);
    if runtimes.is_empty() {
        bail!("no runtime found: name some by --runtime PATH");
    }
    Ok(runtimes)
}

fn installed() -> Result<Vec<Runtime>, Error> {
    let names = ["dayfly", "crun", "runc", "youki"].into_iter();
    let found = names.filter_map(|name| Some((name.to_owned(), known(name)?)));
    found.map(|(name, path)| Runtime::at(name, path)).collect()
}

/// Returns the path of a runtime by name. The name `dayfly` means the dayfly of this installation; any other name is
/// searched for in `peers/bin` beside this program's build, and then in $PATH.
pub(crate) fn known(name: &str) -> Option<PathBuf> {
    if name == "dayfly" {
        return program::dayfly();
    }
    let tool = std::env::current_exe().ok()?;
    let peers = tool.ancestors().nth(2).map(|target| target.join("peers/bin").join(name));
    peers.filter(|path| path.is_file()).or_else(|| program::in_path(name))
}

/// Returns the program dayfly, which executes the tools beside this one.
///
/// # Errors
/// There is none.
pub(crate) fn dayfly() -> Result<PathBuf, Error> {
    let missing = || unfit!("no dayfly beside dayfly-bench, nor in $PATH");
    program::dayfly().ok_or_else(missing)
}

/// Makes equal names distinct: appends the version or, if that is not enough, a number.
fn tell_apart(runtimes: &mut [Runtime]) {
    let mut names = HashSet::new();
    for runtime in runtimes {
        if names.contains(&runtime.name) {
            let number = runtime.version.split_whitespace().find(|word| word.contains('.'));
            let base = format!("{}-{}", runtime.name, number.unwrap_or("2"));
            let numbered = (2..).map(|number| format!("{base}-{number}"));
            let mut candidates = std::iter::once(base.clone()).chain(numbered);
            if let Some(name) = candidates.find(|name| !names.contains(name)) {
                runtime.name = name;
            }
        }
        names.insert(runtime.name.clone());
    }
}

/// Returns the SHA-256 of a file, read in pieces to keep this program small.
pub(crate) fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Returns the version that a program prints: its first line, or the line `Version:` of a shim. The call has a deadline,
/// because a program may hang.
pub(crate) fn version(path: &Path) -> String {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    let text = process::read(&mut command, Duration::from_secs(5)).unwrap_or_default();
    let first = text.lines().next().unwrap_or("unknown");
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    let commit = text.lines().find_map(|line| line.trim().strip_prefix("commit: "));
    match (first.strip_suffix(':'), version) {
        (Some(name), Some(version)) => format!("{name} {}", version.trim()),
        _ => commit.map_or_else(
            || first.to_owned(),
            |commit| format!("{first}, commit {}", commit.get(..12).unwrap_or(commit)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(name: &str, version: &str) -> Runtime {
        Runtime { name: name.to_owned(), version: version.to_owned(), ..Runtime::default() }
    }

    #[test]
    fn namesakes_are_told_apart() {
        let mut runtimes = [
            runtime("crun", "crun version 1.28"),
            runtime("crun", "crun version 1.8.1"),
            runtime("crun", "crun version 1.8.1"),
            runtime("runc", ""),
        ];
        tell_apart(&mut runtimes);
        assert_eq!(
            runtimes.each_ref().map(|runtime| runtime.name.as_str()),
            ["crun", "crun-1.8.1", "crun-1.8.1-2", "runc"]
        );
    }

    #[test]
    fn a_name_may_be_given() {
        let runtime = Runtime::from_argument("shell=/bin/sh").expect("sh");
        assert_eq!(runtime.name, "shell");
        assert_eq!(runtime.sha256.len(), 64);
        assert_eq!(Runtime::from_argument("sh").expect("sh in PATH").name, "sh");
        assert!(Runtime::from_argument("/no/such/runtime").is_err());
    }
}
