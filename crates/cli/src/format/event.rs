//! `events`: one JSON object a line.

use alloc::string::String;

use serde::Serialize;

use crate::failure::Failure;

/// What happened to a container.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Event<'a, S> {
    /// Its figures of now.
    Stats {
        /// The container.
        id: &'a str,
        /// The figures.
        data: &'a S,
    },
    /// The kernel killed one of its processes for want of memory.
    Oom {
        /// The container.
        id: &'a str,
    },
}

impl<S: Serialize> Event<'_, S> {
    /// The line.
    ///
    /// # Errors
    /// As [`super::json`].
    pub fn line(&self) -> Result<String, Failure> {
        let mut text = super::json(self)?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cgroup::stats::Stats;

    #[test]
    fn lines() {
        let oom: Event<'_, Stats> = Event::Oom { id: "c1" };
        assert_eq!(oom.line().unwrap(), "{\"type\":\"oom\",\"id\":\"c1\"}\n");
        let stats = Event::Stats { id: "c1", data: &Stats::default() }.line().unwrap();
        assert!(
            stats.starts_with("{\"type\":\"stats\",\"id\":\"c1\",\"data\":{\"cpu\":{"),
            "{stats}"
        );
        assert!(stats.ends_with("}}\n"));
    }
}
