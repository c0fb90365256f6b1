//! Templates: containers whose warmed-up program forks the programs of other containers.
//!
//! A *template* is a container with a user namespace of its own. Its program loads what it needs, and then waits for
//! requests on a socket that it has inherited (`create.rs`). A start that names the template creates a container as
//! usual, inside the template's user and PID namespaces, up to the point at which init would execute the program. There
//! the template's child takes over, and init remains as its *stand-in*: the first process of the container's PID
//! namespace, which engines see and wait for (`init/src/actor/stand_in.rs`). The exchange is in `fork.rs`.
//!
//! Everything that needs rights on the host is done by init, for a forked program as for an executed one. The child
//! only enters what init has made, and gives up what init has given up (`body.rs`). The runtime does not trust it to
//! have done so: `verify.rs` compares both processes before the program begins. If anything fails up to this point, the
//! container is removed, and made again outside the template, with an init that executes the program.
//!
//! Engines need one process that they can wait for, and that ends with the program's status. The child cannot be that
//! process, because its parent is the template. Two alternatives were rejected:
//!
//! - The child is the first process of its PID namespace, and a process outside waits for it. Engines would see two
//!   processes, and the record can name only one. To kill the first would leave the second running.
//! - The template runs init's list itself. Then the tenant's code would share a process with the runtime's descriptors.
//!
//! The price of the stand-in is one more process for each container, with a copy of the command's memory.
//!
//! setns(2) accepts a PID namespace only if it is the caller's own or a descendant, so those of containers are inside
//! the template's. There is no second attempt if hooks have run, or if a pidfd was sent.

mod body;
mod cgroups;
mod create;
mod find;
mod fork;
mod list;
mod save;
mod verify;

use alloc::format;
use alloc::string::String;

use rustix::fd::BorrowedFd;

use crate::Warn;

pub(crate) use cgroups::{grant, tidy};
pub(crate) use create::{BACKLOG, prepare, variable};
pub(crate) use find::{NamedBy, Template};
pub(crate) use fork::Fork;
pub use list::{Entry, Rest};

/// The annotation that names the template of a container.
pub const ANNOTATION: &str = "run.dayfly.template";
/// The annotation by which dayfly marks a container whose program a template has forked: the template's name.
pub(crate) const FORKED: &str = "run.dayfly.forked-by";
/// The annotation of a template that says for which containers it is: `KEY=VALUE` of another annotation.
pub(crate) const FOR: &str = "run.dayfly.template-for";
/// The socket in a template's directory on which its program listens.
pub(crate) const REQUESTS: &str = "requests";
/// The environment variable that tells a program the number of that socket.
const VARIABLE: &str = "DAYFLY_TEMPLATE";
/// The version of the protocol.
const PROTOCOL: u8 = 1;

/// The relation of a new container to a template.
#[derive(Debug, Clone, Copy)]
pub enum TemplateUse<'a> {
    /// The container becomes a template.
    Become {
        /// `KEY=VALUE`: an annotation of containers that may name this template by an annotation. If `None`, only the
        /// command line can name it.
        allowed: Option<&'a str>,
    },
    /// The container's program is to be saved as a template.
    Save {
        /// The socket by which it tells that its warm-up is over.
        socket: BorrowedFd<'a>,
    },
    /// A template forks the container's program.
    From {
        /// The template's name.
        name: &'a str,
        /// Arguments of the program that follow those of the configuration.
        args: &'a [&'a str],
    },
    /// The program is executed, whatever an annotation says: a template could not fork it.
    Ignored {
        /// Arguments of the program that follow those of the configuration.
        args: &'a [&'a str],
    },
}

/// Tells that the program is executed, because what an option or annotation names, a `kind` such as `template`, does not
/// make the process.
pub(crate) fn fall_back(warn: Warn<'_>, kind: &str, name: &str, reason: &str) {
    let name = printable(name);
    (warn.print)(&format!("{kind} {name} {reason}: the program is executed instead"));
}

/// Returns a text from a tenant without control characters, for a line on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// The reason why a template does not fork the program; a sentence without its subject.
pub(crate) type Refusal = String;
