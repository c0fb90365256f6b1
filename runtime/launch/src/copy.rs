//! A copy of the running program without exec: for programs that leave a daemon behind, or use a separate process for
//! work that may block.

use rustix::fs::stat;
use rustix::io::Errno;
use sys::clone::{Clone, CloneFlags, clone3};

/// The number of links to /proc/self/task that do not come from a thread's directory: `.`, and the entry in /proc/self.
const OTHER_LINKS: u64 = 2;

/// Creates a process that also returns from this call, with its own copy of memory and descriptors. The new process is
/// in the caller's namespaces, and its exit sends SIGCHLD.
///
/// # Errors
/// EBUSY in a program with several threads, because the copy would have only the calling thread; those of clone3(2).
pub fn copy_process() -> Result<Clone, Errno> {
    // The type of the link count is wider on some architectures.
    #[allow(clippy::unnecessary_cast)]
    if stat(c"/proc/self/task")?.st_nlink as u64 != OTHER_LINKS + 1 {
        return Err(Errno::BUSY);
    }
    // SAFETY: the process has one thread.
    unsafe { clone3(CloneFlags::empty(), None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_of_several_threads() {
        // The test harness has its own threads.
        std::thread::scope(|scope| {
            let result = scope.spawn(copy_process).join().unwrap();
            assert!(matches!(result, Err(Errno::BUSY)));
        });
    }
}
