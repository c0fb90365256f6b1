//! Where warnings go: what is not done as it was asked for, and is no reason to fail.

use core::fmt;

/// Takes a warning, for the log of the command.
#[derive(Clone, Copy)]
pub struct Warn<'a>(pub &'a dyn Fn(&str));

impl Warn<'_> {
    pub(crate) fn all(self, warnings: &[alloc::string::String]) {
        warnings.iter().for_each(|warning| (self.0)(warning));
    }
}

impl Default for Warn<'_> {
    /// Nowhere.
    fn default() -> Self {
        Self(&|_| {})
    }
}

impl fmt::Debug for Warn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Warn")
    }
}
