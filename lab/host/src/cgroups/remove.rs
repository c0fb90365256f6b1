//! `rm`.

use super::error::of_cgroup;
use super::group::{Group, Tree, processes};
use crate::cgroups::options::Rm;
use cgroup::Cgroup;
use report::Error;
use rustix::io::Errno;
use std::fs;
use std::path::Path;

/// Removes groups, the deepest first.
///
/// # Errors
/// Groups that don't exist, are in use or have children.
pub fn remove(options: &Rm) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let mut groups = options.groups.clone();
    if let Some(file) = &options.plan {
        let plan = super::cgroup_plan::load(file)?;
        let planned = plan.groups.iter().map(|group| group.group.clone());
        groups.extend(planned.filter(|group| tree.exists(group)));
    }
    let mut all = Vec::new();
    for group in &groups {
        tree.location(group)?;
        tree.existing(group)?;
        all.extend(if options.recursive { tree.walk(group) } else { vec![group.clone()] });
    }
    all.sort_by_key(|group| std::cmp::Reverse(group.path.matches('/').count()));
    all.dedup();
    check(options, &tree, &all)?;
    for group in &all {
        if options.kill {
            Cgroup::delete(&tree.location(group)?).map_err(of_cgroup)?;
            continue;
        }
        if options.move_up {
            move_up(&tree, group)?;
        }
        for directory in tree.directories(group) {
            match rustix::fs::rmdir(&directory) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(Error::of("rmdir", &directory)(errno)),
            }
        }
    }
    Ok(())
}

/// Rejects invalid requests before anything is removed.
fn check(options: &Rm, tree: &Tree, all: &[Group]) -> Result<(), Error> {
    for group in all {
        let below = tree.children(group).into_iter().find(|child| !all.contains(child));
        if let Some(child) = below {
            return Err(refused!("the group {group} has groups below it, such as {}", child.path)
                .advise("--recursive removes them with it"));
        }
        let inside = processes(&tree.directories(group))?;
        if !inside.is_empty() && !options.kill && !options.move_up {
            let reason = format!("the group {group} has processes ({})", inside.len());
            let advice = "--move puts them into the parent, --kill ends them";
            return Err(Error::refused(reason).advise(advice));
        }
    }
    Ok(())
}

/// Moves the processes of a group to its parent, and repeats this while new processes appear. On cgroup v2, a parent
/// that delegates controllers accepts no processes: they are moved to the nearest ancestor that accepts them.
fn move_up(tree: &Tree, group: &Group) -> Result<(), Error> {
    for (mount, directory) in tree.places(group).filter(|(_, directory)| directory.is_dir()) {
        for _ in 0..100 {
            let inside = processes(std::slice::from_ref(&directory))?;
            if inside.is_empty() {
                break;
            }
            for pid in inside {
                lift(pid, &directory, &mount.path)?;
            }
        }
    }
    Ok(())
}

/// Moves a process to the nearest ancestor of `directory` that accepts it; the hierarchy's root always does.
fn lift(pid: i32, directory: &Path, root: &Path) -> Result<(), Error> {
    let above = directory.ancestors().skip(1).take_while(|above| above.starts_with(root));
    for parent in above {
        let file = parent.join("cgroup.procs");
        match fs::write(&file, pid.to_string()) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            // The process has exited.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(()),
            result => return result.map_err(Error::of("write", &file)),
        }
    }
    Ok(())
}
