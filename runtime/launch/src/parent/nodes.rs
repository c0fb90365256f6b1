//! Device nodes for a container that cannot create them. They are created on a file system that is never attached as a
//! whole; init gets each node as a separate mount. Only the container uses the nodes' inodes.
//!
//! Number, mode and owner are those of the configuration. In three cases, the host's device is bind-mounted read-only
//! instead: the caller is root of a user namespace, Linux is older than 6.15 and cannot copy a part of a detached
//! tmpfs, or mknod(2) is refused (no CAP_MKNOD, or device rules of the caller's cgroup). The device must then exist on
//! the host, and number, mode and owner are the host's.
//!
//! None of these mounts is noexec, because noexec also forbids mmap(2) with PROT_EXEC, which users of /dev/sgx_enclave
//! need.

use alloc::format;
use alloc::vec::Vec;

use init::{filesystem, make_node, take};
use plan::step::{OwnNode, OwnNodes, Slot};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::umask;
use sys::Context;
use sys::mount::clone_with;

use super::{Parent, no_child, taken_from};
use crate::Error;
use crate::error::words;

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

impl Parent<'_> {
    /// Creates the nodes, and puts the mount of each into its slot.
    pub(super) fn make_nodes(&mut self, step: &OwnNodes) -> Result<(), Error> {
        let tree = filesystem::make(&step.filesystem, None).map_err(|failure| {
            let object = format!("tmpfs of device nodes: {}", words(&failure));
            sys::Error::new("mount", object, failure.errno)
        })?;
        self.note_mount(&tree);
        let mask = umask(Mode::empty());
        let made = step.nodes.iter().map(|own| make(&tree, own)).collect::<Result<Vec<bool>, _>>();
        umask(mask);
        let made = made?;
        if let Some(slot) = step.id_map {
            let user_namespace = self.slots.get(slot).ok_or_else(no_child)?;
            take::map_ids(&tree, user_namespace, false).map_err(|failed| {
                sys::Error::new(failed.op, format!("device nodes{}", failed.hint), failed.errno)
            })?;
        }
        for (OwnNode { node, host }, is_made) in step.nodes.iter().zip(made) {
            let taken = match (is_made, host.slot) {
                (false, _) => take::device(host).map_err(taken_from(host.path))?.fd,
                // This node covers masked files, so the container must not be able to change it, even though it is the
                // container's own.
                (true, Slot::NULL) => {
                    clone_with(tree.as_fd(), node.name, OpenTreeFlags::empty(), &take::COVER)
                        .context("open_tree", node.name.to_string_lossy())?
                }
                (true, _) => open_tree(&tree, node.name, CLONE)
                    .context("open_tree", node.name.to_string_lossy())?,
            };
            self.slots.set(host.slot, taken);
        }
        self.nodes = Some(tree);
        Ok(())
    }
}

/// Creates one node. Returns false if the caller lacks permission: because it lacks CAP_MKNOD or CAP_CHOWN, or because
/// the device rules of its cgroup deny the node.
fn make(tree: &OwnedFd, own: &OwnNode) -> Result<bool, sys::Error> {
    match make_node(tree.as_fd(), own.node.name, &own.node) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        Err(errno) => Err(errno).context("mknodat", own.node.name.to_string_lossy()),
    }
}
