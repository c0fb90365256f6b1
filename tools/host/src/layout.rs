//! Which cgroup hierarchies a host has, and how its cgroup2 is mounted.

use super::facts::{Facts, Mount, mounts};

/// Where the hierarchies are mounted.
const TOP: &str = "/sys/fs/cgroup";

/// The layouts of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// cgroup2 alone.
    V2,
    /// v1 controllers, and cgroup2 beside them.
    Hybrid,
    /// v1 controllers alone.
    V1,
    /// None is mounted.
    None,
}

impl Mode {
    /// Its name in reports.
    #[must_use]
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
    /// Where cgroup2 is mounted.
    pub unified: Option<String>,
    /// The mount of cgroup2.
    pub mount: Option<Mount>,
    /// The directories of v1 hierarchies.
    pub legacy: Vec<String>,
}

impl Layout {
    /// That of a host: this one's as it is seen from here, another one's by its mount table.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        let table = mounts(&facts.text("/proc/self/mountinfo").unwrap_or_default());
        let mut layout = match facts.is_live() {
            true => Self::seen(),
            false => Self::listed(&table),
        };
        // Of several at one place the last one is seen.
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

    /// What kind of layout it is.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match (&self.unified, self.legacy.is_empty()) {
            (Some(_), true) => Mode::V2,
            (Some(_), false) => Mode::Hybrid,
            (None, false) => Mode::V1,
            (None, true) => Mode::None,
        }
    }

    /// The names of the v1 directories: `memory`, `cpu,cpuacct`.
    #[must_use]
    pub fn legacy_names(&self) -> Vec<&str> {
        self.legacy.iter().filter_map(|path| path.rsplit('/').next()).collect()
    }
}
