//! Warnings about settings that are not applied as requested, although the command continues.

use core::fmt;

/// Two receivers of warnings: the first writes a warning to the command's log, the second also writes it to standard
/// error, for warnings that the user must see.
#[derive(Clone, Copy)]
pub struct Warn<'a>(pub &'a dyn Fn(&str), pub &'a dyn Fn(&str));

impl Warn<'_> {
    pub(crate) fn all(self, warnings: &[alloc::string::String]) {
        warnings.iter().for_each(|warning| (self.0)(warning));
    }

    /// Warns of keys of `file` that are ignored because of their case.
    pub(crate) fn misspelt(self, file: &str, keys: &[spec::Misspelt]) {
        keys.iter().for_each(|key| (self.1)(&alloc::format!("{file}: {key}")));
    }
}

impl Default for Warn<'_> {
    /// Discards warnings.
    fn default() -> Self {
        Self(&|_| {}, &|_| {})
    }
}

impl fmt::Debug for Warn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Warn")
    }
}
