//! The container state defined by runtime-spec (runtime.md, "State"), which hooks read from standard input.

/// The state's JSON text, except status and pid, which change over time.
#[derive(Debug, Clone, Copy)]
pub struct StateText<'a> {
    head: &'a str,
}

impl<'a> StateText<'a> {
    /// Returns a state whose JSON text begins with `head`.
    pub fn from_head(head: &'a str) -> Self {
        Self { head }
    }

    /// Returns everything before `status` and `pid`.
    pub fn head(&self) -> &'a str {
        self.head
    }

    /// Returns the part after the head, without a pid if `pid` is 0.
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
