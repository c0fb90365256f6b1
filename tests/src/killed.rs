//! Processes that do not outlive a case.

use std::process::Child;

/// A process that is killed on drop, whatever the outcome of its case.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
