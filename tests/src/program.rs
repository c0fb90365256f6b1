//! Writes programs that tests run.
//!
//! A child process writes each file. If the suite wrote it, a child of a concurrent test could inherit the descriptor
//! that is open for writing. Until that child's exec, executing the program would fail with ETXTBSY (execve(2)).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program.
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

/// Checks that the host has a program in /usr/bin, which the Debian package of the same name installs.
///
/// # Errors
/// If it is missing: what installs it.
pub fn installed(name: &str) -> Result<(), String> {
    match Path::new("/usr/bin").join(name).exists() {
        true => Ok(()),
        false => Err(format!("no /usr/bin/{name}: apt-get install {name}")),
    }
}
