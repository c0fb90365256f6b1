//! Reads memory of a stopped tracee.

use rustix::process::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The maximum length of a path (PATH_MAX).
const PATH_MAX: usize = 4096;

/// Reads memory of a stopped process from `address` on; returns the number of bytes read. Returns `None` if no byte can
/// be read, because the pointer is bad or the process is dead.
pub fn read(pid: Pid, address: u64, buffer: &mut [u8]) -> Option<usize> {
    let memory = File::open(format!("/proc/{}/mem", pid.as_raw_pid())).ok()?;
    memory.read_at(buffer, address).ok().filter(|read| *read > 0)
}

/// Reads a zero-terminated string, or its first `PATH_MAX` bytes.
pub fn text(pid: Pid, address: u64) -> Option<String> {
    // Most strings are short and end before their page does.
    let mut short = [0; 256];
    let read = read(pid, address, &mut short)?;
    if let Some(end) = short[..read].iter().position(|byte| *byte == 0) {
        return Some(String::from_utf8_lossy(&short[..end]).into_owned());
    }
    let mut long = vec![0; PATH_MAX];
    let read = self::read(pid, address, &mut long)?;
    let end = long[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    Some(String::from_utf8_lossy(&long[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &std::ffi::CStr) -> Option<String> {
        let address = text.as_ptr().expose_provenance() as u64;
        self::text(rustix::process::getpid(), address)
    }

    #[test]
    fn reads_texts_of_any_length() {
        assert_eq!(own(c"/sys/fs/cgroup").as_deref(), Some("/sys/fs/cgroup"));
        let long = std::ffi::CString::new("x".repeat(1000)).unwrap();
        assert_eq!(own(&long).map(|text| text.len()), Some(1000));
    }

    #[test]
    fn a_bad_pointer_points_to_nothing() {
        assert_eq!(text(rustix::process::getpid(), 8), None);
    }
}
