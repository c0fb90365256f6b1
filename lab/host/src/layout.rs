//! The cgroup hierarchies of a host, and the mount of its cgroup2.

use super::facts::{Facts, Mount, mounts};

/// The directory in which the hierarchies are mounted.
const TOP: &str = "/sys/fs/cgroup";

/// Layouts of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only cgroup2.
    V2,
    /// v1 controllers with cgroup2 beside them.
    Hybrid,
    /// Only v1 controllers.
    V1,
    /// No hierarchy is mounted.
    None,
}

impl Mode {
    /// Returns the name of the layout in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
            Self::V1 => "v1",
            Self::None => "none",
        }
    }
}

/// The cgroup hierarchies of a host.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// The mount point of cgroup2.
    pub unified: Option<String>,
    /// The entry for cgroup2 in the mount table.
    pub mount: Option<Mount>,
    /// The directories of v1 hierarchies.
    pub legacy: Vec<String>,
}

impl Layout {
    /// Returns the layout of a host. On this host, it is detected from the mounted hierarchies; for another host, it is
    /// read from the mount table.
    pub fn of(facts: &Facts) -> Self {
        let table = mounts(&facts.text("/proc/self/mountinfo").unwrap_or_default());
        let mut layout = match facts.is_live() {
            true => Self::seen(),
            false => Self::listed(&table),
        };
        // If several mounts are stacked at one path, the last one is visible.
        layout.mount = layout.unified.as_ref().and_then(|unified| {
            let here = |mount: &&Mount| mount.kind == "cgroup2" && mount.point == *unified;
            table.iter().rfind(here).cloned()
        });
        layout
    }

    fn seen() -> Self {
        let Ok(found) = cgroup::Hierarchies::detect() else { return Self::default() };
        let legacy = found.legacy.into_iter().map(|hierarchy| hierarchy.mount).collect();
        Self { unified: found.unified, mount: None, legacy }
    }

    fn listed(table: &[Mount]) -> Self {
        let below = |mount: &&Mount| mount.point.starts_with(TOP);
        let of = |kind: &str| {
            let all = table.iter().filter(below).filter(move |mount| mount.kind == kind);
            all.map(|mount| mount.point.clone()).collect::<Vec<_>>()
        };
        Self { unified: of("cgroup2").pop(), mount: None, legacy: of("cgroup") }
    }

    /// Returns the kind of layout.
    pub fn mode(&self) -> Mode {
        match (&self.unified, self.legacy.is_empty()) {
            (Some(_), true) => Mode::V2,
            (Some(_), false) => Mode::Hybrid,
            (None, false) => Mode::V1,
            (None, true) => Mode::None,
        }
    }

    /// Returns the names of the v1 directories: `memory`, `cpu,cpuacct`.
    pub fn legacy_names(&self) -> Vec<&str> {
        self.legacy.iter().filter_map(|path| path.rsplit('/').next()).collect()
    }
}
