//! Assembly of a root filesystem, step by step.
//!
//! For each mount that has layers, the assembly makes one detached copy of the mount, from the directory that contains
//! the layers. A user namespace that exists only for this purpose maps the copy's ids. Each layer is opened below the
//! copy, passed to overlayfs, and closed. The overlay stays a detached mount, held by a descriptor, until init attaches
//! it in the container's mount namespace.
//!
//! The parent keeps its descriptors of the copies until the container runs. Init has inherited them, and must not be
//! the process that closes the last one, because that close waits for an RCU grace period.
//!
//! Changes are written to `upper` in the container's directory. This directory is not id-mapped: its files belong to
//! the host's ids of the container. If the root is read-only, a small tmpfs provides mount points that the layers lack.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode as Permissions};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};
use sys::Context;
use sys::mount::{MountAttr, MountAttrFlags, attr, mount_setattr, propagation};

use crate::attached::{Attached, Counts};
use crate::files::{ETC, Etc};
use crate::layers::{open_directory, open_layer};
use crate::options::{Foreign, Recipe};
use crate::remove::make_directory;
use crate::top::Root;
use crate::upper::{self, Changes};
use crate::{Error, Mode, Upper, copy, look};

/// The result of a finished assembly, besides the root filesystem.
#[derive(Debug)]
pub struct Assembled {
    /// The number of operations on the host's mount table.
    pub counts: Counts,
    /// Clones of the mounts of the layers' parent directories. They should be closed only after the container has
    /// started, because the kernel waits for an RCU grace period when a detached mount is closed.
    pub copies: Vec<OwnedFd>,
}

/// A root filesystem under construction. Dropping it unmounts the mounts that it attached on the host.
#[derive(Debug)]
pub struct Assembly<'a> {
    recipe: &'a Recipe,
    /// Clones of the mounts of the layers' parent directories, in the order of
    /// [`Layers::parents`](crate::Layers::parents).
    parents: Vec<OwnedFd>,
    /// The filesystem context of overlayfs.
    context: Option<OwnedFd>,
    /// Owner and permissions of the root directory.
    top: Option<Root>,
    /// The state of /etc in the layers; used only if files are added to it.
    etc: Etc,
    changes: Option<Changes>,
    attached: Attached,
}

impl<'a> Assembly<'a> {
    /// Returns an assembly without layers.
    pub fn new(recipe: &'a Recipe) -> Self {
        Self {
            recipe,
            parents: Vec::new(),
            context: None,
            top: None,
            etc: Etc::default(),
            changes: None,
            attached: Attached::default(),
        }
    }

    /// Clones the mounts of the layers' parent directories (in the mode `per-layer`, of each layer), id-mapped by the
    /// user namespace if one is given. Modes that need attached mounts attach the clones on the host. Without a user
    /// namespace, the modes `fd` and `path` only open the directories. The mode `copy` does nothing here.
    ///
    /// # Errors
    /// EINVAL for a filesystem that does not support idmapped mounts; errors of open_tree(2) and move_mount(2).
    pub fn map_layers(&mut self, user_namespace: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let Recipe { mode, layers, directory, .. } = self.recipe;
        if self.recipe.is_attached() {
            self.attached.open(directory)?;
        }
        match mode {
            Mode::Fd | Mode::Path => {
                for parent in &layers.parents {
                    let tree = match user_namespace {
                        Some(user_namespace) => mapped(parent, Some(user_namespace))?,
                        None => open_directory(parent).context("open", parent.to_string_lossy())?,
                    };
                    if *mode == Mode::Path && user_namespace.is_some() {
                        self.attached.attach_parent(tree.as_fd())?;
                    }
                    self.parents.push(tree);
                }
            }
            Mode::Parent => {
                for parent in &layers.parents {
                    self.attached.attach_parent(mapped(parent, user_namespace)?.as_fd())?;
                }
                self.attached.add_layers(self.recipe)?;
            }
            Mode::PerLayer => {
                for layer in &layers.stack {
                    let path = layers.path_of(layer)?;
                    self.attached.attach_layer(mapped(&path, user_namespace)?)?;
                }
            }
            Mode::Copy => {}
        }
        if mode.is_attached() {
            self.top = Some(self.attached.top()?);
            if !self.recipe.files.is_empty() {
                self.etc = self.attached.etc()?;
            }
        }
        Ok(())
    }

