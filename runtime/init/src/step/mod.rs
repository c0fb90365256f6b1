//! The steps that init runs, and the data that they contain.
//!
//! A step is plain data with borrowed references. The compiler of the plan never frees the borrowed data, so it exists
//! until init's exec. Between clone and exec, init only makes system calls.

mod birth;
mod init;
mod mount;
mod state;

use core::ffi::CStr;

use rustix::process::Resource;
use sys::exec::StringArray;

pub use birth::*;
pub use init::*;
pub use mount::*;
pub use state::StateText;

/// A numbered slot for a descriptor that the parent opens and init uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u16);

impl Slot {
    /// The host's procfs, opened before any part of the container exists; or init's own procfs
    /// ([`InitStep::OpenProc`]).
    pub const PROC: Self = Self(0);
    /// The root filesystem's tree.
    pub const ROOT: Self = Self(1);
    /// The console socket.
    pub const CONSOLE: Self = Self(2);
    /// The socket that `start` connects to; the caller of the launcher provides it.
    pub const START: Self = Self(3);
    /// The detached mount of the null device that covers masked files: the host's /dev/null, or a node that the parent
    /// creates for the container.
    pub const NULL: Self = Self(4);
    /// The pidfd of the init whose container an exec enters; the caller provides it.
    pub const CONTAINER: Self = Self(5);
    /// The blank mount namespace; the caller provides it.
    pub const BLANK: Self = Self(6);
    /// The socket over which init gets its network namespace.
    pub const NETWORK: Self = Self(7);
    /// The cgroup's loaded device program, if the caller has one.
    pub const DEVICES: Self = Self(8);
    /// The socket over which a template's child reports to init, which stands in for it; the caller provides it.
    pub const STAND_IN: Self = Self(9);
    /// The listening socket of a template, which the program inherits; the caller provides it.
    pub const REQUESTS: Self = Self(10);
    /// The connection to the bus of the host's systemd, if the caller has one.
    pub const BUS: Self = Self(11);
    /// The first slot that the compiler allocates.
    pub const FIRST_FREE: Self = Self(12);
}

/// One resource limit; `None` is unlimited.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// The soft limit.
    pub soft: Option<u64>,
    /// The hard limit.
    pub hard: Option<u64>,
}

/// Hooks of one kind, for [`InitStep::RunHooks`] and the parent.
#[derive(Debug, Default, Clone, Copy)]
pub struct Hooks<'a> {
    /// The kind, as config.json names it.
    pub kind: &'static str,
    /// The hooks, in order.
    pub list: &'a [Hook<'a>],
}

/// One hook.
#[derive(Debug, Clone, Copy)]
pub struct Hook<'a> {
    /// The program's path.
    pub path: &'a CStr,
    /// The program's arguments.
    pub argv: StringArray<'a>,
    /// The program's environment.
    pub envp: StringArray<'a>,
    /// Whether the environment is that of the container's process, including HOME.
    pub is_of_process: bool,
    /// The timeout in seconds.
    pub timeout: Option<u32>,
}
