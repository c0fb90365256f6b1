//! criu, for tests of checkpoint and restore.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns the path of criu: the value of `DAYFLY_CRIU`, else the one that `scripts/peers` has installed, or else the
/// one in PATH.
///
/// # Panics
/// If none of them works: cases must check [`lacking`] first.
#[must_use]
pub fn program() -> String {
    let path = found().as_ref().expect("a criu that works");
    path.to_str().expect("a path of UTF-8").to_owned()
}

/// Checks that criu works on this host.
///
/// # Errors
/// If criu is missing, or reports that it does not work on this kernel.
pub fn lacking() -> Result<(), String> {
    found().as_ref().map(|_| ()).map_err(Clone::clone)
}

fn found() -> &'static Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let named = std::env::var_os("DAYFLY_CRIU").map(PathBuf::from);
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
        let peer = Some(target.join("peers/bin/criu")).filter(|path| path.exists());
        let searched = std::env::var_os("PATH").unwrap_or_default();
        let searched = std::env::split_paths(&searched).map(|dir| dir.join("criu"));
        let path = named.or(peer).or_else(|| searched.into_iter().find(|path| path.exists()));
        let path = path.ok_or("no criu (scripts/peers criu, or DAYFLY_CRIU)")?;
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        let mut check = Command::new(&path);
        let check = check.arg("check").stdin(Stdio::null()).output();
        let output = check.map_err(|error| format!("{}: {error}", path.display()))?;
        if output.status.success() {
            return Ok(path);
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(format!("{} check: {why} (scripts/peers criu gets a newer one)", path.display()))
    })
}
