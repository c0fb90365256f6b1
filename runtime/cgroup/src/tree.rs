//! Visits the cgroups below a cgroup.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

/// Calls `visit` for each cgroup below `top`, children before their parents. The arguments of `visit` are the parent's
/// descriptor and the cgroup's name in the parent. Cgroups that are removed meanwhile are skipped.
///
/// A container with write access to its cgroup can nest cgroups to any depth. So this function does not use recursion,
/// and does not keep a descriptor for each level.
///
/// # Errors
/// Those of `visit`, openat(2) and getdents(2).
pub(crate) fn each_below(
    top: BorrowedFd<'_>,
    mut visit: impl FnMut(BorrowedFd<'_>, &str) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut current = open(top, ".")?;
    let mut levels = Vec::from([Level { name: String::new(), children: children(&current)? }]);
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.children.pop() {
            let Some(child) = unless_gone(open(current.as_fd(), &name))? else { continue };
            let Some(children) = unless_gone(children(&child))? else { continue };
            current = child;
            levels.push(Level { name, children });
            continue;
        }
        let Some(Level { name, .. }) = levels.pop() else { break };
        if levels.is_empty() {
            break;
        }
        current = open(current.as_fd(), "..")?;
        unless_gone(visit(current.as_fd(), &name))?;
    }
    Ok(())
}

/// A cgroup on the path to the current one: its name in its parent, and its children that were not visited yet.
struct Level {
    name: String,
    children: Vec<String>,
}

fn open(directory: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

fn children(directory: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) if entry.file_type() == FileType::Directory => names.push(name.to_string()),
            Ok(_) => {}
        }
    }
    Ok(names)
}

fn unless_gone<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Err(Errno::NOENT | Errno::NODEV) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn children_come_before_parents() {
        let top = std::env::temp_dir().join(format!("dayfly-test-tree-{}", std::process::id()));
        for path in ["a/b/c", "a/d", "e"] {
            std::fs::create_dir_all(top.join(path)).unwrap();
        }
        std::fs::write(top.join("a/file"), "").unwrap();
        let directory = Directory::open(top.to_str().unwrap()).unwrap();
        let mut seen = Vec::new();
        each_below(directory.fd(), |_, name| {
            seen.push(name.to_string());
            Ok(())
        })
        .unwrap();
        std::fs::remove_dir_all(&top).unwrap();
        let at = |name: &str| seen.iter().position(|other| other == name).unwrap();
        assert_eq!(seen.len(), 5);
        assert!(at("c") < at("b") && at("b") < at("a") && at("d") < at("a"));
    }
}
