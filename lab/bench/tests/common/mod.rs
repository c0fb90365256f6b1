//! Functions that the tests of this program share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the path of a runtime that works: `$DAYFLY`, or the release build.
fn dayfly() -> Result<PathBuf, String> {
    let bench = Path::new(env!("CARGO_BIN_EXE_dayfly-bench"));
    let built = bench.ancestors().nth(2).map(|target| target.join("release/dayfly"));
    let named = std::env::var_os("DAYFLY").map(PathBuf::from);
    let found = [named, built].into_iter().flatten().find(|path| path.is_file());
    found.ok_or_else(|| "no dayfly: name one by DAYFLY".to_owned())
}

/// Returns the runtime if containers can run here.
pub fn ready() -> Option<PathBuf> {
    let ready = match dayfly() {
        _ if !rustix::process::geteuid().is_root() => Err("not root".to_owned()),
        _ if !Path::new("/bin/busybox").exists() => Err("no busybox".to_owned()),
        found => found,
    };
    ready.inspect_err(|reason| eprintln!("skipped: {reason}")).ok()
}

/// Runs the program in the v2 view, if there is one.
pub fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dayfly-bench"));
    command.args(arguments);
    if Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists() {
        command.args(["--view", "v2"]);
    }
    command.stdin(Stdio::null()).output().expect("run dayfly-bench")
}
