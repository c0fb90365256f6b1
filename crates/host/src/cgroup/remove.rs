//! `rm`.

use super::group::{Group, Tree, processes};
use crate::Error;
use crate::options::cgroup::Rm;
use ::cgroup::Cgroup;
use rustix::io::Errno;
use std::fs;

/// Removes groups, from the deepest up.
///
/// # Errors
/// Groups that are not there, are in use or have groups below.
pub fn remove(options: &Rm) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let mut groups = options.groups.clone();
    if let Some(file) = &options.plan {
        let plan = super::plan::load(file)?;
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
            Cgroup::delete(&tree.location(group)?)?;
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

/// Refuses before anything is removed.
fn check(options: &Rm, tree: &Tree, all: &[Group]) -> Result<(), Error> {
    for group in all {
        let below = tree.children(group).into_iter().find(|child| !all.contains(child));
        if let Some(child) = below {
            let reason = format!("the group {group} has groups below it, such as {}", child.path);
            return Err(Error::refused(reason).advise("--recursive removes them with it"));
        }
        let inside = processes(&tree.directories(group))?;
        if !inside.is_empty() && !options.kill && !options.move_up {
            let reason = format!("the group {group} has {} processes", inside.len());
            let advice = "--move puts them into the parent, --kill ends them";
            return Err(Error::refused(reason).advise(advice));
        }
    }
    Ok(())
}

/// Moves the processes of a group to its parent, as often as new ones have come.
fn move_up(tree: &Tree, group: &Group) -> Result<(), Error> {
    for directory in tree.directories(group).iter().filter(|directory| directory.is_dir()) {
        let Some(parent) = directory.parent() else { continue };
        let file = parent.join("cgroup.procs");
        for _ in 0..100 {
            let inside = processes(std::slice::from_ref(directory))?;
            if inside.is_empty() {
                break;
            }
            for pid in inside {
                match fs::write(&file, pid.to_string()) {
                    // It has gone.
                    Err(error) if error.raw_os_error() == Some(3) => {}
                    result => result.map_err(|error| {
                        Error::of("write", &file)(error)
                            .advise("the parent takes no processes: --kill ends them")
                    })?,
                }
            }
        }
    }
    Ok(())
}
