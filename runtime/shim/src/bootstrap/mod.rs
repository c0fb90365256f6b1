//! The command-line interface that containerd uses: `start`, `delete`, `-info`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Display, Write};

use sys::stdio::{Stderr, stdin, stdout, write_all};
use sys::{Context, Errno};

use crate::NAME;
use crate::flags::Flags;

pub mod address;
mod ask;
pub mod bundle;
mod delete;
pub mod group;
pub mod info;
pub mod options;
pub mod params;
pub mod settings;
pub mod socket;
mod start;
pub mod toml;

pub use delete::KILLED;
pub use start::Daemon;
use start::Started;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The source revision, if the Makefile or the packager knows it.
pub const REVISION: Option<&str> = option_env!("DAYFLY_COMMIT");
/// The build target and compiler.
const BUILD: &str = env!("DAYFLY_BUILD");

/// The program's name for messages, if the command line contains none.
const PROGRAM: &str = "containerd-shim-dayfly-v2";
/// The maximum size of standard input in bytes, as in containerd's own shims.
const MOST_INPUT: usize = 10 << 20;

/// The text that standard error gets.
pub type Failure = Box<dyn core::error::Error>;

/// Runs the program with its arguments, and returns its exit status. `serve` runs the shim, and returns the shim's exit
/// status.
///
/// If `start` succeeds, it writes nothing but the answer to standard output and standard error, because containerd
/// reads both as one text.
pub fn run(args: sys::Args, serve: impl FnOnce(Daemon) -> i32) -> i32 {
    sys::stdio::ensure_open();
    let texts: Option<Vec<&str>> = args.iter().map(|text| text.to_str().ok()).collect();
    let Some(texts) = texts else { return fail("arguments are not UTF-8") };
    let (program, texts) = texts.split_first().map_or((PROGRAM, &[][..]), |(name, rest)| {
        (name.rsplit('/').next().unwrap_or(PROGRAM), rest)
    });
    let flags = match Flags::parse(texts.iter().copied()) {
        Ok(flags) => flags,
        Err(refusal) => {
            let _ = Stderr.write_str(&refusal.text(program));
            return refusal.status();
        }
    };
    if flags.version {
        let revision = REVISION.unwrap_or_default();
        let text = format!(
            "{program}:\n  Version:  {VERSION}\n  Revision: {revision}\n  Build:    {BUILD}\n\n"
        );
        return finish(print(text.as_bytes()));
    }
    if flags.info {
        return finish(describe());
    }
    if let Err(failure) = check(&flags) {
        return fail(failure);
    }
    match flags.action {
        "start" => start(args, &flags, serve),
        "delete" => finish(delete(args, &flags)),
        action => fail(format_args!("action {action:?}: must be start or delete")),
    }
}

/// Runs `start`. In the process that becomes the daemon, calls `serve`.
pub fn start(args: sys::Args, flags: &Flags<'_>, serve: impl FnOnce(Daemon) -> i32) -> i32 {
    match start::start(args, flags) {
        Ok(Started::Answered) => 0,
        Ok(Started::Daemon(daemon)) => serve(*daemon),
        Err(failure) => fail(failure),
    }
}

fn delete(args: sys::Args, flags: &Flags<'_>) -> Result<(), Failure> {
    let warn = |text: &str| {
        let _ = writeln!(Stderr, "{NAME}: warning: {text}");
    };
    Ok(print(&delete::delete(args, flags, &warn)?.encode())?)
}

fn describe() -> Result<(), Failure> {
    Ok(print(&info::info(&input()?)?.encode())?)
}

/// Checks the container's id and the namespace, which become parts of paths.
fn check(flags: &Flags<'_>) -> Result<(), Failure> {
    if flags.namespace.is_empty() {
        return Err("shim namespace cannot be empty".into());
    }
    let wrong = |what: &str, text: &str, error| format!("{what} {text:?}: {error}");
    spec::validate_id(flags.namespace)
        .map_err(|error| wrong("namespace", flags.namespace, error))?;
    Ok(spec::validate_id(flags.id).map_err(|error| wrong("id", flags.id, error))?)
}

/// Reads all of standard input. If it is a terminal, returns an empty input.
fn input() -> Result<Vec<u8>, Failure> {
    if rustix::termios::isatty(stdin()) {
        return Ok(Vec::new());
    }
    let bytes = sys::fs::read_all(stdin()).context("read", "standard input")?;
    match bytes.len() > MOST_INPUT {
        true => Err(sys::Error::new("read", "standard input", Errno::FBIG).into()),
        false => Ok(bytes),
    }
}

fn working_directory() -> Result<String, Failure> {
    let path = rustix::process::getcwd(Vec::new()).context("getcwd", "")?;
    match path.into_string() {
        Ok(path) if path.starts_with('/') => Ok(path),
        _ => Err("the working directory cannot be reached or is not UTF-8".into()),
    }
}

fn print(bytes: &[u8]) -> Result<(), sys::Error> {
    write_all(stdout(), bytes).context("write", "standard output")
}

fn finish(result: Result<(), impl Display>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(failure) => fail(failure),
    }
}

/// Prints the reason to standard error with one write(2); returns the exit status.
fn fail(why: impl Display) -> i32 {
    let _ = Stderr.write_str(&format!("{NAME}: {why}\n"));
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_paths() {
        let check = |namespace, id| check(&Flags { namespace, id, ..Flags::default() });
        assert!(check("k8s.io", "a-b_c.1").is_ok());
        for (namespace, id) in [("", "a"), ("n", ""), ("../n", "a"), ("n", "a/b"), ("n", "..")] {
            assert!(check(namespace, id).is_err(), "{namespace} {id}");
        }
    }
}
