//! The location of a container's cgroup: converts `linux.cgroupsPath` to directories.
//!
//! The rules are those of runc's cgroupfs manager. An absolute path is relative to the mount point of each hierarchy. A
//! relative path, or the container's id if there is no path, is relative to the caller's own cgroup in each v1
//! hierarchy, and to the parent of the caller's own cgroup on v2. The parent is used because a v2 cgroup that contains
//! processes, such as the caller, cannot enable controllers for its children.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, openat};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::defence::{Defence, is_off};
use sys::{Context, Errno};

use crate::hierarchies::Hierarchy;
use crate::own::OwnCgroups;
use crate::systemd::Unit;
use crate::{Controller, Controllers, Error, Hierarchies};

/// The directories of one container's cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The directory on cgroup v2. On a hybrid host, no controllers are on v2, and the directory is only used to track
    /// the processes.
    pub unified: Option<Place>,
    /// The directories on cgroup v1, one per hierarchy.
    pub legacy: Vec<LegacyPlace>,
    /// The systemd unit, if systemd manages the cgroup.
    pub unit: Option<Unit>,
}

/// A cgroup directory that may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory's absolute path.
    directory: String,
    /// The length in bytes of the path of the hierarchy's mount point, which is a prefix of the directory's path.
    mount: u32,
}

/// A [`Place`] in a cgroup v1 hierarchy, with the hierarchy's controllers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyPlace {
    /// The hierarchy's controllers.
    pub controllers: Controllers,
    /// The cgroup's directory in the hierarchy.
    pub place: Place,
}

impl Place {
    /// Returns the directory `path` in the hierarchy mounted at `mount`. `path` begins with a slash and does not end
    /// with one.
    fn new(mount: &str, path: &str) -> Self {
        let length = u32::try_from(mount.len()).unwrap_or(u32::MAX);
        Self { directory: format!("{mount}{path}"), mount: length }
    }

    /// Returns the directory's absolute path, such as `/sys/fs/cgroup/pids/parent/name`.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Returns the mount point of the hierarchy.
    pub fn mount(&self) -> &str {
        self.directory.get(..self.mount as usize).unwrap_or_default()
    }

    /// Returns the path inside the hierarchy, as in /proc/self/cgroup: `/parent/name`.
    pub fn path(&self) -> &str {
        self.directory.get(self.mount as usize..).unwrap_or_default()
    }

    /// Returns whether the caller may create the directory or, if ancestors are missing, the topmost missing ancestor.
    fn is_permitted(&self) -> bool {
        let above: Vec<&str> = self.ancestors().collect();
        let flags = AtFlags::EACCESS;
        let mut answers =
            above.iter().rev().map(|path| accessat(CWD, *path, Access::WRITE_OK, flags));
        answers.find(|answer| *answer != Err(Errno::NOENT)).is_some_and(|answer| answer.is_ok())
    }

    /// Iterates over the paths of the ancestors, from the mount point down to the parent.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &str> {
        let slashes = self.path().match_indices('/').map(|(at, _)| at + self.mount as usize);
        slashes.filter_map(|end| self.directory.get(..end))
    }
}

/// Returns whether the file `name` in `directory` contains a memory limit. Returns true as well if the file exists but
/// cannot be read.
fn is_limited(directory: &str, name: &str) -> bool {
    let path = format!("{directory}/{name}");
    let file = match openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        // If the file is missing, the cgroup has no memory controller.
        Err(errno) => return errno != Errno::NOENT,
    };
    let mut text = [0; 32];
    let length = rustix::io::read(file, &mut text).unwrap_or(0);
    text.get(..length).is_none_or(|text| !is_unlimited(text))
}

/// Returns whether the text of a memory limit means unlimited: `max`, or a number of at least 2⁶³ − 1 MiB. On cgroup v1
/// the kernel prints the largest multiple of the page size below 2⁶³.
fn is_unlimited(text: &[u8]) -> bool {
    let Ok(text) = core::str::from_utf8(text) else { return false };
    let text = text.trim_ascii_end();
    text == "max" || text.parse().is_ok_and(|limit: u64| limit >= i64::MAX as u64 >> 20 << 20)
}

impl Location {
    /// Converts `linux.cgroupsPath` to directories. If there is no path, the cgroup's name is `id`. Nothing is created.
    /// /proc/self/cgroup is read only for a relative path.
    ///
    /// # Errors
    /// [`Error::BadPath`] if the path contains `..` or is otherwise invalid, [`Error::SystemdPath`] for
    /// `slice:prefix:name`.
    pub fn resolve(
        hierarchies: &Hierarchies,
        cgroups_path: Option<&str>,
        id: &str,
    ) -> Result<Self, Error> {
        let wanted = cgroups_path.filter(|path| !path.is_empty()).unwrap_or(id);
        if !wanted.starts_with('/') && wanted.split(':').count() == 3 {
            return Err(Error::SystemdPath(wanted.to_string()));
        }
        let path = clean(wanted)?;
        match wanted.starts_with('/') {
            true => Ok(Self::at(hierarchies, &path)),
            false => Self::relative(hierarchies, &path),
        }
    }

