//! The steps of the parent and of init.
//!
//! Init's steps, and the types that the parent's steps use as well, are defined in `dayfly-init` and borrow all their
//! data. This data is never freed (`keep.rs`).

mod parent;

pub use init::step::{
    ALLOWED_IN_PROC, BindLink, Capabilities, Confined, Intermediate, Limit, Memory, Propagation,
    Slot, TreeIdMap, WithoutNull,
};
pub use parent::*;
pub use spec::NumberSet;

/// A step of init.
pub type InitStep = init::step::InitStep<'static>;
/// A mount tree to clone.
pub type CloneTree = init::step::CloneTree<'static>;
/// The data of [`InitStep::AttachBind`](init::step::InitStep::AttachBind).
pub type AttachBind = init::step::AttachBind<'static>;
/// The source of init's bind mounts.
pub type BindSource = init::step::BindSource<'static>;
/// A device node to clone.
pub type DeviceSource = init::step::DeviceSource<'static>;
/// The destination of a mount.
pub type Target = init::step::Target<'static>;
/// A file system to create.
pub type MountFs = init::step::MountFs<'static>;
/// The arguments of mount(2) in place of parameters and attributes.
pub type Oversized = init::step::Oversized<'static>;
/// An option of a file system: a flag, or key and value.
pub type Parameter = init::step::Parameter<'static>;
/// A device node to create.
pub type Node = init::step::Node<'static>;
/// A symbolic link to create.
pub type Link = init::step::Link<'static>;
/// Hooks of one kind.
pub type Hooks = init::step::Hooks<'static>;
/// One hook.
pub type Hook = init::step::Hook<'static>;
/// The time namespace of a new process.
pub type TimeNamespace = init::step::TimeNamespace<'static>;
