//! The messages between the parent and init.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;
use init::NO_INTERPRETER;
use init::hooks;
use plan::step::InitStep;
use plan::{CgroupPlan, Labelled, Plan, purpose};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use sys::Context;
use sys::wait::{Deadline, ready};

use super::{Parent, no_child};
use crate::Error;
use crate::error::words;
use init::channel::{self, Message, Word};

/// The time in which an init that a template could stop sends its next message.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

impl Parent<'_> {
    pub(super) fn say(&self, word: Word) -> Result<(), Error> {
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        match channel::say(channel, word) {
            Ok(()) => Ok(()),
            // Init has exited. It may have sent a message with the reason, or may have left the parent's messages
            // unread.
            Err(Errno::PIPE | Errno::CONNRESET) => {
                self.await_message(&Message::Closed).and(Err(self.death()))
            }
            Err(errno) => Err(sys::Error::new("send", "init", errno).into()),
        }
    }

    /// Tells init that the process behind `program` runs as the program.
    pub(super) fn say_forked(&self, program: &OwnedFd) -> Result<(), Error> {
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        let sent = sys::fdpass::send(channel, &[Word::Forked as u8], program.as_fd());
        Ok(sent.context("send", "init")?)
    }

    pub(super) fn await_message(&self, expected: &Message) -> Result<(), Error> {
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        let in_template = self.plan.init.iter().any(|step| matches!(step, InitStep::StandIn));
        if in_template {
            self.await_one_in_a_template(channel)?;
        }
        await_message(self.plan, channel, expected, || self.death())
    }

    /// Waits for a message from an init that a template could stop: it is root of init's user namespace.
    fn await_one_in_a_template(&self, channel: &OwnedFd) -> Result<(), Error> {
        let mut fds = [PollFd::new(channel, PollFlags::IN)];
        match ready(&mut fds, Deadline::after(LONGEST_SILENCE))? {
            true => Ok(()),
            false => {
                Err(sys::Error::new("read", "init (stopped by its template?)", Errno::TIMEDOUT)
                    .into())
            }
        }
    }

    /// Returns the error for an init that exited without reporting a failure.
    pub(super) fn death(&self) -> Error {
        let exits =
            |child: &&sys::clone::Child| sys::pidfd::wait_for_exit(&child.pidfd, LONGEST_SILENCE);
        let child = self.child.as_ref().filter(exits);
        let status = child.and_then(|child| hooks::wait(&child.pidfd).ok());
        Error::death(self.plan, status.and_then(|status| status.terminating_signal()))
    }
}

/// Waits for a message from init, and turns unexpected ones into errors. `death` returns the error for an init that
/// exited without a message.
pub(crate) fn await_message(
    plan: &Plan,
    channel: &OwnedFd,
    expected: &Message,
    death: impl FnOnce() -> Error,
) -> Result<(), Error> {
    match channel::listen(channel).context("read", "init")? {
        message if message == *expected => Ok(()),
        other => Err(unexpected(plan, other, expected, death)),
    }
}

pub(super) fn unexpected(
    plan: &Plan,
    message: Message,
    expected: &Message,
    death: impl FnOnce() -> Error,
) -> Error {
    match message {
        Message::Failed { step, failure } => {
            describe_failure(plan, step, failure.errno, words(&failure))
        }
        Message::Closed | Message::Died => death(),
        other => {
            let object = format!("{other:?} instead of {expected:?}");
            sys::Error::new("read", object, Errno::PROTO).into()
        }
    }
}

