//! The running kernel.

/// Returns the kernel's major and minor version.
#[must_use]
pub fn version() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Checks for Linux 6.15, the first version that attaches mounts to detached trees and copies parts of such trees.
///
/// # Errors
/// The kernel is older.
pub fn has_detached() -> Result<(), String> {
    match version() {
        found if found >= (6, 15) => Ok(()),
        (major, minor) => {
            Err(format!("Linux {major}.{minor} attaches nothing to a detached tree (6.15 does)"))
        }
    }
}
