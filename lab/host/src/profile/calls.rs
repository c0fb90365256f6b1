//! Records the system calls made under a container's filter.
//!
//! Every process that has loaded a filter is traced, with all its descendants: the runtime's process from the time when
//! it loads the filter, the container's program, its children, and hooks that run under the filter. So the runtime's
//! own calls between the load and the program's start are recorded, too, for any runtime.
//!
//! ptrace(2) shows all calls that are made under the filter, with their arguments, even those that the profile refuses,
//! on every architecture. It is slow, and excludes programs that use ptrace(2) themselves. Two other methods were
//! rejected. SECCOMP_RET_LOG writes to the kernel log, which is rate-limited, loses entries, and is shared by all
//! containers. A listener needs a filter that differs from the one under test, and that filter cannot trap write(2), by
//! which init reports the listener.

use crate::follow::{Event, Listener, call_name};
use rustix::process::Pid;
use seccomp::{Arch, multiplexed_on_x86, names};
use std::collections::{BTreeSet, HashMap, HashSet};

/// SECCOMP_SET_MODE_FILTER of seccomp(2).
const SET_MODE_FILTER: u64 = 1;
/// PR_SET_SECCOMP and SECCOMP_MODE_FILTER of prctl(2).
const SET_SECCOMP: [u64; 2] = [22, 2];

/// socketcall(2) and ipc(2) of 32-bit x86, whose first argument selects the operation.
const MULTIPLEXERS: [u32; 2] = [102, 117];

/// A system call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    /// AUDIT_ARCH_*.
    token: u32,
    /// The number of the call on that architecture.
    number: u32,
    /// The operation, if the call is a multiplexer; else 0.
    behind: u64,
}

/// A listener for processes under a filter.
#[derive(Debug, Default)]
pub struct Calls {
    /// The process of each thread.
    processes: HashMap<Pid, Pid>,
    /// Processes under a filter.
    filtered: HashSet<Pid>,
    /// Threads that are loading a filter.
    loading: HashSet<Pid>,
    /// The recorded calls.
    pub made: BTreeSet<Made>,
    /// Whether any process has loaded a filter.
    pub has_filter: bool,
}

impl Listener for Calls {
    fn hear(&mut self, pid: Pid, event: Event) {
        match event {
            Event::Born { parent, process } => {
                // A process whose parent is unknown is recorded too, so that nothing is missed.
                let parent = parent.map(|parent| self.process(parent));
                let is_lost = parent.is_none() && !self.processes.is_empty();
                if is_lost || parent.is_some_and(|parent| self.filtered.contains(&parent)) {
                    self.filtered.insert(process);
                }
                self.processes.insert(pid, process);
            }
            Event::Entered { number, args, arch } => {
                if self.filtered.contains(&self.process(pid)) {
                    self.made.extend(Made::new(arch, number, args[0]));
                } else if arch == Arch::NATIVE.token() && is_load(number, args) {
                    self.loading.insert(pid);
                }
            }
            Event::Left { result, .. } => {
                // Runtimes probe kernel features by loads that must fail.
                if self.loading.remove(&pid) && result.is_ok() {
                    self.has_filter = true;
                    self.filtered.insert(self.process(pid));
                }
            }
            Event::Gone { .. } => {
                self.processes.remove(&pid);
                self.filtered.remove(&pid);
                self.loading.remove(&pid);
            }
            Event::Executed { .. } | Event::Stepped { .. } | Event::Signalled(_) => {}
        }
    }

    fn follows_containers(&self) -> bool {
        true
    }
}

impl Calls {
    fn process(&self, pid: Pid) -> Pid {
        self.processes.get(&pid).copied().unwrap_or(pid)
    }
}

fn is_load(number: u64, args: [u64; 6]) -> bool {
    match call_name(number) {
        "seccomp" => args[0] == SET_MODE_FILTER,
        "prctl" => args[..2] == SET_SECCOMP,
        _ => false,
    }
}

