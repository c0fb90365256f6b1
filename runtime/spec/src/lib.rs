//! OCI runtime-spec 1.3 `config.json`: parsed without copying, then validated.
//!
//! [`Spec::parse`] borrows strings from the text where possible and does not parse the seccomp profile; [`validate()`]
//! then reports errors in runc's words. The crate also translates names of capabilities, resource limits, mount options
//! and namespaces to the kernel's numbers. [`word`] suggests known words for misspelt ones.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod attr_change;
mod config;
mod id;
mod in_root;
mod invalid;
mod kinds;
mod linux;
mod locate;
mod misspelt;
mod number_set;
mod object;
mod parse;
mod process;
mod profile_text;
mod template;
mod text;
mod unsupported;
mod validate;
mod without_profile;

pub mod capability;
pub mod defaults;
pub mod id_ranges;
pub mod memory_policy;
pub mod mount_options;
pub mod resources;
pub mod rlimit;
pub mod scheduling;
pub mod sysctl;
pub mod word;

pub use config::{Hook, Hooks, Mount, Root, Spec};
pub use id::{InvalidId, MAX_ID, validate_id};
pub use in_root::{InRoot, clean};
pub use invalid::Invalid;
pub use kinds::{DeviceKind, NamespaceKind};
pub use linux::{
    Device, IdMapping, IntelRdt, Linux, MemoryPolicy, Namespace, NetDevice, Personality, TimeOffset,
};
pub use misspelt::Misspelt;
pub use number_set::NumberSet;
pub use parse::ParseError;
pub use process::{
    Capabilities, ConsoleSize, CpuAffinity, IoPriority, Process, Rlimit, Scheduler, User,
};
pub use profile_text::ProfileText;
pub use template::{VERSION, rootless_template, template};
pub use text::Str;
pub use validate::{validate, validate_process};
