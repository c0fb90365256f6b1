//! The attached modes: the layers are attached on the host while mount(2) mounts overlayfs.
//!
//! The mount points have short names in the subdirectory `mnt` of the recipe's directory. While mount(2) runs, `mnt` is
//! the working directory, so that the names of 500 layers fit in the option string of mount(2). Layers below a common
//! mount point get symbolic links with short names only if their own paths do not fit: a link for each of 50 layers
//! takes longer than the mounts do.
//!
//! The overlay is then cloned with open_tree(2), and the attached overlay and layers are unmounted.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode as Permissions, OFlags, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, unmount,
};
use rustix::process::fchdir;
use sys::Context;
use sys::fs::{c_path, open_dir};
use sys::mount::{MountAttr, clone_with};

use crate::files::Etc;
use crate::layers::Layer;
use crate::look;
use crate::options::{Recipe, Upper};
use crate::remove::{make_directory, names, open_directory, remove_all};
use crate::top::Root;

/// The directory of the mount points.
pub(crate) const PLACES: &CStr = c"mnt";
/// The mount point of the overlay.
const OVERLAY: &CStr = c"root";
/// The mount point of the tmpfs for changes.
const TMPFS: &str = "t";
/// The maximum number of bytes of the option string that mount(2) copies.
const ROOM: usize = 4095;

/// Counts of operations on the host's mount table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The number of mounts attached.
    pub attached: u32,
    /// The number of mounts detached.
    pub detached: u32,
}

/// The mounts attached on the host.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// The directory `mnt`.
    places: Option<OwnedFd>,
    /// Names of the mount points in use.
    mounts: Vec<String>,
    /// The paths of the layers relative to `mnt`, top first.
    layers: Vec<String>,
    parents: usize,
    pub counts: Counts,
}

impl Attached {
    /// Creates and opens the subdirectory `mnt`, which contains the mount points, in a directory.
    pub fn open(&mut self, directory: &CStr) -> Result<(), sys::Error> {
        let object = || directory.to_string_lossy();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = openat(CWD, directory, flags, Permissions::empty()).context("open", object())?;
        make_directory(&at, PLACES, Permissions::RWXU).context("mkdir mnt in", object())?;
        let places = openat(&at, PLACES, flags, Permissions::empty());
        self.places = Some(places.context("open mnt in", object())?);
        Ok(())
    }

