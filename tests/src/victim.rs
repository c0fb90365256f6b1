//! A part of the host that no container may change.

use crate::bed::Bed;
use std::fs;
use std::path::{Path, PathBuf};

const SECRET: &str = "precious\n";

/// A directory of the host with one file.
pub struct Victim {
    /// The path of the directory on the host.
    pub dir: PathBuf,
}

impl Victim {
    /// Makes a directory beside the bundles of `bed`.
    ///
    /// # Panics
    /// When the directory can't be made, or exists already.
    #[must_use]
    pub fn new(bed: &Bed) -> Self {
        let dir = bed.dir.join("victim");
        fs::create_dir(&dir).expect("make victim");
        fs::write(dir.join("file"), SECRET).expect("write");
        Self { dir }
    }

    /// Returns a relative path to this directory, with enough `..` to climb out of any rootfs.
    ///
    /// # Panics
    /// Never: the directory's path is absolute.
    #[must_use]
    pub fn climbing(&self) -> PathBuf {
        Path::new("../../../../../../../../../..")
            .join(self.dir.strip_prefix("/").expect("absolute"))
    }

    /// Returns a description of the changes to the directory; `None` if it is unchanged.
    ///
    /// # Panics
    /// When the directory no longer exists.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let mut names: Vec<_> = fs::read_dir(&self.dir)
            .expect("read")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        if names != ["file"] {
            return Some(format!("the host's directory has {names:?} in it"));
        }
        let text = fs::read_to_string(self.dir.join("file")).expect("file");
        if text != SECRET {
            return Some(format!("the host's file says {text:?}"));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let path = self.dir.to_string_lossy();
        mounts.lines().find(|line| line.contains(&*path)).map(|line| format!("mounted: {line}"))
    }

    /// Asserts that the directory is unchanged.
    #[track_caller]
    pub fn assert_untouched(&self) {
        assert_eq!(self.damage(), None);
    }
}
