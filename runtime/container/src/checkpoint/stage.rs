//! Prepares the mounts that criu needs for a restore: the root filesystem as a mount, and each external mount as a
//! separate mount with the attributes of the configuration. All are in a new mount namespace, which this process enters
//! while it starts criu, and which criu inherits. The host's mount table does not contain the mounts; they disappear
//! with the last process in the namespace.
//!
//! criu restores the flags of a bind mount, but not if another mount of the same file system has the same flags (seen
//! with 4.2.1: a second masked file was writable). The prepared sources therefore have the configured flags already.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use plan::step::Propagation;
use proto::messages::criu::ExternalMount;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, chmod, fstat, mkdir, openat, readlinkat, stat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_bind_recursive, mount_change, move_mount, open_tree, unmount,
};
use spec::mount_options::MountOptions;
use spec::{Mount, Spec};
use sys::clone::CloneFlags;
use sys::inside;
use sys::mount::{MountAttr, attr, mount_setattr};
use sys::{Context, Errno};

use super::images::Directory;
use super::mounts::{self, MADE, MASK, Sort, attach, device_name, external, is_directory, sort};
use super::sharing::Copied;
use super::{c_string, mountinfo, wide};
use crate::directory::remove_directory;
use crate::{Error, Unless as _};

/// The link to this program.
const EXECUTABLE: &str = "/proc/self/exe";
/// The subdirectory of the container's directory in which the mounts are attached.
const NAME: &str = "restore";

/// A mount namespace with the mounts that criu needs. This process stays in it until it calls `leave`.
#[derive(Debug)]
pub(super) struct Stage {
    /// The original mount namespace of this process, and its working directory there.
    home: OwnedFd,
    here: OwnedFd,
    is_left: bool,
    /// The directory of the mounts. `expose` may move it.
    base: String,
    /// The path of the root filesystem, a mount point.
    pub root: String,
    /// The names and paths of external mounts.
    pub mounts: Vec<ExternalMount>,
    /// The mounts that a start would copy from the host.
    pub copied: Vec<Copied>,
}

/// The input from which a [`Stage`] is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub spec: &'a Spec<'a>,
    pub bundle: &'a str,
    pub rootfs: &'a str,
    pub cgroup: Option<&'a cgroup::Location>,
    /// The mounts that the plan's steps make: device nodes, and the root filesystem if it consists
    /// of layers.
    pub made: &'a launch::Mounts,
    /// Whether criu opens the mounts as root of a user namespace, and so needs permission to search directories.
    pub in_user_namespace: bool,
}

impl Stage {
    /// Enters a new mount namespace, and prepares all mounts below the container's own `directory`.
    pub fn enter(container: &OwnedFd, directory: &str, scene: Scene<'_>) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let home = openat(CWD, "/proc/self/ns/mnt", flags, Mode::empty())
            .context("open", "/proc/self/ns/mnt")?;
        let here = sys::fs::open_dir(CWD, ".").context("open", ".")?;
        let made = rustix::fs::mkdirat(container, NAME, Mode::from_raw_mode(0o700));
        made.unless(Errno::EXIST).context("mkdir", NAME)?;
        sys::ns::unshare(CloneFlags::NEWNS).context("unshare", "mount namespace")?;
        let (base, root) = (String::new(), String::new());
        let mut stage =
            Self { home, here, is_left: false, base, root, mounts: Vec::new(), copied: Vec::new() };
        stage.make(directory, scene)?;
        Ok(stage)
    }

    /// Returns a directory that every user may search, with a mount of each image. The restored processes read images
    /// themselves, after they have entered the user namespace. The id mapping is written in the meantime, so the
    /// processes read some images as the host's root without capabilities, and others as the container's root.
    ///
    /// # Errors
    /// If an image is not readable by users other than its owner.
    pub fn show_images(&self, images: &Directory) -> Result<Directory, Error> {
        let shown = format!("{}/images", self.base);
        mkdir(shown.as_str(), MADE).context("mkdir", shown.as_str())?;
        chmod(shown.as_str(), MADE).context("chmod", shown.as_str())?;
        for name in images.names()? {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
            let object = || format!("{}/{name}", images.path);
            let tree =
                open_tree(&images.fd, name.as_str(), flags).context("open_tree", object())?;
            let mode = Mode::from_raw_mode(fstat(&tree).context("fstat", object())?.st_mode);
            if !mode.contains(Mode::ROTH) {
                return Err(Error::Text(format!(
                    "{} has mode {:04o}: root of a user namespace has to read it, so it needs mode 0644 \
                     (in a directory with mode 0700)",
                    object(),
                    mode.as_raw_mode() & 0o7777
                )));
            }
            attach(tree.as_fd(), &format!("{shown}/{name}"))?;
        }
        let fd = sys::fs::open_dir(CWD, shown.as_str()).context("open", &images.path)?;
        Ok(Directory { fd, path: images.path.clone() })
    }

