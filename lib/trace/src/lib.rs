//! Tracing of the time that commands on containers take.
//!
//! | part | what |
//! |---|---|
//! | [`Tracer`] | records the spans of the command itself; costs nothing when off |
//! | [`Recorder`] | records the spans of a process between clone and exec, in shared memory |
//! | [`Timeline`] | the common time line: a [`Row`] per process, with its [`Span`]s |
//! | [`Account`] | the self times: work, waits and the time between them add up to the wall time |
//! | [`critical_path`] | the sequence of steps that determined when the command ended |
//! | [`Format`] | the time line as a table, picture or file |
//!
//! Tracing is always compiled in. A span costs two clock readings if tracing is on, and a branch if it is off. The
//! phases are the variants of [`Phase`].
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod account;
mod critical;
mod format;
mod phase;
mod timeline;
mod tracer;

pub use account::Account;
pub use critical::{Stretch, critical_path};
pub use format::{Format, LinesError};
pub use phase::Phase;
pub use sys::recorder::{Begun, Record, Recorder, now};
pub use timeline::{Awaited, Row, Span, Timeline};
pub use tracer::{Failed, Label, PARENT, PROGRAM, Steps, Tracer};
