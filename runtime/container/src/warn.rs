//! Warnings about settings that are not applied as requested, although the command continues.

use core::fmt;

/// Two receivers of warnings.
#[derive(Clone, Copy)]
pub struct Warn<'a> {
    /// Writes a warning to the command's log.
    pub record: &'a dyn Fn(&str),
    /// Writes a warning to the log and to standard error, for warnings that the user must see.
    pub print: &'a dyn Fn(&str),
}

impl Warn<'_> {
    pub(crate) fn all(self, warnings: &[alloc::string::String]) {
        warnings.iter().for_each(|warning| (self.record)(warning));
    }

    /// Warns of keys of `file` that are ignored because of their case.
    pub(crate) fn misspelt(self, file: &str, keys: &[spec::Misspelt]) {
        keys.iter().for_each(|key| (self.print)(&alloc::format!("{file}: {key}")));
    }
}

impl Default for Warn<'_> {
    /// Discards warnings.
    fn default() -> Self {
        Self { record: &|_| {}, print: &|_| {} }
    }
}

impl fmt::Debug for Warn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Warn")
    }
}
