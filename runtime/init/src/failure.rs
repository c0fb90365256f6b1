//! Failures of steps, in a form that needs no allocation.

use rustix::io::Errno;

use crate::take::Failed;

const ROOM: usize = 240;

/// The reason why a step of init failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The errno.
    pub errno: Errno,
    text: [u8; ROOM],
    length: usize,
}

impl Failure {
    /// Returns the failure of an operation. `op` names the operation, which is a system call as a rule.
    pub fn new(op: &'static str, errno: Errno) -> Self {
        let mut failure = Self { errno, text: [0; ROOM], length: 0 };
        failure.push(op.as_bytes());
        failure
    }

    /// Returns a failure that another process has reported, with that process's text.
    pub fn said(text: &[u8], errno: Errno) -> Self {
        let mut failure = Self { errno, text: [0; ROOM], length: 0 };
        failure.push(text);
        failure
    }

    /// Returns a failure with this description.
    pub fn described(text: impl core::fmt::Display, errno: Errno) -> Self {
        use core::fmt::Write;
        let mut failure = Self { errno, text: [0; ROOM], length: 0 };
        let _ = write!(failure, "{text}");
        failure
    }

    /// Adds detail to the failure.
    pub fn with(mut self, detail: &[u8]) -> Self {
        self.push(b": ");
        self.push(detail);
        self
    }

    /// Returns the text. It is UTF-8 if the texts that it quotes are UTF-8.
    pub fn text(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.text.get_mut(self.length..).unwrap_or_default();
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
            self.length += 1;
        }
    }
}

impl From<Failed> for Failure {
    fn from(Failed { op, hint, errno }: Failed) -> Self {
        let failure = Self::new(op, errno);
        if hint.is_empty() { failure } else { failure.with(hint.trim_start().as_bytes()) }
    }
}

impl core::fmt::Write for Failure {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Converts an errno to a failure that names the operation.
pub(crate) trait Op<T> {
    fn op(self, op: &'static str) -> Result<T, Failure>;
}

impl<T> Op<T> for Result<T, Errno> {
    fn op(self, op: &'static str) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(op, errno))
    }
}
