//! The seccomp filter.

use crate::{Error, Kernel};

/// Compiles the program of a seccomp profile.
///
/// # Errors
/// Fails if a value of the profile is invalid; the error names the value.
pub fn compile_seccomp(profile: &str, kernel: &Kernel) -> Result<seccomp::Program, Error> {
    let profile = seccomp::Profile::parse(profile)?;
    Ok(seccomp::compile(&profile, &kernel.seccomp)?)
}
