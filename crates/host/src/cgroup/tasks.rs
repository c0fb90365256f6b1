//! `classify`, `exec`, `freeze`, `thaw` and `kill`: what is done with the processes of groups.

use super::group::{Group, Tree};
use crate::Error;
use crate::options::cgroup::{Classify, Exec, Kill};
use rustix::io::Errno;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Moves processes, with all their threads.
///
/// # Errors
/// A process or a group that is not there; what the kernel refuses.
pub fn classify(options: &Classify) -> Result<(), Error> {
    let tree = Tree::detect()?;
    for pid in &options.pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        let Ok(status) = status else {
            return Err(Error::refused(format!("there is no process {pid}")));
        };
        // The kernel takes a thread's number, too, and moves the whole process; so does it here.
        let leader =
            status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        for group in &options.groups {
            join(&tree, group, leader.unwrap_or(*pid))?;
        }
    }
    Ok(())
}

/// Becomes a program in groups.
///
/// # Errors
/// A group that is not there; a program that can't be executed.
pub fn exec(options: &Exec) -> Result<(), Error> {
    let tree = Tree::detect()?;
    for group in &options.groups {
        join(&tree, group, 0)?;
    }
    let [program, arguments @ ..] = options.command.as_slice() else { return Ok(()) };
    let cause = Command::new(program).args(arguments).exec();
    Err(Error::system("exec", program.display(), cause))
}

fn join(tree: &Tree, group: &Group, pid: i32) -> Result<(), Error> {
    if group.path.is_empty() {
        tree.check(group)?;
        for directory in tree.directories(group) {
            let file = directory.join("cgroup.procs");
            fs::write(&file, pid.to_string()).map_err(Error::of("write", &file))?;
        }
        return Ok(());
    }
    tree.open(group)?.add(pid).map_err(|error| {
        let error = Error::from(error);
        match error.errno() {
            Some(Errno::BUSY) => error.advise(
                "on cgroup v2 a group that hands controllers down can have no processes of its own",
            ),
            Some(Errno::NOSPC) => error.advise("the group has no CPUs or memory nodes yet: set them"),
            Some(Errno::OPNOTSUPP) => error.advise("the group is threaded and takes threads alone"),
            Some(Errno::ACCESS) => error.advise(
                "moving takes write access to cgroup.procs of the group and, on cgroup v2, of the one \
                 above both",
            ),
            _ => error,
        }
    })
}

/// Stops every process.
///
/// # Errors
/// A group that is not there or does not freeze within ten seconds.
pub fn freeze(groups: &[Group]) -> Result<(), Error> {
    let tree = Tree::detect()?;
    groups.iter().try_for_each(|group| Ok(tree.open(group)?.freeze()?))
}

/// Lets every process go on.
///
/// # Errors
/// A group that is not there.
pub fn thaw(groups: &[Group]) -> Result<(), Error> {
    let tree = Tree::detect()?;
    groups.iter().try_for_each(|group| Ok(tree.open(group)?.thaw()?))
}

/// Sends a signal to every process of groups and those below.
///
/// # Errors
/// A group that is not there; failing system calls.
pub fn kill(options: &Kill) -> Result<(), Error> {
    let tree = Tree::detect()?;
    options.groups.iter().try_for_each(|group| Ok(tree.open(group)?.kill_all(options.signal)?))
}