    /// Opens each layer and passes it to overlayfs, the top layer first. Only one descriptor is open at a time.
    ///
    /// # Errors
    /// If a layer does not exist or is not a directory; errors of overlayfs.
    pub fn open_layers(&mut self) -> Result<(), Error> {
        let context =
            fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC).context("fsopen", "overlay")?;
        let by_path = self.recipe.mode == Mode::Path;
        for layer in &self.recipe.layers.stack {
            let object = || layer.name.to_string_lossy();
            let parent = self.parents.get(layer.parent).ok_or(Errno::BADF);
            let opened = parent.and_then(|parent| open_layer(parent.as_fd(), &layer.name));
            let opened = opened.context("open layer", object())?;
            if self.top.is_none() {
                self.top = Some(Root::of(opened.as_fd())?);
            }
            if !self.recipe.files.is_empty() {
                let stat = look::look(opened.as_fd(), ETC).context("look for etc in", object())?;
                self.etc = self.etc.after(stat.as_ref());
            }
            set_directory(context.as_fd(), c"lowerdir+", opened.as_fd(), by_path)?;
        }
        if self.needs_filler() {
            let filler = self.filler()?;
            set_directory(context.as_fd(), c"lowerdir+", filler.as_fd(), by_path)?;
        }
        self.context = Some(context);
        Ok(())
    }

    /// Returns whether an empty layer must be added, because overlayfs needs at least two directories.
    fn needs_filler(&self) -> bool {
        self.recipe.upper == Upper::None && self.recipe.layers.len() == 1
    }

    fn filler(&self) -> Result<OwnedFd, Error> {
        let object = || format!("{}/empty", self.recipe.directory.to_string_lossy());
        let directory = open_directory(&self.recipe.directory).context("open", object())?;
        let mode = Permissions::from_raw_mode(0o755);
        make_directory(&directory, c"empty", mode).context("mkdir", object())?;
        Ok(open_layer(directory.as_fd(), c"empty").context("open", object())?)
    }

    /// Creates the upper layer. Its root gets the owner and mode of the top layer's root.
    ///
    /// # Errors
    /// Those of mkdir(2), and of creating a tmpfs.
    pub fn make_upper(&mut self) -> Result<(), Error> {
        let Some(top) = &self.top else { return Ok(()) };
        self.changes = upper::make(self.recipe, top, self.etc)?;
        if let Some(tree) = self.changes.as_ref().and_then(Changes::tmpfs)
            && self.recipe.is_attached()
        {
            self.attached.attach_tmpfs(tree)?;
        }
        Ok(())
    }

    /// Mounts the overlay, and returns it as a detached mount. In attached modes, the overlay is also attached on the
    /// host until the layers are detached.
    ///
    /// # Errors
    /// Errors of overlayfs.
    pub fn assemble(&mut self) -> Result<OwnedFd, Error> {
        let tree = self.overlay()?;
        if let Some(Foreign { attr, .. }) = &self.recipe.foreign
            && !attr.is_empty()
        {
            mount_setattr(tree.as_fd(), false, attr).context("mount_setattr", "overlay")?;
        }
        Ok(tree)
    }

    fn overlay(&mut self) -> Result<OwnedFd, Error> {
        if self.recipe.mode.is_attached() {
            if self.needs_filler() {
                self.filler()?;
            }
            return self.attached.mount_overlay(self.recipe, self.needs_filler());
        }
        let context = self.context.take().ok_or(Errno::BADF).context("fsconfig", "overlay")?;
        let context = context.as_fd();
        let by_path = self.recipe.mode == Mode::Path;
        if let Some(changes) = &self.changes {
            set_directory(context, c"upperdir", changes.upper.as_fd(), by_path)?;
            set_directory(context, c"workdir", changes.work.as_fd(), by_path)?;
        }
        self.configure(context).or_else(|errno| failed(context, "fsconfig", "overlay", errno))?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let mounted = fsconfig_create(context)
            .and_then(|()| fsmount(context, flags, MountAttrFlags::empty()));
        let tree = mounted.or_else(|errno| failed(context, "mount", "overlay", errno))?;
        self.attached.detach()?;
        Ok(tree)
    }

    fn configure(&self, context: BorrowedFd<'_>) -> Result<(), Errno> {
        let (source, is_read_only) = self.recipe.source();
        fsconfig_set_string(context, c"source", source)?;
        if is_read_only {
            fsconfig_set_flag(context, c"ro")?;
        }
        for (key, value) in self.recipe.options() {
            match value {
                Some(value) => fsconfig_set_string(context, key, value)?,
                None => fsconfig_set_flag(context, key)?,
            }
        }
        Ok(())
    }

    /// Unmounts all mounts that were attached on the host.
    ///
    /// # Errors
    /// Those of umount2(2).
    pub fn detach_layers(&mut self) -> Result<(), Error> {
        Ok(self.attached.detach()?)
    }

    /// Copies the files of all layers, and returns the copy as a detached mount.
    ///
    /// # Errors
    /// The error names the file that cannot be copied.
    pub fn copy_layers(&mut self) -> Result<OwnedFd, Error> {
        copy::all(self.recipe)
    }

    /// Returns the operations on the host's mount table so far.
    pub fn counts(&self) -> Counts {
        self.attached.counts
    }

    /// Finishes the assembly.
    pub fn finish(mut self) -> Assembled {
        let _ = self.attached.detach();
        Assembled { counts: self.attached.counts, copies: core::mem::take(&mut self.parents) }
    }
}