    /// Returns the caller's own cgroup in each v1 hierarchy, and the parent of the caller's own cgroup on v2. These are
    /// the cgroups visible to a container that has no cgroup of its own.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn own(hierarchies: &Hierarchies) -> Result<Self, Error> {
        Self::relative(hierarchies, "")
    }

    /// Resolves a relative `path`.
    fn relative(hierarchies: &Hierarchies, path: &str) -> Result<Self, Error> {
        let own = sys::fs::read_proc_text("/proc/self/cgroup");
        let own = own.context("read", "/proc/self/cgroup")?;
        let own = OwnCgroups::new(&own);
        // The mount table is needed only if the caller's cgroup is not the root of every v1 hierarchy. In a container
        // without a cgroup namespace, the mount may show only a part of the hierarchy.
        let mounts = if own.has_legacy() && !hierarchies.is_unified() {
            let mounts = sys::fs::read_proc_text("/proc/self/mountinfo");
            mounts.context("read", "/proc/self/mountinfo")?
        } else {
            String::new()
        };
        Ok(Self::place(hierarchies, |hierarchy| own.base(hierarchies, hierarchy, &mounts), path))
    }

    /// Returns the cgroups of a process.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn of_process(hierarchies: &Hierarchies, pid: Pid) -> Result<Self, Error> {
        let file = format!("/proc/{}/cgroup", pid.as_raw_nonzero());
        let text = sys::fs::read_text(file.as_str()).context("read", &file)?;
        let own = OwnCgroups::new(&text);
        Ok(Self::place(hierarchies, |hierarchy| own.whole(hierarchy), ""))
    }

    /// Returns the directory `path` below the mount point of each hierarchy.
    pub(crate) fn at(hierarchies: &Hierarchies, path: &str) -> Self {
        Self::place(hierarchies, |_| String::new(), path)
    }

    /// Returns the directory `path` below `base` in each hierarchy. `base` is called with each v1 hierarchy, and with
    /// `None` for v2.
    fn place(
        hierarchies: &Hierarchies,
        base: impl Fn(Option<&Hierarchy>) -> String,
        path: &str,
    ) -> Self {
        let place = |mount: &str, base: String| Place::new(mount, &format!("{base}{path}"));
        Self {
            unified: hierarchies.unified.as_deref().map(|mount| place(mount, base(None))),
            legacy: hierarchies
                .legacy
                .iter()
                .map(|hierarchy| LegacyPlace {
                    controllers: hierarchy.controllers,
                    place: place(&hierarchy.mount, base(Some(hierarchy))),
                })
                .collect(),
            unit: None,
        }
    }

    /// Returns the v2 directory, or the first v1 directory if there is no v2 directory.
    pub fn directory(&self) -> &str {
        let legacy = self.legacy.first().map(|legacy| &legacy.place);
        self.unified.as_ref().or(legacy).map_or("", Place::directory)
    }

    /// Returns whether the caller may create the cgroup: on v2 if there are no v1 hierarchies, otherwise in at least
    /// one v1 hierarchy.
    pub fn is_permitted(&self) -> bool {
        match &self.unified {
            Some(place) if self.is_unified() => place.is_permitted(),
            _ => self.legacy.iter().any(|legacy| legacy.place.is_permitted()),
        }
    }

    /// Returns the directory in the hierarchy with this list of controllers, written as in /proc/PID/cgroup:
    /// `cpu,cpuacct`, `name=systemd`, or an empty list for cgroup v2.
    pub fn in_hierarchy(&self, list: &str) -> Option<&Place> {
        if list.is_empty() {
            return self.unified.as_ref();
        }
        Controllers::from_list(list).iter().find_map(|controller| self.of(controller))
    }

    /// Returns whether the location is on cgroup v2 only.
    pub fn is_unified(&self) -> bool {
        self.legacy.is_empty()
    }

    /// The places in all hierarchies, that of cgroup v2 first.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.unified.iter().chain(self.legacy.iter().map(|legacy| &legacy.place))
    }

    /// Returns the directory in the v1 hierarchy that has `controller`.
    pub fn of(&self, controller: Controller) -> Option<&Place> {
        let is_it = |legacy: &&LegacyPlace| legacy.controllers.contains(controller);
        self.legacy.iter().find(is_it).map(|legacy| &legacy.place)
    }

    /// Returns whether the cgroup or one of its ancestors has a memory limit, even one not set by dayfly; true if
    /// unknown.
    pub fn limits_memory(&self) -> bool {
        let unified = self.unified.as_ref().filter(|_| self.is_unified());
        let (place, name) = match self.of(Controller::Memory) {
            Some(place) => (place, "memory.limit_in_bytes"),
            None => match unified {
                Some(place) => (place, "memory.max"),
                None => return false,
            },
        };
        // The mount point is looked at as well: in a cgroup namespace, as in a container, it is a cgroup of the host,
        // which may have a limit. The root of the host's hierarchy has no such file, or no limit.
        let mut above = place.ancestors();
        is_limited(place.directory(), name) || above.any(|directory| is_limited(directory, name))
    }

    /// Returns the cgroup v2 location of the process `pid`. The process may have left this location: with write access
    /// to its cgroup tree, it can move itself to a child cgroup and then enable controllers for the children of its
    /// former cgroup. Returns `None` on cgroup v1, or if the process does not exist.
    pub fn moved_to_by(&self, pid: i32) -> Option<Self> {
        let place = self.unified.as_ref().filter(|_| self.is_unified())?;
        let text = sys::fs::read_text(format!("/proc/{pid}/cgroup").as_str()).ok()?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        let path = clean(path).ok()?;
        let unified = Some(Place::new(place.mount(), &path));
        Some(Self { unified, legacy: Vec::new(), unit: None })
    }

    /// Returns the location of the sub-cgroup `path`, for `exec --cgroup PATH`. If `controllers` is given (`exec
    /// --cgroup CONTROLLER[,CONTROLLER]:PATH`), the result differs from this location only in the v1 hierarchies with
    /// these controllers.
    ///
    /// # Errors
    /// [`Error::BadPath`] if the path contains `..`, or if a controller is not mounted on v1. On v2, a process has only
    /// one cgroup for all controllers.
    pub fn sub(&self, controllers: Option<&str>, path: &str) -> Result<Self, Error> {
        let bad = |reason| Error::BadPath { path: path.to_string(), reason };
        let stays = path.split('/').all(|part| part.is_empty() || part == ".");
        let suffix = if stays { String::new() } else { clean(path)? };
        let unit = self.unit.clone().filter(|_| stays);
        let mut location = Self { unit, ..self.clone() };
        let Some(list) = controllers else {
            let legacy = location.legacy.iter_mut().map(|legacy| &mut legacy.place);
            for place in location.unified.iter_mut().chain(legacy) {
                place.directory.push_str(&suffix);
            }
            return Ok(location);
        };
        for name in list.split(',') {
            let controller =
                Controller::from_name(name).ok_or_else(|| bad("unknown controller"))?;
            let is_it = |legacy: &&mut LegacyPlace| legacy.controllers.contains(controller);
            let legacy = location.legacy.iter_mut().find(is_it);
            let legacy = legacy.ok_or_else(|| bad("no cgroup v1 hierarchy has this controller"))?;
            legacy.place.directory.push_str(&suffix);
        }
        Ok(location)
    }
}

