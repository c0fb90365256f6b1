//! The steps: what the host actor and the init actor do, one variant a kernel object.
//!
//! A step is pure data. Everything init needs is laid out here, so that between clone and exec it
//! only issues system calls.

mod host;
mod init;
mod mount;

use alloc::ffi::CString;
use alloc::vec::Vec;
use rustix::process::Resource;
use sys::exec::StringArray;

pub use host::*;
pub use init::*;
pub use mount::*;
pub use spec::NumberSet;
pub use spec::mount_options::Propagation;

/// A numbered place for a descriptor that the host actor opens and init uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u16);

impl Slot {
    /// The host's procfs, opened before anything of the container exists (DESIGN: private procfs).
    pub const PROC: Self = Self(0);
    /// The root filesystem's tree.
    pub const ROOT: Self = Self(1);
    /// The console socket.
    pub const CONSOLE: Self = Self(2);
    /// The socket that `start` connects to; the caller of the launcher provides it.
    pub const START: Self = Self(3);
    /// The host's /dev/null, detached.
    pub const NULL: Self = Self(4);
    /// The pidfd of the container that an exec enters; the caller provides it.
    pub const CONTAINER: Self = Self(5);
    /// The template mount namespace; the caller provides it.
    pub const TEMPLATE: Self = Self(6);
    /// The socket over which init gets its network namespace.
    pub const NETWORK: Self = Self(7);
    /// The cgroup's device program, loaded, where the caller has it.
    pub const DEVICES: Self = Self(8);
    /// The first slot that compile hands out.
    pub const FIRST_FREE: Self = Self(9);
}

/// One resource limit; `None` is unlimited.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Which.
    pub resource: Resource,
    /// The soft limit.
    pub soft: Option<u64>,
    /// The hard limit.
    pub hard: Option<u64>,
}

/// Hooks of one kind, for [`InitStep::RunHooks`] and the host actor.
#[derive(Debug, Default)]
pub struct Hooks {
    /// The kind, as config.json names it.
    pub kind: &'static str,
    /// In order.
    pub list: Vec<Hook>,
}

/// One hook.
#[derive(Debug)]
pub struct Hook {
    /// The program.
    pub path: CString,
    /// Its arguments.
    pub argv: StringArray,
    /// Its environment.
    pub envp: StringArray,
    /// Seconds it may take.
    pub timeout: Option<u32>,
}
