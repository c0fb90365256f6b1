//! The steps: what the parent and the init actor do, one variant a kernel object.
//!
//! Those of init, and what the parent's steps have in common with them, are `dayfly-init`'s, which borrows all that it
//! reads. A plan has them for as long as the process lives (`keep.rs`).

mod parent;

pub use init::step::{
    BindLink, Capabilities, Confined, Intermediate, Limit, Memory, Propagation, Slot, TreeIdMap,
    WithoutNull,
};
pub use parent::*;
pub use spec::NumberSet;

/// What init does, in order.
pub type InitStep = init::step::InitStep<'static>;
/// A mount tree to take.
pub type CloneTree = init::step::CloneTree<'static>;
/// A bind mount that is more than a tree at its place.
pub type AttachBind = init::step::AttachBind<'static>;
/// Where init has from what it binds.
pub type BindSource = init::step::BindSource<'static>;
/// A device node to take.
pub type DeviceSource = init::step::DeviceSource<'static>;
/// Where a mount goes.
pub type Target = init::step::Target<'static>;
/// A file system to make.
pub type MountFs = init::step::MountFs<'static>;
/// What mount(2) is given instead of parameters and attributes.
pub type Oversized = init::step::Oversized<'static>;
/// An option of a file system: a flag, or key and value.
pub type Parameter = init::step::Parameter<'static>;
/// A device node to make.
pub type Node = init::step::Node<'static>;
/// A symbolic link to make.
pub type Link = init::step::Link<'static>;
/// Hooks of one kind.
pub type Hooks = init::step::Hooks<'static>;
/// One hook.
pub type Hook = init::step::Hook<'static>;
/// The time namespace that a process is born in.
pub type TimeNamespace = init::step::TimeNamespace<'static>;
