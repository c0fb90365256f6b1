//! The external mounts of a container. criu does not save these mounts, but finds them by name at the restore.
//!
//! The following mounts are external: bind mounts of the configuration with the mounts below them, bind mounts of
//! cgroup v1, the device that covers masked files, and device nodes that are mounts. A bind mount whose source is in the
//! container is not external. As with runc, the names are the mount points in the container, with links resolved.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::criu::ExternalMount;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdir, openat, readlink};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};
use spec::mount_options::MountOptions;
use spec::{InRoot, Mount, NamespaceKind, Spec};
use sys::Context;
use sys::inside::{Links, open};

use super::process::Process;
use super::{c_string, mountinfo};
use crate::Error;

#[cfg(test)]
mod tests;

/// The name in the images of the device that covers masked files.
pub(super) const MASK: &str = "/dev/null";

/// The permissions of created mount points; init uses the same.
pub(super) const MADE: Mode = Mode::from_raw_mode(0o755);

/// The way in which criu handles a mount of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A bind mount, which is external.
    Bind {
        /// Whether the mounts below the source are included.
        recursive: bool,
    },
    /// A mount of type `cgroup`.
    Cgroups,
    /// A mount that criu restores.
    Own,
    /// A remount, which changes another mount.
    Remount,
}

/// Returns the way in which criu handles the configuration's mount with this index.
pub(super) fn sort(spec: &Spec<'_>, bundle: &str, rootfs: &str, index: usize) -> Sort {
    let Some(mount) = spec.mounts.get(index) else { return Sort::Own };
    let options = MountOptions::parse(&mount.options);
    if options.remount {
        return Sort::Remount;
    }
    if options.is_bind(&mount.kind) {
        return match is_from_inside(spec, bundle, rootfs, index) {
            true => Sort::Own,
            false => Sort::Bind { recursive: options.bind.is_none_or(|bind| bind.recursive) },
        };
    }
    if mount.kind == "cgroup" || mount.kind == "cgroup2" { Sort::Cgroups } else { Sort::Own }
}

/// Returns whether the source of a bind mount is in the root filesystem, at a path that an earlier mount covers. Such a
/// source is opened in the container (`bind.rs` of the plan).
fn is_from_inside(spec: &Spec<'_>, bundle: &str, rootfs: &str, index: usize) -> bool {
    let source = spec.mounts.get(index).and_then(|mount| mount.source.as_deref());
    let source = source.map(|source| plan::absolute(bundle, source));
    let path = source.as_deref().and_then(|source| plan::below(source, rootfs));
    let Some(path) = path else { return false };
    let mut earlier = spec.mounts.iter().take(index);
    earlier.any(|mount| plan::is_at_or_below(path, mount.destination.as_str()))
}

/// Returns a mount's source on the host.
pub(super) fn source(mount: &Mount<'_>, bundle: &str) -> Result<String, Error> {
    match mount.source.as_deref() {
        Some(source) => Ok(plan::absolute(bundle, source)),
        None => Err(Error::Text(format!("bind mount {}: source is missing", mount.destination))),
    }
}

/// Returns whether cgroups appear in the container as bind mounts, because it has no cgroup namespace.
pub(super) fn binds_cgroups(spec: &Spec<'_>) -> bool {
    let linux = spec.linux.as_ref();
    linux.is_none_or(|linux| linux.namespace(NamespaceKind::Cgroup).is_none())
}

/// Returns the bind mounts of cgroups that a container has at `place`, as names and paths on the host.
pub(super) fn cgroups(location: &cgroup::Location, place: &str) -> Vec<ExternalMount> {
    if let (Some(unified), true) = (&location.unified, location.is_unified()) {
        return Vec::from([external(place, unified.mount())]);
    }
    let bound = location.legacy.iter().map(|legacy| {
        let name = legacy.place.mount().rsplit('/').next().unwrap_or_default();
        external(format!("{place}/{name}"), legacy.place.directory())
    });
    bound.collect()
}

/// Returns the name in the images of a device node that is a mount. As with runc, the name is the
/// path, except for the path that is the name of the mask ([`MASK`]).
pub(super) fn device_name(path: &str) -> String {
    match path {
        MASK => "device /dev/null".to_string(),
        path => path.to_string(),
    }
}

pub(super) fn external(key: impl Into<String>, value: impl Into<String>) -> ExternalMount {
    ExternalMount { key: key.into(), value: value.into() }
}