    /// If `scene` requires it, makes the mounts accessible to every user: moves them over the first directory of their
    /// path that not every user may search. The mounts then cover this directory, so criu cannot see what is below it.
    /// Returns the covered directory, if any.
    pub fn expose(&mut self, scene: Scene<'_>) -> Result<Option<String>, Error> {
        let place = match scene.in_user_namespace {
            true => closed_directory(&self.base)?,
            false => None,
        };
        let Some(place) = place else { return Ok(None) };
        let flags = MoveMountFlags::empty();
        move_mount(CWD, self.base.as_str(), CWD, place.as_str(), flags)
            .context("move_mount", place.as_str())?;
        let moved = |path: &str| match plan::below(path, &self.base) {
            Some(rest) => format!("{place}{rest}"),
            None => path.to_string(),
        };
        self.root = moved(&self.root);
        for mount in &mut self.mounts {
            mount.value = moved(&mount.value);
        }
        self.base.clone_from(&place);
        Ok(Some(place))
    }

    /// Makes a directory in which this program has the name `tar`. Returns `None` if that is not possible.
    pub fn tools(&self) -> Option<String> {
        let path = format!("{}/tools", self.base);
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        // The link itself leads to the original mount namespace.
        let program = readlinkat(CWD, EXECUTABLE, Vec::new()).ok()?;
        let program = open_tree(CWD, program.as_c_str(), flags).ok()?;
        let (found, own) = (fstat(&program).ok()?, stat(EXECUTABLE).ok()?);
        if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino) {
            return None;
        }
        mkdir(path.as_str(), MADE).ok()?;
        attach(program.as_fd(), &format!("{path}/tar")).ok()?;
        Some(path)
    }

    /// Makes a directory for criu's logs and sockets that no other restore uses.
    pub fn work(&self) -> Result<Directory, Error> {
        let path = format!("{}/work", self.base);
        mkdir(path.as_str(), Mode::RWXU).context("mkdir", path.as_str())?;
        Directory::open(&path)
    }

    /// Returns to the original mount namespace, and removes the directory that `enter` created.
    pub fn leave(mut self, container: &OwnedFd) -> Result<(), Error> {
        self.go_back()?;
        Ok(remove_directory(container.as_fd(), NAME).context("rmdir", NAME)?)
    }

    /// Returns to the original mount namespace.
    pub fn go_back(&mut self) -> Result<(), Error> {
        if !self.is_left {
            sys::ns::join(self.home.as_fd(), CloneFlags::NEWNS)
                .context("setns", "mount namespace")?;
            rustix::process::fchdir(&self.here).context("fchdir", "")?;
            self.is_left = true;
        }
        Ok(())
    }

    fn make(&mut self, directory: &str, scene: Scene<'_>) -> Result<(), Error> {
        // Mount events propagate from the host, and not to the host.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
            .context("mount MS_SLAVE|MS_REC", "/")?;
        let base = format!("{directory}/{NAME}");
        // criu requires a path without links.
        let base = {
            let found = sys::fs::open_dir(CWD, base.as_str()).context("open", base.as_str())?;
            mounts::path_of(found.as_fd())?
        };
        let data =
            if scene.in_user_namespace { c"mode=711,size=64k" } else { c"mode=700,size=64m" };
        mount("tmpfs", base.as_str(), "tmpfs", MountFlags::NOSUID, data)
            .context("mount tmpfs", base.as_str())?;
        mount_change(base.as_str(), MountPropagationFlags::PRIVATE)
            .context("mount MS_PRIVATE", base.as_str())?;
        self.root = format!("{base}/root");
        self.base = base;
        match scene.made.root() {
            Some(tree) => attach(tree, &self.root)?,
            None => {
                self.bind_root(&self.root, scene.rootfs)?;
                let changes = propagation_of(scene, None)?;
                let (place, source) = (String::from("/"), scene.rootfs.to_string());
                self.copied.push(Copied { place, source, changes });
            }
        }
        self.add_mask(scene)?;
        self.make_mounts(scene)?;
        if scene.spec.root.as_ref().is_some_and(|root| root.readonly) {
            let root = sys::fs::open_dir(CWD, self.root.as_str()).context("open", "root")?;
            let attr = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
            mount_setattr(root.as_fd(), false, &attr).context("mount_setattr", "root")?;
        }
        wide::make_source(&self.root, &mountinfo::read("/proc/self/mountinfo")?)
    }

    fn bind_root(&self, place: &str, rootfs: &str) -> Result<(), Error> {
        mkdir(place, MADE).context("mkdir", place)?;
        Ok(mount_bind_recursive(rootfs, place).context("bind", rootfs)?)
    }

    /// Attaches the mount that covers masked files. Through this mount, the container's root cannot
    /// change the device.
    fn add_mask(&mut self, scene: Scene<'_>) -> Result<(), Error> {
        let Some(tree) = scene.made.mask() else { return Ok(()) };
        let place = format!("{}/null", self.base);
        attach(tree, &place)?;
        self.mounts.push(external(MASK, place));
        Ok(())
    }

    /// Attaches the device nodes, and creates missing mount points for them.
    fn add_devices(&mut self, scene: Scene<'_>, root: BorrowedFd<'_>) -> Result<(), Error> {
        for (number, (path, tree)) in scene.made.devices().enumerate() {
            let path = path.to_string_lossy();
            if !is_in_own(scene, &path) {
                point(root, path.trim_start_matches('/'), Some(tree))?;
            }
            let place = format!("{}/device-{number}", self.base);
            attach(tree, &place)?;
            self.mounts.push(external(device_name(&path), place));
        }
        Ok(())
    }

    /// Creates missing mount points in the root filesystem, and prepares the sources of external mounts. Follows the
    /// order of the configuration, because a mount point may be inside an earlier bind mount.
    fn make_mounts(&mut self, scene: Scene<'_>) -> Result<(), Error> {
        let Scene { spec, bundle, rootfs, cgroup, .. } = scene;
        let points = format!("{}/points", self.base);
        self.bind_root(&points, &self.root)?;
        let root = sys::fs::open_dir(CWD, points.as_str()).context("open", points.as_str())?;
        for (index, mount) in spec.mounts.iter().enumerate() {
            let destination = mount.destination.as_str();
            let recursive = match sort(spec, bundle, rootfs, index) {
                Sort::Remount => continue,
                Sort::Bind { recursive } => Some(recursive),
                Sort::Own | Sort::Cgroups => None,
            };
            let options = MountOptions::parse(&mount.options);
            let source = match recursive {
                Some(_) => mounts::source(mount, bundle)?,
                None => String::new(),
            };
            let tree = recursive.map(|recursive| copy(&source, recursive)).transpose()?;
            // If the mount point is in a file system whose contents criu restores, criu creates the mount point, too.
            let place = match is_in_own(scene, destination) {
                true => destination.to_string(),
                false => {
                    let point = point(
                        root.as_fd(),
                        mount.destination.relative(),
                        tree.as_ref().map(AsFd::as_fd),
                    )?;
                    let path = mounts::path_of(point.as_fd())?;
                    if let Some(recursive) = recursive {
                        let shown = copy(&source, recursive)?;
                        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
                            | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
                        move_mount(&shown, c"", &point, c"", flags)
                            .context("move_mount", destination)?;
                    }
                    plan::below(&path, &points).unwrap_or(destination).to_string()
                }
            };
            if let Some(tree) = tree {
                give(&tree, &options, destination)?;
                let changes = propagation_of(scene, Some(mount))?;
                self.add_source(index, tree.as_fd(), Copied { place, source, changes }, scene)?;
            } else if mounts::binds_cgroups(spec)
                && sort(spec, bundle, rootfs, index) == Sort::Cgroups
            {
                let changes = propagation_of(scene, Some(mount))?;
                let table = mountinfo::read("/proc/self/mountinfo")?;
                for bound in cgroup.iter().flat_map(|at| mounts::cgroups(at, &place)) {
                    wide::make_source(&bound.value, &table)?;
                    let (place, source) = (bound.key.clone(), bound.value.clone());
                    self.copied.push(Copied { place, source, changes: changes.clone() });
                    self.mounts.push(bound);
                }
            }
        }
        self.add_devices(scene, root.as_fd())?;
        drop(root);
        unmount(points.as_str(), UnmountFlags::DETACH).context("umount", points.as_str())?;
        Ok(())
    }

    /// Attaches the source of an external mount, and adds this mount and all mounts below it to the list for criu.
    fn add_source(
        &mut self,
        index: usize,
        tree: BorrowedFd<'_>,
        copied: Copied,
        scene: Scene<'_>,
    ) -> Result<(), Error> {
        let source = format!("{}/{index}", self.base);
        attach(tree, &source)?;
        let table = mountinfo::read("/proc/self/mountinfo")?;
        let (ours, others): (Vec<_>, Vec<_>) =
            table.into_iter().partition(|line| plan::is_at_or_below(&line.point, &self.base));
        for mount in ours {
            if let Some(below) = plan::below(&mount.point, &source) {
                let place = format!("{}/wide-{}", self.base, self.mounts.len());
                let path = wide::source(&mount, &others, &place, scene.in_user_namespace)?;
                let copied = copied.below(below);
                self.mounts.push(external(copied.place.as_str(), path));
                self.copied.push(copied);
            }
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.go_back();
    }
}

