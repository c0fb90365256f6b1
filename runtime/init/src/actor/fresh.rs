//! A tmpfs that init has just mounted, and files created in it through its descriptor.
//!
//! The tmpfs was empty, and only init has accessed it, so no name directly below its root is a link. Therefore files in
//! /dev, or in /sys/fs/cgroup of cgroup v1, need no path look-up from the container's root.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::mkdirat;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};

use super::root::MADE;
use crate::failure::{Failure, Op};
use crate::step::MountFs;

/// The tmpfs that init mounted last. Init discards this value before any step that may mount something elsewhere than
/// directly below the tmpfs.
pub(crate) struct Fresh<'a> {
    /// The tmpfs's mount point, as in the configuration.
    path: &'a CStr,
    top: OwnedFd,
}

impl<'a> Fresh<'a> {
    /// Returns the mount that `step` has created, if it is an empty tmpfs that is not the container's root. `top` is
    /// the root of this mount.
    pub(crate) fn of(step: &MountFs<'a>, top: OwnedFd) -> Option<Self> {
        let path = step.target.path;
        (step.kind == c"tmpfs" && !step.copy_up && !path.is_empty()).then_some(Self { path, top })
    }

    /// Returns the root of the tmpfs if `path` is its mount point.
    pub(crate) fn at(&self, path: &CStr) -> Option<BorrowedFd<'_>> {
        (self.path == path).then_some(self.top.as_fd())
    }

    /// If `path` is directly below the root of the tmpfs, creates a directory there and returns the directory's name.
    /// Returns `None` if `path` already exists or is not directly below the root.
    pub(crate) fn make<'p>(&self, path: &'p CStr) -> Result<Option<&'p CStr>, Failure> {
        let Some(name) = self.name(path) else { return Ok(None) };
        match mkdirat(&self.top, name, MADE) {
            Ok(()) => Ok(Some(name)),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(Failure::new("mkdirat", errno)),
        }
    }

    /// Attaches a detached mount to a directory that [`Self::make`] created.
    pub(crate) fn attach(&self, tree: BorrowedFd<'_>, name: &CStr) -> Result<(), Failure> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(tree, c"", &self.top, name, flags).op("move_mount")
    }

    fn name<'p>(&self, path: &'p CStr) -> Option<&'p CStr> {
        let rest = path.to_bytes_with_nul().strip_prefix(self.path.to_bytes())?;
        let name = CStr::from_bytes_with_nul(rest.strip_prefix(b"/")?).ok()?;
        let ordinary = !matches!(name.to_bytes(), b"" | b"." | b"..");
        (ordinary && !name.to_bytes().contains(&b'/')).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use sys::mount::MountAttr;

    fn fresh(path: &'static CStr, directory: &std::path::Path) -> Fresh<'static> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Fresh { path, top: openat(CWD, directory.to_str().unwrap(), flags, Mode::empty()).unwrap() }
    }

    #[test]
    fn names_right_below_it_are_its_own() {
        let directory = std::env::temp_dir();
        let dev = fresh(c"dev", &directory);
        assert_eq!(dev.name(c"dev/pts"), Some(c"pts"));
        for other in [c"dev", c"dev/", c"dev/a/b", c"dev/..", c"dev/.", c"devices/a", c"sys/dev/a"]
        {
            assert_eq!(dev.name(other), None, "{other:?}");
        }
        assert!(dev.at(c"dev").is_some() && dev.at(c"dev/pts").is_none());
    }

    #[test]
    fn what_is_there_is_left_to_others() {
        let directory = std::env::temp_dir().join(format!("dayfly-fresh-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let dev = fresh(c"dev", &directory);
        assert_eq!(dev.make(c"dev/shm").unwrap(), Some(c"shm"));
        assert_eq!(dev.make(c"dev/shm").unwrap(), None);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(dev.make(c"dev/pts").unwrap_err().errno, Errno::NOENT);
    }

    #[test]
    fn only_an_empty_tmpfs_is_fresh() {
        let directory = std::env::temp_dir();
        let of = |kind, path, copy_up| {
            let step = MountFs {
                kind,
                source: c"",
                parameters: &[],
                attr: MountAttr::default(),
                target: crate::step::Target { path, no_symlinks: false },
                label: None,
                copy_up,
                inherit_mode: false,
                kept: None,
                oversized: None,
            };
            Fresh::of(&step, fresh(c"", &directory).top).is_some()
        };
        assert!(of(c"tmpfs", c"dev", false));
        assert!(!of(c"tmpfs", c"dev", true) && !of(c"sysfs", c"sys", false));
        assert!(!of(c"tmpfs", c"", false));
    }
}
