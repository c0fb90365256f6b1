//! The operations on a container (create, start, kill, delete, exec) and its state on disk.
//!
//! Any command may be killed at any time: later commands check records against the kernel, and can delete anything that
//! a killed command left.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod admission;
mod annotations;
mod announce;
mod bundle;
pub mod cache;
mod checkpoint;
mod console;
mod container;
mod copy;
mod create;
mod create_context;
mod delete;
mod directory;
mod error;
mod exec;
mod exit;
mod fault;
mod features;
mod foreground;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod hooks;
mod host_cache;
mod identity;
mod image;
mod inspect;
mod layered;
mod make;
mod notify;
mod options;
mod output;
mod owner;
mod passes;
mod path;
mod pid_file;
mod placement;
mod record;
mod request;
mod rootless;
mod snapshot;
mod spool;
mod start_cpus;
mod starting;
mod state;
mod store;
mod takeover;
mod template;
mod time;
mod trace_file;
mod tracing;
mod warn;

pub use annotations::PLACE;
pub use bundle::Bundle;
pub use checkpoint::{
    CheckpointOptions, CriuOptions, PROGRAM as CRIU, Pages, RestoreOptions, Tracking, cgroups_mode,
    default_images, names_checkpoint, own_work, remove_work, restore, restore_from, untar,
};
pub use container::Container;
pub use copy::{Place, copy};
pub use create::{Created, compile, create, create_from, run};
pub use delete::Removed;
pub use error::Error;
use error::Unless;
pub use exec::{ExecOptions, ProcessDocument};
pub use exit::{EXIT_CODE, End, UNKNOWN};
pub use features::{Features, features};
pub use foreground::reap;
pub use host_cache::clear as clear_cache;
pub use image::settings::{STOP_SIGNAL, Settings};
pub use image::{ImageRun, Network, REAPER};
pub use inspect::MountPoint;
#[cfg(dayfly_faults)]
pub use launch::fault::arm as arm_fault;
pub use layered::free_ids;
pub use options::{
    CLAIMED, CgroupDriver, CreateOptions, LayeredOptions, RunOptions, UserNamespace,
};
pub use path::absolute;
pub use rootless::enter as enter_user_namespace;
pub use snapshot::{RootMount, is_supported, mount_on_host, unmount_on_host, wants_host_root};
pub use starting::{Starting, is_frozen};
pub use state::{State, Status};
pub use store::Store;
pub use template::{ANNOTATION as TEMPLATE_ANNOTATION, Entry as Template, Rest, TemplateUse};
pub use time::Rfc3339;
pub use tracing::{ANNOTATION, Trace, VARIABLE};
pub use warn::Warn;