/// Returns the changes of propagation that a start makes to a bind mount or, without `mount`, to the root filesystem.
fn propagation_of(scene: Scene<'_>, mount: Option<&Mount<'_>>) -> Result<Vec<Propagation>, Error> {
    let linux = scene.spec.linux.as_ref();
    Ok(linux.map_or(Ok(Vec::new()), |linux| plan::propagation_of(linux, mount))?)
}

/// Returns whether the nearest mount above a path is a file system that criu restores.
fn is_in_own(scene: Scene<'_>, destination: &str) -> bool {
    let Scene { spec, bundle, rootfs, .. } = scene;
    let above = spec.mounts.iter().enumerate().filter(|(_, other)| {
        plan::below(destination, other.destination.as_str()).is_some_and(|rest| !rest.is_empty())
    });
    let sorts = above.map(|(at, other)| (other, sort(spec, bundle, rootfs, at)));
    let sorts = sorts.filter(|(_, sort)| *sort != Sort::Remount);
    let nearest = sorts.max_by_key(|(other, _)| other.destination.as_str().len());
    matches!(nearest, Some((_, Sort::Own | Sort::Cgroups)))
}

/// Returns the first directory in `path` that not every user may search, if there is one.
/// Directories inside mounts need not be checked, because `path` is the mount point of a file
/// system that this process has made.
fn closed_directory(path: &str) -> Result<Option<String>, Error> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    for end in ends {
        let directory = path.get(..end).unwrap_or_default();
        let mode = stat(directory).context("stat", directory)?.st_mode;
        if !Mode::from_raw_mode(mode).contains(Mode::XOTH) {
            return Ok(Some(directory.to_string()));
        }
    }
    Ok(None)
}

/// Returns a detached copy of a mount of the host.
fn copy(source: &str, recursive: bool) -> Result<OwnedFd, Error> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(open_tree(CWD, source, flags).context("open_tree", source)?)
}

/// Sets the configured attributes on `tree`, a detached copy of a mount.
fn give(tree: &OwnedFd, options: &MountOptions<'_>, destination: &str) -> Result<(), Error> {
    for (change, recursive) in [(options.attr, false), (options.recursive_attr, true)] {
        let attr = MountAttr { set: change.set, clear: change.clear, ..MountAttr::default() };
        if !attr.is_empty() {
            mount_setattr(tree.as_fd(), recursive, &attr).context("mount_setattr", destination)?;
        }
    }
    Ok(())
}

/// Opens a mount point, and creates it if it is missing: as a directory, unless the mounted tree is a file.
fn point(root: BorrowedFd<'_>, path: &str, tree: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Error> {
    let name = c_string(path)?;
    let is_directory = match tree {
        Some(tree) => is_directory(tree)?,
        None => true,
    };
    let made = match is_directory {
        true => inside::make_directories(root, &name, MADE),
        false => inside::make_file(root, &name, MADE, MADE),
    };
    Ok(made.context("make mount point", path)?)
}
