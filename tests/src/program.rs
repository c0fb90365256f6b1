//! Programs that tests write and run.
//!
//! Other processes write them: of a descriptor of ours that is open for writing, a test beside this one may have a copy
//! in a child that has not come to its exec, and until then the program is "text file busy" (execve(2), ETXTBSY).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a program of a text.
///
/// # Panics
/// If it can't be written.
pub fn write(path: &Path, text: &str) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"rm -f "$1" && cat >"$1" && chmod 755 "$1""#, "sh"]).arg(path);
    let mut shell = shell.stdin(Stdio::piped()).spawn().expect("sh");
    shell.stdin.take().expect("stdin").write_all(text.as_bytes()).expect("write program");
    assert!(shell.wait().expect("sh").success(), "cannot write {}", path.display());
}

/// Copies a program.
///
/// # Panics
/// If it can't be copied.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("/bin/cp").arg("--").arg(from).arg(to).status().expect("cp");
    assert!(status.success(), "cannot copy {} to {}", from.display(), to.display());
}