/// Removes empty components and `.` from a path. The result begins with a slash.
pub(crate) fn clean(path: &str) -> Result<String, Error> {
    let bad = |reason| Error::BadPath { path: path.to_string(), reason };
    let mut cleaned = String::with_capacity(path.len() + 1);
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // runc resolves `..`, but no caller needs it, and such paths have allowed escapes from a delegated subtree
            // in the past.
            ".." if !is_off(Defence::CgroupPath) => return Err(bad("\"..\" is not allowed")),
            _ if part.contains(['\0', '\n']) => {
                return Err(bad("control characters are not allowed"));
            }
            _ => {
                cleaned.push('/');
                cleaned.push_str(part);
            }
        }
    }
    if cleaned.is_empty() {
        return Err(bad("a container cannot have the root cgroup"));
    }
    Ok(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified() -> Hierarchies {
        Hierarchies { root: "/cg".into(), unified: Some("/cg".into()), legacy: vec![] }
    }

    fn hybrid() -> Hierarchies {
        let hierarchy = |name: &str| Hierarchy {
            controllers: Controllers::from_list(name),
            mount: format!("/cg/{name}"),
        };
        Hierarchies {
            root: "/cg".into(),
            unified: Some("/cg/unified".into()),
            legacy: vec![hierarchy("devices"), hierarchy("memory"), hierarchy("cpu,cpuacct")],
        }
    }

    fn absolute(hierarchies: &Hierarchies, path: &str) -> Result<Location, Error> {
        assert!(path.starts_with('/'));
        Location::resolve(hierarchies, Some(path), "id")
    }

    fn relative(hierarchies: &Hierarchies, path: &str, own: &str, mounts: &str) -> Location {
        let own = OwnCgroups::new(own);
        Location::place(hierarchies, |h| own.base(hierarchies, h, mounts), &clean(path).unwrap())
    }

    #[test]
    fn absolute_paths_count_from_the_mount() {
        let location = absolute(&unified(), "/a//b/./c/").unwrap();
        let place = location.unified.as_ref().unwrap();
        assert_eq!(place.directory(), "/cg/a/b/c");
        assert_eq!((place.mount(), place.path()), ("/cg", "/a/b/c"));
        assert_eq!(place.ancestors().collect::<Vec<_>>(), ["/cg", "/cg/a", "/cg/a/b"]);
        assert!(location.is_unified());

        let location = absolute(&hybrid(), "/a").unwrap();
        assert_eq!(location.unified.as_ref().unwrap().directory(), "/cg/unified/a");
        assert_eq!(location.of(Controller::Cpuacct).unwrap().directory(), "/cg/cpu,cpuacct/a");
        assert!(location.of(Controller::Pids).is_none());
    }

    #[test]
    fn relative_paths_count_from_the_own_cgroup() {
        let own = "0::/user.slice/session.scope\n";
        let location = relative(&unified(), "x", own, "");
        assert_eq!(location.unified.unwrap().directory(), "/cg/user.slice/x");
        assert_eq!(relative(&unified(), "x", "0::/\n", "").unified.unwrap().directory(), "/cg/x");

        let own = "4:memory:/m/n\n3:cpu,cpuacct:/c\n2:devices:/\n0::/z/y\n";
        let location = relative(&hybrid(), "x/w", own, "");
        assert_eq!(location.unified.as_ref().unwrap().directory(), "/cg/unified/x/w");
        assert_eq!(location.of(Controller::Memory).unwrap().directory(), "/cg/memory/m/n/x/w");
        assert_eq!(location.of(Controller::Cpu).unwrap().directory(), "/cg/cpu,cpuacct/c/x/w");
        assert_eq!(location.of(Controller::Devices).unwrap().directory(), "/cg/devices/x/w");
    }

    #[test]
    fn a_mount_may_show_part_of_a_hierarchy() {
        let own = "4:memory:/docker/abc/inner\n2:devices:/docker/abcd\n";
        let mounts = "33 24 0:28 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n\
                      34 24 0:29 /docker/abc /cg/devices rw - cgroup cgroup rw,devices\n";
        let location = relative(&hybrid(), "x", own, mounts);
        assert_eq!(location.of(Controller::Memory).unwrap().directory(), "/cg/memory/inner/x");
        assert_eq!(location.of(Controller::Devices).unwrap().directory(), "/cg/devices/x");
    }

    #[test]
    fn outside_of_the_cgroup_namespace_counts_from_the_root() {
        let location = relative(&unified(), "x", "0::/../../other/y\n", "");
        assert_eq!(location.unified.unwrap().directory(), "/cg/x");
    }

    #[test]
    fn bad_paths_are_refused() {
        for path in ["/..", "/a/../b", "/a/..", "/", "//./", "/a\n", "/a\0b"] {
            let error = absolute(&unified(), path).unwrap_err();
            assert!(matches!(error, Error::BadPath { .. }), "{path:?}: {error}");
        }
        let error = Location::resolve(&unified(), Some("system.slice:runc:id"), "id").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cgroup path \"system.slice:runc:id\" is for the systemd cgroup driver: use --systemd-cgroup, \
             or a path such as /parent/name"
        );
        assert!(absolute(&unified(), "/odd:but:fine").is_ok());
    }

    /// In a cgroup namespace, as in Docker, kind or CI, the mount point is a cgroup of the host.
    #[test]
    fn the_root_of_a_namespace_may_have_a_limit() {
        let top = std::env::temp_dir().join(format!("dayfly-limits-{}", std::process::id()));
        let root = top.to_str().unwrap().to_string();
        std::fs::create_dir_all(top.join("parent/name")).unwrap();
        let hierarchies = Hierarchies { root: root.clone(), unified: Some(root), legacy: vec![] };
        let location = Location::resolve(&hierarchies, Some("/parent/name"), "id").unwrap();
        assert!(!location.limits_memory(), "the host's root has no such file");
        for at in ["", "parent", "parent/name"] {
            std::fs::write(top.join(at).join("memory.max"), "max\n").unwrap();
        }
        assert!(!location.limits_memory());
        for at in ["", "parent", "parent/name"] {
            std::fs::write(top.join(at).join("memory.max"), "67108864\n").unwrap();
            assert!(location.limits_memory(), "{at:?}");
            std::fs::write(top.join(at).join("memory.max"), "max\n").unwrap();
        }
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn survives_the_container_record() {
        let location = absolute(&hybrid(), "/a/b").unwrap();
        let bytes = postcard::to_allocvec(&location).unwrap();
        assert_eq!(postcard::from_bytes::<Location>(&bytes).unwrap(), location);
    }
}
