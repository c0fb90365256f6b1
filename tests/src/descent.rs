//! The descendants of a followed command: the place of each process in the process tree, and the system calls that the
//! process has made. Tests that kill a process before each of its calls use this module, and tests that follow one program.

use rustix::process::Pid;
use std::collections::{BTreeMap, HashMap};

/// A process's place in the tree: a root is `[]`, its second child is `[1]`, and the first child of that is `[1, 0]`.
pub type Descent = Vec<usize>;

/// A system call of a process. The calls of each process are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The process.
    pub whose: Descent,
    /// The number of the call.
    pub number: usize,
}

/// The roots and their descendants, and the calls that each of these processes has made.
#[derive(Debug, Default)]
pub struct Family {
    /// The processes.
    pub members: HashMap<Pid, Descent>,
    children: HashMap<Pid, usize>,
    /// The system call numbers of the calls of each process, in the order of the calls.
    pub calls: BTreeMap<Descent, Vec<u64>>,
    /// The moment of the kill; `None` to record all calls instead.
    last: Option<Moment>,
    /// Whether the caller has killed a process at the moment passed to [`until`](Self::until). The caller sets this
    /// field.
    pub has_killed: bool,
}

impl Family {
    /// Returns a family in which `last` is the moment of the kill. Only the calls of the process `last.whose` matter,
    /// and only up to the kill.
    #[must_use]
    pub fn until(last: Moment) -> Self {
        Self { last: Some(last), ..Self::default() }
    }

    /// Handles an execve(2) of `pid`. If it has executed the followed program, it becomes a root, unless it is a member
    /// already; otherwise, it is no member any more.
    pub fn execute(&mut self, pid: Pid, is_program: bool) {
        if is_program {
            self.members.entry(pid).or_default();
        } else {
            self.members.remove(&pid);
        }
    }

    /// Adds a new process, if its parent is a member.
    pub fn add_child(&mut self, parent: Pid, pid: Pid) {
        let Some(mut descent) = self.members.get(&parent).cloned() else { return };
        let number = self.children.entry(parent).or_default();
        descent.push(*number);
        *number += 1;
        self.members.insert(pid, descent);
    }

    /// Records a call of a member; returns whether this is the moment of the kill.
    #[must_use]
    pub fn enter(&mut self, pid: Pid, call: u64) -> bool {
        let Some(whose) = self.members.get(&pid) else { return false };
        let calls = self.calls.entry(whose.clone()).or_default();
        calls.push(call);
        let is_now = |last: &Moment| last.whose == *whose && last.number + 1 == calls.len();
        self.last.as_ref().is_some_and(is_now)
    }

    /// Returns whether the calls of this process must be recorded. In a family made by [`until`](Self::until), only the
    /// calls of the process `last.whose` must be recorded, up to the kill. In any other family, the calls of every
    /// member must be recorded.
    #[must_use]
    pub fn hears_calls_of(&self, pid: Pid) -> bool {
        let Some(whose) = self.members.get(&pid) else { return false };
        self.last.as_ref().is_none_or(|last| !self.has_killed && last.whose == *whose)
    }
}

/// Returns the calls of the processes that `is_walked` selects, one process after another. Each call comes with its
/// system call number.
pub fn moments(
    recorded: &BTreeMap<Descent, Vec<u64>>,
    is_walked: impl Fn(&Descent) -> bool,
) -> Vec<(Moment, u64)> {
    let walked = recorded.iter().filter(|(whose, _)| is_walked(whose));
    let of_one = |(whose, calls): (&Descent, &Vec<u64>)| {
        let moment =
            |(number, call): (usize, &u64)| (Moment { whose: whose.clone(), number }, *call);
        calls.iter().enumerate().map(moment).collect::<Vec<_>>()
    };
    walked.flat_map(of_one).collect()
}
