//! The state of runtime-spec (runtime.md, "State"), as hooks read it from standard input.

/// The state's JSON text, with room for what changes over time.
#[derive(Debug, Clone, Copy)]
pub struct StateText<'a> {
    head: &'a str,
}

impl<'a> StateText<'a> {
    /// The constant part as text.
    pub fn from_head(head: &'a str) -> Self {
        Self { head }
    }

    /// Everything before `status` and `pid`.
    pub fn head(&self) -> &'a str {
        self.head
    }

    /// What follows the head, without a pid when it is 0.
    pub fn tail(status: &str, pid: i32) -> impl core::fmt::Display {
        core::fmt::from_fn(move |f| {
            write!(f, ",\"status\":\"{status}\"")?;
            if pid != 0 {
                write!(f, ",\"pid\":{pid}")?;
            }
            f.write_str("}")
        })
    }
}