impl Made {
    /// Returns a call, unless its number is negative: a tracer inside the container skips a call by setting −1.
    fn new(token: u32, number: u64, first: u64) -> Option<Self> {
        let number = u32::try_from(number).ok().filter(|number| *number != u32::MAX)?;
        let is_multiplexer = token == Arch::X86.token() && MULTIPLEXERS.contains(&number);
        // The upper half is ipc(2)'s version.
        Some(Self { token, number, behind: if is_multiplexer { first & 0xffff } else { 0 } })
    }

    /// Returns all names of the call, because a rule for any of these names applies to the call. Returns no name if the
    /// call is newer than dayfly.
    pub fn names(&self) -> Vec<&'static str> {
        let Some(arch) = Arch::of_call(self.token, self.number) else { return Vec::new() };
        let mut all: Vec<&str> = names(self.number, arch).collect();
        if self.behind != 0 {
            let is_it = |name: &&str| multiplexed_on_x86(name) == Some((self.number, self.behind));
            // On x86_64 or 32-bit ARM, each operation is a separate call. Their numbers are below 1024.
            let others = (0..1024)
                .flat_map(|number| names(number, Arch::X86_64).chain(names(number, Arch::Arm)));
            all.extend(others.filter(is_it));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arch =
            Arch::of_call(self.token, self.number).map_or("an unknown architecture", Arch::name);
        write!(f, "number {} of {arch}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::End;
    use rustix::io::Errno;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("pid")
    }

    fn number(name: &str) -> u64 {
        u64::from(seccomp::number(name, Arch::NATIVE).expect("a call"))
    }

    fn entered(name: &str, first: u64) -> Event {
        let args = [first, 0, 0, 0, 0, 0];
        Event::Entered { number: number(name), args, arch: Arch::NATIVE.token() }
    }

    fn left(result: Result<u64, Errno>) -> Event {
        Event::Left { number: number("seccomp"), result }
    }

    fn made(calls: &Calls) -> Vec<&'static str> {
        calls.made.iter().flat_map(Made::names).collect()
    }

    #[test]
    fn counts_from_the_load_on_and_for_children() {
        let mut calls = Calls::default();
        calls.hear(pid(1), Event::Born { parent: None, process: pid(1) });
        calls.hear(pid(1), entered("openat", 0));
        calls.hear(pid(2), Event::Born { parent: Some(pid(1)), process: pid(2) });
        // A failing load does not count.
        calls.hear(pid(2), entered("seccomp", SET_MODE_FILTER));
        calls.hear(pid(2), left(Err(Errno::FAULT)));
        calls.hear(pid(2), entered("close", 0));
        calls.hear(pid(2), entered("seccomp", SET_MODE_FILTER));
        calls.hear(pid(2), left(Ok(0)));
        calls.hear(pid(2), entered("capset", 0));
        calls.hear(pid(3), Event::Born { parent: Some(pid(2)), process: pid(3) });
        calls.hear(pid(4), Event::Born { parent: Some(pid(3)), process: pid(3) });
        calls.hear(pid(4), entered("getpid", 0));
        calls.hear(pid(1), entered("mkdirat", 0));
        calls.hear(pid(3), Event::Gone { end: End::Exited(0), instructions: 0 });
        assert_eq!(made(&calls).into_iter().collect::<BTreeSet<_>>(), ["capset", "getpid"].into());
        assert!(calls.has_filter);
    }

    #[test]
    fn what_is_behind_a_multiplexer_is_named() {
        let made =
            |number, first| Made::new(Arch::X86.token(), number, first).expect("a call").names();
        assert_eq!(made(102, 1), ["socket", "socketcall"]);
        assert_eq!(made(117, 1 << 16 | 2), ["ipc", "semget"]);
        assert_eq!(made(3, 1), ["read"]);
        assert_eq!(Made::new(Arch::X86.token(), u64::from(u32::MAX), 0), None);
    }

    #[test]
    fn a_call_that_is_too_new_has_no_name() {
        let made = Made::new(Arch::NATIVE.token(), 4000, 0).expect("a call");
        assert!(made.names().is_empty());
        assert!(made.to_string().starts_with("number 4000 of SCMP_ARCH_"), "{made}");
    }
}
