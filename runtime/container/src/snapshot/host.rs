//! Mounts root filesystems in the bundle's directory, where the host's processes see them.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;

use plan::Kernel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode as Permissions, OFlags, mkdir, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};
use spec::mount_options::MountOptions;
use spec::{IdMapping, InRoot, Mount};
use sys::Context;
use sys::fs::c_path;
use sys::inside::{self, Links};
use sys::mount::{MountAttr, fsmount_attr, mount_setattr};

use super::RootMount;
use super::read::{Reader, Root};
use super::words::Ids;
use crate::{Error, Unless as _, layered};

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Mounts a root filesystem at the absolute path `bundle_rootfs`. The directory at that path is created if it is
/// missing. The mounts are attached in order, each over or below earlier ones. Symbolic links in a mount's target are
/// followed inside the root filesystem. On failure, nothing stays mounted.
///
/// # Errors
/// If a mount is of an unsupported type or cannot be created; the message contains type and reason.
pub fn mount_on_host(bundle_rootfs: &str, mounts: &[RootMount<'_>]) -> Result<(), Error> {
    let made = mkdir(bundle_rootfs, Permissions::from_raw_mode(0o711)).unless(Errno::EXIST);
    made.context("mkdir", bundle_rootfs)?;
    let result = mounts.iter().try_for_each(|mount| attach(bundle_rootfs, mount));
    if result.is_err() {
        let _ = unmount_on_host(bundle_rootfs);
    }
    result
}

/// The maximum number of mounts that are stacked at one directory.
const MOST_MOUNTS: u32 = 64;

/// Unmounts everything at and below a directory. Succeeds if nothing is mounted there, or if the directory is missing.
///
/// # Errors
/// Those of umount2(2).
pub fn unmount_on_host(bundle_rootfs: &str) -> Result<(), Error> {
    for _ in 0..MOST_MOUNTS {
        match unmount(bundle_rootfs, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Nothing is mounted there any more, or the directory does not exist.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(errno) => return Err(sys::Error::new("umount2", bundle_rootfs, errno).into()),
        }
    }
    Ok(())
}

fn attach(bundle_rootfs: &str, mount: &RootMount<'_>) -> Result<(), Error> {
    let root = openat(CWD, bundle_rootfs, DIRECTORY, Permissions::empty());
    let root = root.context("open", bundle_rootfs)?;
    let target = InRoot::new(&*mount.target);
    let place = match target.relative() {
        "" => root,
        below => {
            let path = c_path(below).context("find", below)?;
            let place =
                inside::open(root.as_fd(), &path, DIRECTORY - OFlags::NOFOLLOW, Links::Follow);
            place.context("open", format!("{bundle_rootfs}/{below}"))?
        }
    };
    let tree = tree(bundle_rootfs, mount)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    let object = || format!("{} at {bundle_rootfs}{}", &*mount.kind, &*mount.target);
    Ok(move_mount(&tree, c"", &place, c"", flags).context("move_mount", object())?)
}

/// Returns the mount that `mount` describes, not attached yet.
fn tree(bundle_rootfs: &str, mount: &RootMount<'_>) -> Result<OwnedFd, Error> {
    let (bundle, _) = bundle_rootfs.rsplit_once('/').unwrap_or_default();
    let reader = Reader { version: Kernel::probe().version, mode: None, directory: bundle };
    match reader.root(mount)? {
        (Root::Layers(recipe), ids) => {
            let user_namespace = ids.as_ref().map(user_namespace).transpose()?;
            let tree = layered::assemble(&recipe, user_namespace.as_ref().map(AsFd::as_fd))?;
            if recipe.is_attached() {
                // This directory contained the mount points of the temporarily attached layers.
                rootfs::remove_places(&recipe.directory)?;
            }
            Ok(tree)
        }
        (Root::Mount(entry), _) => {
            let options = MountOptions::parse(&entry.options);
            let tree = match options.bind {
                Some(bind) => bound(&entry, &options, bind.recursive)?,
                None => filesystem(&entry, &options)?,
            };
            if !entry.uid_mappings.is_empty() {
                let user_namespace =
                    user_namespace(&(entry.uid_mappings.clone(), entry.gid_mappings.clone()))?;
                let is_recursive = options.bind.is_some_and(|bind| bind.recursive);
                rootfs::map_ids(tree.as_fd(), user_namespace.as_fd(), is_recursive)
                    .context("map ids of", &*mount.source)?;
            }
            Ok(tree)
        }
    }
}

/// Creates a user namespace with these mappings, for an id-mapped mount. No process runs in it.
fn user_namespace((uids, gids): &Ids) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = openat(CWD, c"/proc", flags, Permissions::empty()).context("open", "/proc")?;
    Ok(sys::user_namespace::make(proc.as_fd(), &IdMapping::text(uids), &IdMapping::text(gids))?)
}

/// Returns a detached bind mount of the entry's source, with the entry's attributes.
fn bound(
    entry: &Mount<'_>,
    options: &MountOptions<'_>,
    is_recursive: bool,
) -> Result<OwnedFd, Error> {
    // Every field is named, so that each new one is decided here. The others concern mount points, or mounts that the
    // container makes later.
    let MountOptions {
        attr,
        recursive_attr: _,
        superblock_set: _,
        superblock_clear: _,
        propagation: _,
        bind: _,
        remount: _,
        tmpcopyup: _,
        id_map: _,
        copy_symlink: _,
        source_nofollow: _,
        destination_nofollow: _,
        data: _,
    } = options;
    let source = entry.source.as_deref().unwrap_or_default();
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if is_recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = open_tree(CWD, source, flags).context("open_tree", source)?;
    let attr = MountAttr { set: attr.set, clear: attr.clear, ..MountAttr::default() };
    if !attr.is_empty() {
        mount_setattr(tree.as_fd(), false, &attr).context("mount_setattr", source)?;
    }
    Ok(tree)
}

/// Returns a detached mount of a new filesystem, with the entry's attributes.
fn filesystem(entry: &Mount<'_>, options: &MountOptions<'_>) -> Result<OwnedFd, Error> {
    let object = || format!("{} of {}", &*entry.kind, entry.source.as_deref().unwrap_or_default());
    let c_string = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
    let context = c_string(&entry.kind)
        .and_then(|kind| fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC))
        .context("fsopen", object())?;
    let configure = |context: BorrowedFd<'_>| {
        let source = entry.source.as_deref().filter(|source| !source.is_empty());
        fsconfig_set_string(context, c"source", source.unwrap_or(&entry.kind))?;
        let mut words: Vec<&str> = options.superblock_words().collect();
        words.extend_from_slice(&options.data);
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => fsconfig_set_string(context, key, value)?,
                None => fsconfig_set_flag(context, word)?,
            }
        }
        fsconfig_create(context)?;
        let attributes = fsmount_attr(options.attr.set);
        fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    Ok(configure(context.as_fd()).context("mount", object())?)
}
