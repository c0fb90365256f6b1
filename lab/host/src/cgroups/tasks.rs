//! `classify`, `exec`, `freeze`, `thaw` and `kill`: commands on the processes of groups.

use super::error::of_cgroup;
use super::group::{Group, Tree};
use crate::cgroups::options::{Classify, Exec, Kill};
use cgroup::Cgroup;
use report::Error;
use rustix::io::Errno;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Moves processes, with all their threads.
///
/// # Errors
/// An unknown process or group; a move that the kernel refuses.
pub fn classify(options: &Classify) -> Result<(), Error> {
    let (groups, pids) = options.parts()?;
    let tree = Tree::detect()?;
    // Report unknown groups before any process is moved.
    groups.iter().try_for_each(|group| tree.existing(group).map(|_| ()))?;
    let pids = pids.into_iter().map(leader).collect::<Result<Vec<_>, _>>()?;
    for pid in pids {
        groups.iter().try_for_each(|group| join(&tree, group, Some(pid)))?;
    }
    Ok(())
}

/// Returns the process that a thread belongs to. The kernel also accepts a thread's id, and moves the whole process.
fn leader(pid: i32) -> Result<i32, Error> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        bail!("there is no process {pid}");
    };
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    Ok(leader.unwrap_or(pid))
}

/// Enters groups and executes a program.
///
/// # Errors
/// An unknown group; a program that can't be executed.
pub fn exec(options: &Exec) -> Result<(), Error> {
    let (groups, command) = options.parts()?;
    let tree = Tree::detect()?;
    for group in &groups {
        join(&tree, group, None)?;
    }
    let [program, arguments @ ..] = command else { return Ok(()) };
    let cause = Command::new(program).args(arguments).exec();
    Err(Error::system("exec", program.display(), cause))
}

/// Moves a process into a group, or this process if `pid` is `None`. This process is single-threaded, so it can use the
/// cheaper [`Cgroup::enter`].
fn join(tree: &Tree, group: &Group, pid: Option<i32>) -> Result<(), Error> {
    if group.path.is_empty() {
        tree.check(group)?;
        for directory in tree.directories(group) {
            let tasks = directory.join("tasks");
            let alone = pid.is_none() && tasks.exists();
            let file = if alone { tasks } else { directory.join("cgroup.procs") };
            fs::write(&file, pid.unwrap_or(0).to_string()).map_err(Error::of("write", &file))?;
        }
        return Ok(());
    }
    let group = tree.open(group)?;
    pid.map_or_else(|| group.enter(), |pid| group.add(pid)).map_err(|error| {
        let error = of_cgroup(error);
        let advice = match error.errno() {
            Some(Errno::BUSY) => {
                "on cgroup v2, a group that delegates controllers cannot contain processes"
            }
            Some(Errno::INVAL) => "threads of the kernel itself can't be moved",
            Some(Errno::NOSPC) => "the group has no CPUs or memory nodes yet: set them",
            Some(Errno::OPNOTSUPP) => "the group is threaded and accepts only threads",
            Some(Errno::ACCESS) => {
                "moving requires write access to cgroup.procs of the group and, on cgroup v2, of \
                 the common ancestor"
            }
            _ => return error,
        };
        error.advise(advice)
    })
}

/// Freezes every process.
///
/// # Errors
/// A group that does not exist or does not freeze within ten seconds.
pub fn freeze(groups: &[Group]) -> Result<(), Error> {
    opened(groups)?.iter().try_for_each(|group| group.freeze().map_err(of_cgroup))
}

/// Thaws every process.
///
/// # Errors
/// An unknown group.
pub fn thaw(groups: &[Group]) -> Result<(), Error> {
    opened(groups)?.iter().try_for_each(|group| group.thaw().map_err(of_cgroup))
}

/// Sends a signal to every process of the groups and of their descendants.
///
/// # Errors
/// An unknown group; failing system calls.
pub fn kill(options: &Kill) -> Result<(), Error> {
    opened(&options.groups)?
        .iter()
        .try_for_each(|group| group.kill_all(options.signal).map_err(of_cgroup))
}

/// Opens all groups before any of them is changed, so that an unknown group is reported first.
fn opened(groups: &[Group]) -> Result<Vec<Cgroup>, Error> {
    let tree = Tree::detect()?;
    groups.iter().map(|group| tree.open(group)).collect()
}
