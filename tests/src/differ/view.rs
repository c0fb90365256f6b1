//! The views of the host's cgroups that `scripts/view` makes.

use std::path::{Path, PathBuf};

/// A layout of /sys/fs/cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// v1 hierarchies, and v2 without controllers.
    Hybrid,
    /// v1 hierarchies only.
    V1,
    /// v2 only. On a host with v1 hierarchies it has no controllers.
    V2,
}

impl View {
    /// Returns the view of this process.
    #[must_use]
    pub fn current() -> Self {
        let top = Path::new("/sys/fs/cgroup");
        if top.join("cgroup.controllers").exists() {
            Self::V2
        } else if top.join("unified/cgroup.controllers").exists() {
            Self::Hybrid
        } else {
            Self::V1
        }
    }

    /// Returns the word of `scripts/view`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// Returns the view that a word names.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::Hybrid, Self::V1, Self::V2].into_iter().find(|view| view.name() == name)
    }

    /// Returns the mount points of all hierarchies.
    #[must_use]
    pub fn hierarchies(self) -> Vec<PathBuf> {
        let top = Path::new("/sys/fs/cgroup");
        if self == Self::V2 {
            return vec![top.to_owned()];
        }
        let entries = std::fs::read_dir(top).into_iter().flatten().flatten();
        let mut all: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.join("cgroup.procs").exists())
            .collect();
        all.sort();
        all
    }

    /// Returns the cgroups below which a case's cgroup may be: in each hierarchy the root and, for a relative path, that of
    /// this process.
    #[must_use]
    pub fn parents(self) -> Vec<PathBuf> {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut all = self.hierarchies();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let name = match controllers.trim_start_matches("name=") {
                "" if self == Self::Hybrid => "unified",
                name => name,
            };
            all.push(Path::new("/sys/fs/cgroup").join(name).join(path.trim_start_matches('/')));
        }
        all
    }
}
