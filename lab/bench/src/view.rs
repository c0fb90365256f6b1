//! The cgroup layout in /sys/fs/cgroup, and how to show a hybrid host as v2 or v1 alone.

use crate::base::*;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    unmount,
};
use std::ffi::CStr;
use sys::clone::CloneFlags;

const TOP: &str = "/sys/fs/cgroup";

/// The cgroup layouts that a runtime may encounter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Only cgroup v2.
    V2,
    /// v1 controllers, and cgroup v2 in `unified/`.
    Hybrid,
    /// Only v1 controllers.
    V1,
}

impl View {
    /// Returns the view of this process's mount namespace.
    pub fn current() -> Self {
        let top = Path::new(TOP);
        if top.join("cgroup.controllers").exists() {
            Self::V2
        } else if top.join("unified/cgroup.controllers").exists() {
            Self::Hybrid
        } else {
            Self::V1
        }
    }

    /// Shows this view to the calling process, which must be single-threaded, in a mount namespace of its own: the
    /// host's mounts stay unchanged. A hybrid host can be shown in both other views.
    ///
    /// # Errors
    /// A view that can't be made from the present one; the errors of unshare(2) and mount(2).
    pub fn enter(self) -> Result<(), Error> {
        let here = Self::current();
        if here == self {
            return Ok(());
        }
        if here != Self::Hybrid {
            bail!(
                "the cgroups here are {}: the {} view can't be made from them",
                here.name(),
                self.name()
            );
        }
        own_mounts()?;
        let unified = Path::new(TOP).join("unified");
        if self == Self::V2 {
            return mount_bind_recursive(&unified, TOP).map_err(Error::errno("bind", &unified));
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tmpfs", &unified, "tmpfs", flags, None)
            .map_err(Error::errno("mount tmpfs on", &unified))
    }
}

impl View {
    /// Leaves a view that was entered before this program began, for example by the report that executed it. The
    /// calling process, which must be single-threaded, then sees the host's layout, in a mount namespace of its own. If
    /// no view was entered, nothing changes.
    ///
    /// # Errors
    /// Those of unshare(2) and mount(2).
    pub fn leave() -> Result<(), Error> {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let covers = table.lines().filter(|line| line.split(' ').nth(4) == Some(TOP)).count();
        if covers < 2 {
            return Ok(());
        }
        own_mounts()?;
        unmount(TOP, UnmountFlags::DETACH).map_err(Error::errno("unmount", Path::new(TOP)))
    }
}

/// A tmpfs over a directory of the host, in a mount namespace of this process's own. It is unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Cover {
    place: &'static Path,
    /// Whether the directory was made for the mount, and has to be removed after it.
    made: bool,
}

impl Cover {
    /// Mounts the tmpfs with these options; makes the directory if it does not exist.
    ///
    /// # Errors
    /// Those of unshare(2) and mount(2).
    pub(crate) fn of(place: &'static str, options: &CStr) -> Result<Self, Error> {
        // In the host's mount namespace, this mount would hide the directory from all processes.
        own_mounts()?;
        let place = Path::new(place);
        let cover = Self { place, made: std::fs::create_dir(place).is_ok() };
        mount("tmpfs", place, "tmpfs", MountFlags::NOSUID, Some(options))
            .map_err(Error::errno("mount tmpfs on", place))?;
        Ok(cover)
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let _ = unmount(self.place, UnmountFlags::DETACH);
        if self.made {
            // This fails if another process has used the directory in the meantime.
            let _ = std::fs::remove_dir(self.place);
        }
    }
}

/// Gives the calling process, which must be single-threaded, a mount namespace of its own from which nothing
/// propagates.
///
/// # Errors
/// Those of unshare(2) and mount(2): EPERM without CAP_SYS_ADMIN.
pub fn own_mounts() -> Result<(), Error> {
    let root = Path::new("/");
    sys::ns::unshare(CloneFlags::NEWNS).map_err(Error::errno("unshare mounts of", root))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(root, private).map_err(Error::errno("make private", root))
}
