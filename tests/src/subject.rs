//! The subjects of the suite, which register themselves with [`subject!`](crate::subject!).

use crate::runner::Case;
use std::cmp::Ordering;

/// The part of the project that a subject tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Folder {
    /// The programs below `runtime/`.
    Runtime,
    /// The programs below `tools/`, and the command lines of all programs that `dayfly` executes.
    Tools,
    /// The programs below `lab/`.
    Lab,
}

impl Folder {
    /// Returns the value of `--folder`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Tools => "tools",
            Self::Lab => "lab",
        }
    }
}

/// A subject: the test cases of one module of the suite.
#[derive(Clone, Copy)]
pub struct Subject {
    name: &'static str,
    /// The folder that the subject tests.
    pub folder: Folder,
    /// The cases, in the order in which they begin.
    pub cases: &'static [Case],
}

impl Subject {
    /// Creates a subject; `name` is the path of a module. Use [`subject!`](crate::subject!).
    #[must_use]
    pub const fn new(name: &'static str, folder: Folder, cases: &'static [Case]) -> Self {
        Self { name, folder, cases }
    }

    /// Returns the module's path below the suite's root.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name.strip_prefix("suite::").unwrap_or(self.name)
    }
}

/// The subjects in the linker's order.
#[linkme::distributed_slice]
pub static SUBJECTS: [Subject];

/// Returns all subjects, sorted by name. Submodules come before their module, so that the module's cases can check the
/// results of the submodules' cases.
#[must_use]
pub fn all() -> Vec<Subject> {
    let mut all = SUBJECTS.to_vec();
    all.sort_by(|one, other| by_path(one.name(), other.name()));
    all
}

fn by_path(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one.split("::"), other.split("::"));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => return one.cmp(other),
        }
    }
}

/// Registers a table of cases under the path of the module, or under a name: `subject!(Runtime, CASES)`.
#[macro_export]
macro_rules! subject {
    ($folder:ident, $cases:expr) => {
        $crate::subject!(module_path!(), $folder, $cases);
    };
    ($name:expr, $folder:ident, $cases:expr) => {
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::subject::SUBJECTS)]
            #[linkme(crate = $crate::linkme)]
            static SUBJECT: $crate::subject::Subject =
                $crate::subject::Subject::new($name, $crate::subject::Folder::$folder, $cases);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_after_those_below_it() {
        let mut names = ["faults", "exec", "faults::walk", "faults_later", "faults::calls"];
        names.sort_by(|one, other| by_path(one, other));
        assert_eq!(names, ["exec", "faults::calls", "faults::walk", "faults", "faults_later"]);
    }
}