/// Sets a directory of overlayfs: by descriptor, or by the descriptor's path in this process's procfs.
fn set_directory(
    context: BorrowedFd<'_>,
    key: &'static CStr,
    directory: BorrowedFd<'_>,
    by_path: bool,
) -> Result<(), Error> {
    let result = match by_path {
        false => fsconfig_set_fd(context, key, directory),
        true => {
            let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
            fsconfig_set_string(context, key, path)
        }
    };
    result.or_else(|errno| failed(context, "fsconfig", &key.to_string_lossy(), errno))
}

/// Returns the error of an operation on a filesystem context. The error contains the message that the kernel logged on
/// the context, such as "e overlay: …".
fn failed<T>(
    context: BorrowedFd<'_>,
    op: &'static str,
    object: &str,
    errno: Errno,
) -> Result<T, Error> {
    let mut log = [0u8; 200];
    let length = rustix::io::read(context, &mut log).unwrap_or(0);
    let said = String::from_utf8_lossy(log.get(2..length).unwrap_or_default());
    let object = match said.trim() {
        "" => String::from(object),
        said => format!("{object} ({said})"),
    };
    Err(sys::Error::new(op, object, errno).into())
}

/// Sets the id mapping of a detached mount to that of a user namespace; with `recursive`, also the id mappings of all
/// mounts below it.
///
/// # Errors
/// Those of mount_setattr(2): EINVAL for a filesystem that does not support idmapped mounts.
pub fn map_ids(
    tree: BorrowedFd<'_>,
    user_namespace: BorrowedFd<'_>,
    recursive: bool,
) -> Result<(), Errno> {
    mount_setattr(tree, recursive, &MountAttr::id_mapped(user_namespace))
}

/// Returns a detached read-only clone of the mount at a directory, id-mapped by the user namespace if one is given.
fn mapped(directory: &CStr, user_namespace: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Error> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(CWD, directory, flags);
    let tree = tree.context("open_tree", directory.to_string_lossy())?;
    let mut change = user_namespace.map(MountAttr::id_mapped).unwrap_or_default();
    change.set |= attr::RDONLY;
    change.propagation = propagation::PRIVATE;
    mount_setattr(tree.as_fd(), false, &change).map_err(|errno| {
        let hint = match errno {
            Errno::INVAL => " (its filesystem may not have id-mapped mounts: --rootfs-mode copy)",
            _ => "",
        };
        let object = format!("{}{hint}", directory.to_string_lossy());
        sys::Error::new("map ids of", object, errno)
    })?;
    Ok(tree)
}