/// Describes a failure of init.
fn describe_failure(plan: &Plan, step: usize, errno: Errno, detail: String) -> Error {
    let reason = sys::errno::describe(errno);
    match plan.init.get(step) {
        Some(InitStep::FindProgram { name, searched, .. }) => {
            let text = match (searched, errno) {
                (true, Errno::NOENT | Errno::NOTDIR) => {
                    format!("exec: {name:?}: executable file not found in $PATH")
                }
                (false, Errno::NOENT | Errno::NOTDIR) => {
                    format!("exec: {name:?}: stat {name}: {reason}")
                }
                // runc's words, and execve's, from which Podman derives the status 126.
                (_, Errno::ISDIR) => format!("exec: {name:?}: {reason}: permission denied"),
                _ => format!("exec: {name:?}: {reason}"),
            };
            Error::Program { text, errno }
        }
        Some(InitStep::Exec { .. }) => not_executed(&detail, errno),
        Some(InitStep::RunHooks { .. }) => Error::Hook(detail),
        // SCHED_DEADLINE requires an affinity of all CPUs: sched_setattr(2).
        Some(InitStep::SetScheduler(_)) if errno == Errno::PERM && names_cpus(plan) => {
            Error::Init {
                step: "process scheduler can't be used together with AllowedCPUs".into(),
                detail,
                errno,
            }
        }
        Some(InitStep::LimitResources(_)) if errno == Errno::PERM => Error::Init {
            step: "error setting rlimits".into(),
            detail: format!("{detail} (raising a hard limit requires CAP_SYS_RESOURCE)"),
            errno,
        },
        Some(InitStep::ChangeUser { uid, gid, .. }) if errno == Errno::INVAL => {
            let step = match detail.as_str() {
                "setresgid" => format!("cannot setgid to unmapped gid {gid} in user namespace"),
                "setresuid" => format!("cannot setuid to unmapped uid {uid} in user namespace"),
                _ => format!("change user {uid}:{gid}"),
            };
            Error::Init { step, detail, errno }
        }
        Some(step @ InitStep::MountFs(mount)) if errno == Errno::PERM => {
            let hint = match mount.kind.to_bytes() {
                b"sysfs" => {
                    " (a user namespace may mount sysfs only with a network namespace of its own: bind \
                     the host's /sys, or add the namespace)"
                }
                b"proc" => {
                    " (a user namespace may mount proc only with a PID namespace of its own, and \
                     only if it sees a proc that nothing is mounted over)"
                }
                _ => "",
            };
            let step = named(plan, step);
            Error::Init { step, detail: format!("{detail}{hint}"), errno }
        }
        Some(step) if errno == Errno::LOOP && detail == "move_mount" => {
            let hint =
                " (its source is the file of a mount namespace, or contains one in a mount of it)";
            Error::Init { step: named(plan, step), detail: format!("{detail}{hint}"), errno }
        }
        Some(step) => Error::Init { step: named(plan, step), detail, errno },
        None => Error::Init { step: "unknown step".into(), detail, errno },
    }
}

/// Returns the error of a program that init could not execute; `detail` is init's text.
pub(crate) fn not_executed(detail: &str, errno: Errno) -> Error {
    let reason = sys::errno::describe(errno);
    let at = detail.find(NO_INTERPRETER).unwrap_or(detail.len());
    let (head, tail) = detail.split_at(at);
    Error::Exec { text: format!("{head}: {reason}{tail}"), errno }
}

/// Returns the name of a step of init. If the step belongs to a mount, the name is preceded by the mount's description.
fn named(plan: &Plan, step: &InitStep) -> String {
    let label = step.label();
    let name = match label.object.is_empty() {
        true => label.name.to_string(),
        false => format!("{} {}", label.name, label.object),
    };
    match purpose::of_init(plan, step) {
        Some(mount) => format!("{mount}: {name}"),
        None => name,
    }
}

/// Returns whether the configuration restricts the container to some CPUs.
fn names_cpus(plan: &Plan) -> bool {
    let (Some(CgroupPlan::Create { resources, .. }) | Some(CgroupPlan::Scope { resources, .. })) =
        &plan.cgroup
    else {
        return false;
    };
    resources.cpu.as_ref().is_some_and(|cpu| !cpu.cpus.is_empty())
}
