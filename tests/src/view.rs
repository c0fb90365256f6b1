//! The cgroup layouts in /sys/fs/cgroup.

use std::path::Path;

/// The three cgroup layouts that a runtime can encounter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// One directory per v1 controller, and cgroup2 in `unified/`.
    Hybrid,
    /// Only v1 controllers.
    V1,
    /// cgroup2 mounted on /sys/fs/cgroup.
    V2,
}

impl View {
    /// Returns the view of this process's mount namespace. `DAYFLY_VIEW` must agree with the mounted layout, so that a
    /// broken wrapper can't make the suite test the wrong view.
    ///
    /// # Errors
    /// The variable and the mounted layout differ.
    pub fn current() -> Result<Self, String> {
        let cgroup = Path::new("/sys/fs/cgroup");
        let seen = if cgroup.join("cgroup.controllers").exists() {
            Self::V2
        } else if cgroup.join("unified/cgroup.controllers").exists() {
            Self::Hybrid
        } else {
            Self::V1
        };
        match std::env::var("DAYFLY_VIEW") {
            Ok(named) if named != seen.name() => {
                Err(format!("DAYFLY_VIEW says {named}, /sys/fs/cgroup shows {}", seen.name()))
            }
            _ => Ok(seen),
        }
    }

    /// Returns the name used by `scripts/view` and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// Returns whether resource limits are set through v1 controllers.
    #[must_use]
    pub fn has_v1(self) -> bool {
        self != Self::V2
    }
}