    fn places(&self) -> Result<BorrowedFd<'_>, sys::Error> {
        self.places.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF).context("open", "mnt")
    }

    /// Attaches the cloned mount of a layer at the next mount point.
    pub fn attach_layer(&mut self, tree: OwnedFd) -> Result<(), sys::Error> {
        let name = self.short_name();
        self.layers.push(name.clone());
        self.attach(tree.as_fd(), name)
    }

    /// Returns the short name of the next layer: its number.
    fn short_name(&self) -> String {
        format!("{}", self.layers.len())
    }

    /// Attaches the cloned mount of a directory of layers at the next mount point.
    pub fn attach_parent(&mut self, tree: BorrowedFd<'_>) -> Result<(), sys::Error> {
        let name = parent_name(self.parents);
        self.parents += 1;
        self.attach(tree, name)
    }

    /// Attaches the tmpfs for changes.
    pub fn attach_tmpfs(&mut self, tree: BorrowedFd<'_>) -> Result<(), sys::Error> {
        self.attach(tree, String::from(TMPFS))
    }

    /// Adds the layers below the attached mounts of their parent directories. If their paths do not fit in the option
    /// string, symbolic links with short names stand for them.
    pub fn add_layers(&mut self, recipe: &Recipe) -> Result<(), crate::Error> {
        let paths: Vec<String> = recipe.layers.stack.iter().map(path_of).collect();
        if fit(&paths, ROOM.saturating_sub(data(recipe, &[], true)?.as_bytes().len())) {
            self.layers = paths;
            return Ok(());
        }
        for path in &paths {
            let name = self.short_name();
            match symlinkat(path.as_str(), self.places()?, name.as_str()) {
                Ok(()) | Err(Errno::EXIST) => self.layers.push(name),
                Err(errno) => return Err(sys::Error::new("symlink", name, errno).into()),
            }
        }
        Ok(())
    }

    fn attach(&mut self, tree: BorrowedFd<'_>, name: String) -> Result<(), sys::Error> {
        let places = self.places()?;
        let c_name = c_path(name.as_str()).context("mkdir", &name)?;
        make_directory(places, &c_name, Permissions::RWXU).context("mkdir", &name)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(tree, c"", places, &c_name, flags).context("move_mount", &name)?;
        self.mounts.push(name);
        self.counts.attached += 1;
        Ok(())
    }

    /// Returns the owner and permissions of the top layer's root directory.
    pub fn top(&self) -> Result<Root, sys::Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = self.layers.first().map_or("0", String::as_str);
        let top = openat(self.places()?, top, flags, Permissions::empty());
        Root::of(top.context("open", "top layer")?.as_fd())
    }

    /// Returns the state of /etc in the layers.
    pub fn etc(&self) -> Result<Etc, sys::Error> {
        let mut etc = Etc::default();
        for layer in &self.layers {
            let name = c_path(format!("{layer}/etc")).context("look for etc in", layer)?;
            let stat = look::look(self.places()?, &name).context("look for etc in", "layer")?;
            etc = etc.after(stat.as_ref());
        }
        Ok(etc)
    }

    /// Mounts the overlay on the host, and returns a detached clone of this mount. [`Self::detach`] unmounts the
    /// overlay itself.
    pub fn mount_overlay(
        &mut self,
        recipe: &Recipe,
        filler: bool,
    ) -> Result<OwnedFd, crate::Error> {
        let data = data(recipe, &self.layers, filler)?;
        let here = open_dir(CWD, c".").context("open", ".")?;
        make_directory(self.places()?, OVERLAY, Permissions::RWXU).context("mkdir", "root")?;
        fchdir(self.places()?).context("fchdir", "mnt")?;
        let (source, is_read_only) = recipe.source();
        let flags = if is_read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        let mounted = mount(source, OVERLAY, c"overlay", flags, data.as_c_str());
        let tree = mounted.and_then(|()| {
            self.mounts.push(String::from("root"));
            self.counts.attached += 1;
            // The overlay is shared if the mount below it is, and pivot_root(2) refuses a shared root.
            clone_with(CWD, OVERLAY, OpenTreeFlags::empty(), &MountAttr::PRIVATE)
        });
        let back = fchdir(here);
        let tree = tree.context("mount", "overlay")?;
        back.context("fchdir", "back")?;
        Ok(tree)
    }

    /// Unmounts everything that this object has attached, in reverse order.
    pub fn detach(&mut self) -> Result<(), sys::Error> {
        let Some(places) = &self.places else { return Ok(()) };
        while let Some(name) = self.mounts.last() {
            unmount_at(places.as_fd(), name).context("umount", name)?;
            self.counts.detached += 1;
            self.mounts.pop();
        }
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// Returns the path of a layer below the mount point of its parent directory.
fn path_of(layer: &Layer) -> String {
    format!("{}/{}", parent_name(layer.parent), layer.name.to_string_lossy())
}

/// Returns whether these paths can be given to overlayfs as they are, in this number of bytes.
fn fit(paths: &[String], room: usize) -> bool {
    let is_plain = |path: &String| !path.contains(['\\', ',', ':']);
    let length: usize = paths.iter().map(|path| path.len() + 1).sum();
    length <= room && paths.iter().all(is_plain)
}

fn parent_name(number: usize) -> String {
    format!("p{number}")
}

/// Unmounts the mounts that an assembly has left in its directory, and returns their number, which may be 0.
///
/// # Errors
/// Those of umount2(2).
pub fn unmount_below(directory: &CStr) -> Result<usize, sys::Error> {
    let mut count = 0;
    let Ok(at) = open_directory(CWD.as_fd(), directory) else { return Ok(count) };
    let Ok(places) = open_directory(at.as_fd(), PLACES) else { return Ok(count) };
    for name in names(places.as_fd()).context("read", directory.to_string_lossy())? {
        let Ok(name) = name.to_str() else { continue };
        loop {
            match unmount_at(places.as_fd(), name) {
                // Several mounts may be stacked here.
                Ok(()) => count += 1,
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(errno) => {
                    let object = format!("{}/mnt/{name}", directory.to_string_lossy());
                    return Err(sys::Error::new("umount", object, errno));
                }
            }
        }
    }
    Ok(count)
}

/// Removes the mount points that an assembly in an attached mode has created in its directory.
///
/// # Errors
/// Those of umount2(2) and unlink(2).
pub fn remove_places(directory: &CStr) -> Result<(), sys::Error> {
    unmount_below(directory)?;
    let places = format!("{}/{}", directory.to_string_lossy(), PLACES.to_string_lossy());
    remove_all(&c_path(places.as_str()).context("remove", &places)?)
}

/// Unmounts `name` in a directory. umount2(2) accepts only paths, so the directory's descriptor is given as a path in
/// this process's procfs.
pub(crate) fn unmount_at(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    use rustix::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    unmount(path.as_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
}

/// Returns the option string of mount(2), with paths relative to `mnt`.
fn data(recipe: &Recipe, layers: &[String], filler: bool) -> Result<CString, crate::Error> {
    let mut data = format!("lowerdir={}", layers.join(":"));
    if filler {
        data.push_str(":../empty");
    }
    match &recipe.upper {
        Upper::None => {}
        Upper::Given { upper, work } => {
            let escaped = |path: &CString| escaped(&path.to_string_lossy());
            let _ = write!(data, ",upperdir={},workdir={}", escaped(upper), escaped(work));
        }
        Upper::Directory => data.push_str(",upperdir=../upper,workdir=../work"),
        Upper::Tmpfs { .. } => data.push_str(",upperdir=t/upper,workdir=t/work"),
    }
    for (key, value) in recipe.options() {
        let _ = write!(data, ",{}", key.to_string_lossy());
        match value.map(|value| value.to_string_lossy()) {
            Some(value) if value.contains(',') => _ = write!(data, "=\"{value}\""),
            Some(value) => _ = write!(data, "={value}"),
            None => {}
        }
    }
    if data.len() > ROOM {
        return Err(sys::Error::new("mount", "overlay (options too long)", Errno::TOOBIG).into());
    }
    crate::layers::c_string(&data)
}

/// Escapes a path for overlayfs's option string.
fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for character in path.chars() {
        if matches!(character, '\\' | ',' | ':') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Foreign, Layers, Mode};

    fn recipe(layers: usize, upper: Upper) -> Recipe {
        let lines: String = (0..layers).map(|n| format!("/l/{n}\n")).collect();
        Recipe {
            mode: Mode::Parent,
            layers: Layers::of_store(&lines).unwrap(),
            upper,
            directory: c"/d".into(),
            root: None,
            volatile: true,
            label: None,
            user_xattr: false,
            foreign: None,
            files: Vec::new(),
        }
    }

    fn numbers(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{number}")).collect()
    }

    #[test]
    fn links_only_where_paths_do_not_fit() {
        let paths = |line: &str, count: usize| -> Vec<String> {
            let lines: String = (0..count).map(|n| format!("/l/{n:03}{line}\n")).collect();
            Layers::of_store(&lines).unwrap().stack.iter().map(path_of).collect()
        };
        assert_eq!(paths("/fs", 2), ["p0/001/fs", "p0/000/fs"]);
        assert!(fit(&paths("/fs", 300), 3000));
        assert!(!fit(&paths("/fs", 301), 3000));
        for special in ["a:b", "a,b", "a\\b"] {
            assert!(!fit(&paths(special, 2), 3000));
        }
    }

    #[test]
    fn options_as_the_kernel_reads_them() {
        let mut recipe = recipe(2, Upper::Tmpfs { size: None });
        let text =
            "lowerdir=0:1,upperdir=t/upper,workdir=t/work,index=off,metacopy=on,redirect_dir=on";
        assert_eq!(data(&recipe, &numbers(2), false).unwrap().to_str(), Ok(text));
        recipe.upper = Upper::None;
        recipe.label = Some(c"system_u:object_r:x_t:s0:c1,c2".into());
        let text = "lowerdir=0:../empty,index=off,context=\"system_u:object_r:x_t:s0:c1,c2\"";
        assert_eq!(data(&recipe, &numbers(1), true).unwrap().to_str(), Ok(text));
    }
    #[test]
    fn somebody_elses_overlay() {
        let upper = Upper::Given { upper: c"/s/a,b".into(), work: c"/s/w:\\".into() };
        let mut recipe = recipe(2, upper);
        recipe.foreign = Some(Foreign {
            source: c"overlay".into(),
            options: vec![
                (c"index".into(), Some(c"off".into())),
                (c"userxattr".into(), None),
                (c"context".into(), Some(c"u:r:t:s0:c1,c2".into())),
            ],
            ..Foreign::default()
        });
        let text = "lowerdir=0:1,upperdir=/s/a\\,b,workdir=/s/w\\:\\\\,index=off,userxattr,\
            context=\"u:r:t:s0:c1,c2\"";
        assert_eq!(data(&recipe, &numbers(2), false).unwrap().to_str(), Ok(text));
    }
}
