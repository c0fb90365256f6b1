//! Makes the mounts that a plan makes before it creates init. Used for a container whose processes criu creates
//! (`restore`).

use core::ffi::CStr;

use init::OwnedSlots;
use plan::Plan;
use plan::step::{DeviceSource, ParentStep, Slot};
use rustix::fd::BorrowedFd;
use sys::clone::CloneFlags;
use trace::Tracer;

use crate::Error;
use crate::descriptors::Raised;
use crate::parent::Parent;
use crate::slots_of;

/// Detached mounts: the root filesystem, if it is assembled from layers, and the device nodes that the container gets
/// as mounts.
#[derive(Debug)]
pub struct Mounts {
    plan: &'static Plan,
    slots: OwnedSlots,
    /// The limit on open descriptors while the slots are filled.
    _raised: Option<Raised>,
    /// Resources of the assembled root filesystem, if any.
    pub rootfs: Option<rootfs::Assembled>,
}

impl Mounts {
    /// Runs the plan's steps that make these mounts, and no others.
    ///
    /// # Errors
    /// The error of the step that failed. Mounts that were attached on the host are detached.
    pub fn make(plan: &'static Plan, tracer: &Tracer) -> Result<Self, Error> {
        let _raised = Raised::for_plan(plan);
        let mut parent = Parent::new(plan, slots_of(plan), tracer, c"/");
        for step in plan.parent.iter().filter(|step| is_meant(step)) {
            parent.step(step)?;
        }
        let rootfs = parent.rootfs.take().map(rootfs::Assembly::finish);
        Ok(Self { plan, slots: parent.slots, _raised, rootfs })
    }

    /// Returns the root filesystem, if it is assembled from layers.
    pub fn root(&self) -> Option<BorrowedFd<'_>> {
        self.slots.get(Slot::ROOT)
    }

    /// Returns the mount that covers masked files, or `None` if the plan masks no files.
    pub fn mask(&self) -> Option<BorrowedFd<'_>> {
        self.slots.get(Slot::NULL)
    }

    /// Returns the paths of device nodes in the container, with their mounts.
    pub fn devices(&self) -> impl Iterator<Item = (&'static CStr, BorrowedFd<'_>)> {
        let sources = self.plan.parent.iter().flat_map(sources);
        let devices = sources.filter(|device| device.slot != Slot::NULL);
        devices.filter_map(|device| Some((device.path, self.slots.get(device.slot)?)))
    }
}

fn is_meant(step: &ParentStep) -> bool {
    matches!(
        step,
        ParentStep::OpenProc
            | ParentStep::MakeUserNamespace { .. }
            | ParentStep::OpenNamespace { kind: CloneFlags::NEWUSER, .. }
            | ParentStep::MapLayers { .. }
            | ParentStep::OpenLayers
            | ParentStep::MakeUpper
            | ParentStep::AssembleRootfs
            | ParentStep::DetachLayers
            | ParentStep::CopyLayers
            | ParentStep::CloneDevice(_)
            | ParentStep::MakeNodes(_)
    )
}

/// Returns the device nodes that a step provides.
fn sources(step: &'static ParentStep) -> impl Iterator<Item = &'static DeviceSource> {
    let (one, several) = match step {
        ParentStep::CloneDevice(device) => (Some(device), &[][..]),
        ParentStep::MakeNodes(nodes) => (None, &nodes.nodes[..]),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(several.iter().map(|own| &own.host))
}
