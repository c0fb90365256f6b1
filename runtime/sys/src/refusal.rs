//! System calls that a seccomp filter may refuse when dayfly runs inside another runtime's container. Such a filter
//! allows only calls that are older than the filter itself. Newer calls fail with ENOSYS, or with EPERM if the other
//! runtime is an old version. If a refused call has a safe substitute, dayfly uses the substitute (openat2(2):
//! [`crate::inside`]; clone3(2): [`crate::clone`]). Calls that mount by descriptor have no substitute, so the error
//! message names the remedy.

use core::fmt;

use rustix::io::Errno;
use rustix::thread::{SecureComputingMode, secure_computing_mode};

/// Calls that a container start makes and that an old seccomp filter may refuse, with the Linux version that added each
/// call.
const NEEDED: [(&str, &str); 9] = [
    ("open_tree", "5.2"),
    ("move_mount", "5.2"),
    ("fsopen", "5.2"),
    ("fsconfig", "5.2"),
    ("fsmount", "5.2"),
    ("fspick", "5.2"),
    ("mount_setattr", "5.12"),
    ("clone3", "5.3"),
    ("openat2", "5.6"),
];

/// An errno to be displayed as text, with the likely cause if the call was refused; see [`describe`].
#[derive(Debug)]
pub struct Reason<'a> {
    operation: &'a str,
    errno: Errno,
}

/// Describes the errno of an operation. The text of `operation` begins with the name of the system call.
pub fn describe(operation: &str, errno: Errno) -> Reason<'_> {
    Reason { operation, errno }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crate::errno::describe(self.errno))?;
        let is_end = |byte: char| !(byte.is_ascii_alphanumeric() || byte == '_');
        let call = self.operation.split(is_end).next().unwrap_or_default();
        let Some((call, since)) = NEEDED.iter().find(|(known, _)| *known == call) else {
            return Ok(());
        };
        let what_to_do = "allow it in the seccomp profile of the container that dayfly runs in, or run that \
                          with seccomp=unconfined";
        match self.errno {
            Errno::NOSYS => write!(
                f,
                " ({call}(2), in Linux since {since}, is refused by a seccomp filter: {what_to_do})"
            ),
            Errno::PERM if is_filtered() => write!(
                f,
                " (dayfly runs under a seccomp filter; if that refuses {call}(2), in Linux since {since}: \
                 {what_to_do})"
            ),
            _ => Ok(()),
        }
    }
}

fn is_filtered() -> bool {
    secure_computing_mode().is_ok_and(|mode| mode == SecureComputingMode::Filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn only_what_filters_may_refuse_is_explained() {
        let told = describe("fsconfig create", Errno::NOSYS).to_string();
        assert!(told.starts_with("function not implemented (fsconfig(2), in Linux since 5.2, "));
        assert_eq!(describe("fsconfig", Errno::INVAL).to_string(), "invalid argument");
        assert_eq!(describe("bpf", Errno::NOSYS).to_string(), "function not implemented");
        assert_eq!(describe("", Errno::PERM).to_string(), "operation not permitted");
    }
}