/// Returns the external mounts of a running container, for a dump.
///
/// # Errors
/// If the container's files in /proc cannot be read.
pub(super) fn of_running(
    spec: &Spec<'_>,
    (bundle, rootfs): (&str, &str),
    location: Option<&cgroup::Location>,
    process: &Process,
) -> Result<Vec<ExternalMount>, Error> {
    let root = process.root()?;
    let points = mountinfo::read(&process.path("mountinfo"))?.into_iter().map(|line| line.point);
    let points: Vec<String> = points.collect();
    let mut places = Vec::with_capacity(spec.mounts.len());
    for (index, mount) in spec.mounts.iter().enumerate() {
        let sort = sort(spec, bundle, rootfs, index);
        let place = place_of(&root, &mount.destination)?;
        places.push((place.unwrap_or_else(|| mount.destination.as_str().to_string()), sort));
    }
    let mut mounts = Vec::new();
    for (place, sort) in &places {
        if let (Sort::Cgroups, true, Some(location)) = (sort, binds_cgroups(spec), location) {
            let bound = cgroups(location, place).into_iter();
            mounts.extend(bound.map(|mount| external(mount.key.clone(), mount.key)));
        }
    }
    let linux = spec.linux.as_ref();
    let own = linux.map(|linux| &linux.readonly_paths[..]).unwrap_or_default();
    for path in linux.map(|linux| &linux.masked_paths[..]).unwrap_or_default() {
        if is_masked_file(&root, path)? {
            mounts.push(external(path.as_str(), MASK));
        }
    }
    for path in plan::device_paths(spec) {
        let place = place_of(&root, &path)?.unwrap_or_default();
        if points.contains(&place) && !is_outside(&places, &place) {
            let name = device_name(path.as_str());
            mounts.push(external(place, name));
        }
    }
    for point in points {
        let is_known = mounts.iter().any(|mount| mount.key == point);
        if !is_known
            && !own.iter().any(|path| path.as_str() == point)
            && is_outside(&places, &point)
        {
            mounts.push(external(point.clone(), point));
        }
    }
    Ok(mounts)
}

/// Returns whether a mount point belongs to a bind mount: whether the configuration's nearest mount at or above the
/// point is a bind mount that includes the point.
fn is_outside(places: &[(String, Sort)], point: &str) -> bool {
    let above = places
        .iter()
        .filter(|(place, sort)| *sort != Sort::Remount && plan::is_at_or_below(point, place));
    match above.max_by_key(|(place, _)| place.len()) {
        Some((place, Sort::Bind { recursive })) => *recursive || place == point,
        _ => false,
    }
}

/// Resolves a path in a root. Returns the path in that root, or `None` if nothing exists there.
fn place_of(root: &OwnedFd, path: &InRoot<'_>) -> Result<Option<String>, Error> {
    let Some(found) = find(root, path)? else { return Ok(None) };
    path_of(rustix::fd::AsFd::as_fd(&found)).map(Some)
}

fn find(root: &OwnedFd, path: &InRoot<'_>) -> Result<Option<OwnedFd>, Error> {
    let name = c_string(path.relative())?;
    match open(rustix::fd::AsFd::as_fd(root), &name, OFlags::PATH, Links::Follow) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(sys::Error::new("open", path.as_str(), errno).into()),
    }
}

/// Returns the path of an open file from /proc/self/fd: relative to the root of this process, or, if the file is in
/// another mount namespace, to the root of that namespace.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> Result<String, Error> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = readlink(link.as_str(), Vec::new()).context("readlink", link.as_str())?;
    path.into_string().map_err(|_| Error::text("a path is not UTF-8"))
}

fn is_masked_file(root: &OwnedFd, path: &InRoot<'_>) -> Result<bool, Error> {
    let Some(found) = find(root, path)? else { return Ok(false) };
    let mode = fstat(&found).context("fstat", path.as_str())?.st_mode;
    Ok(FileType::from_raw_mode(mode) != FileType::Directory)
}

pub(super) fn is_directory(fd: BorrowedFd<'_>) -> Result<bool, Error> {
    let mode = fstat(fd).context("fstat", "mount")?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Directory)
}

/// Attaches a detached mount at a path that does not exist yet.
pub(super) fn attach(tree: BorrowedFd<'_>, place: &str) -> Result<(), Error> {
    match is_directory(tree)? {
        true => mkdir(place, MADE).context("mkdir", place)?,
        false => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            openat(CWD, place, flags, MADE).map(drop).context("create", place)?;
        }
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(tree, c"", CWD, place, flags).context("move_mount", place)?)
}
