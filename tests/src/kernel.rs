//! The running kernel.

/// Major and minor version.
#[must_use]
pub fn version() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Linux 6.15 is the first that attaches mounts to a tree which is attached nowhere, and copies parts of one.
///
/// # Errors
/// That this one is older.
pub fn has_detached() -> Result<(), String> {
    match version() {
        found if found >= (6, 15) => Ok(()),
        (major, minor) => {
            Err(format!("Linux {major}.{minor} attaches nothing to a detached tree (6.15 does)"))
        }
    }
}
