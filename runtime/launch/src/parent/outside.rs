//! Steps of the parent that act on init from outside.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use plan::step::{Agent, IdMaps, Limit, NetDevice, ParentStep, Slot};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::{PidfdGetfdFlags, Rlimit, pidfd_getfd, prlimit};
use sys::Context;
use trace::Phase;

use super::hear::unexpected;
use super::{Parent, no_child};
use crate::{Error, hooks, net_devices};
use init::channel::{self, Message, Word};

impl Parent<'_> {
    /// Sets init's OOM score if it differs from this process's score, which init inherits.
    pub(super) fn adjust_oom_score(&mut self, score: i32) -> Result<(), Error> {
        let score = score.to_string();
        let own = self.open_oom_score(&score)?;
        if own.is_none() {
            return Ok(());
        }
        self.own_oom_score = own;
        self.write_proc("oom_score_adj", &score)
    }

    /// Sets this process's OOM score to the score that init gets.
    pub(super) fn take_on_oom_score(&mut self, score: i32) -> Result<(), Error> {
        let score = score.to_string();
        let Some((file, own)) = self.open_oom_score(&score)? else { return Ok(()) };
        rustix::io::pwrite(&file, score.as_bytes(), 0).map_err(|errno| {
            let hint = match errno {
                Errno::ACCESS => " (a value below the caller's own requires CAP_SYS_RESOURCE)",
                _ => "",
            };
            sys::Error::new("set", format!("oom_score_adj {score}{hint}"), errno)
        })?;
        self.own_oom_score = Some((file, own));
        Ok(())
    }

    /// Returns the open file of this process's OOM score and its current value, or `None` if the value already is
    /// `score`.
    pub(super) fn open_oom_score(
        &self,
        score: &str,
    ) -> Result<Option<(OwnedFd, Vec<u8>)>, sys::Error> {
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let path = c"self/oom_score_adj";
        let mut own = [0; 8];
        let file = openat(proc, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let file = file.context("open", "/proc/self/oom_score_adj")?;
        let length =
            rustix::io::read(&file, &mut own).context("read", "/proc/self/oom_score_adj")?;
        let own = own.get(..length).unwrap_or_default().trim_ascii();
        Ok((own != score.as_bytes()).then(|| (file, own.to_vec())))
    }

    pub(super) fn restore_oom_score(&mut self) -> Result<(), Error> {
        if self.own_oom_score.is_none() {
            return Ok(());
        }
        if self.plan.parent.iter().all(|step| !matches!(step, ParentStep::AwaitExec)) {
            self.await_message(&Message::Closed)?;
        }
        self.return_to_own_oom_score();
        Ok(())
    }

    /// Sets this process's OOM score again, so that hooks and a second attempt begin with it. Errors are ignored: the
    /// kernel may forbid setting a score lower than init's, and the container may be running already.
    pub(crate) fn return_to_own_oom_score(&mut self) {
        if let Some((file, own)) = self.own_oom_score.take() {
            let _ = rustix::io::pwrite(&file, &own, 0);
        }
    }

    pub(super) fn move_net_devices(
        &self,
        namespace: Option<Slot>,
        devices: &[NetDevice],
    ) -> Result<(), Error> {
        let own;
        let namespace = match namespace {
            Some(slot) => self.slots.get(slot).ok_or_else(no_child)?,
            None => {
                let child = self.child.as_ref().ok_or_else(no_child)?;
                let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
                let path = format!("{}/ns/net", child.pid.as_raw_nonzero());
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                own = openat(proc, path.as_str(), flags, Mode::empty())
                    .context("open", format!("/proc/{path}"))?;
                own.as_fd()
            }
        };
        Ok(net_devices::move_all(devices, namespace)?)
    }

    /// Fails if `namespace`, which init is to join, is this process's own namespace.
    pub(super) fn refuse_own(
        &self,
        namespace: &OwnedFd,
        own: &CStr,
        refusal: &str,
    ) -> Result<(), Error> {
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let joined = fstat(namespace).context("fstat", "namespace")?;
        let own = statat(proc, own, AtFlags::empty())
            .context("stat", format!("/proc/{}", own.to_string_lossy()))?;
        match (joined.st_dev, joined.st_ino) == (own.st_dev, own.st_ino) {
            true => Err(Error::Refused(refusal.to_string())),
            false => Ok(()),
        }
    }

    pub(super) fn map_ids(&self, maps: &IdMaps) -> Result<(), Error> {
        self.write_proc("uid_map", &maps.uid_map)?;
        self.write_proc("gid_map", &maps.gid_map)
    }

    /// Writes a file of init's directory in the verified procfs.
    pub(super) fn write_proc(&self, name: &str, text: &str) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let path = format!("{}/{name}", child.pid.as_raw_nonzero());
        sys::fs::write_at(proc, path.as_str(), text.as_bytes())
            .context("write", format!("/proc/{path} ({})", shortened(text)))?;
        Ok(())
    }

    /// Fails unless the user namespace that init has joined has the mappings of the configuration.
    pub(super) fn verify_ids(&self, maps: &IdMaps) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        for (name, wanted) in [("uid_map", &maps.uid_map), ("gid_map", &maps.gid_map)] {
            let path = format!("{}/{name}", child.pid.as_raw_nonzero());
            let read =
                sys::fs::read_at(proc, path.as_str()).context("read", format!("/proc/{path}"))?;
            if mappings(&String::from_utf8_lossy(&read)) != mappings(wanted) {
                return Err(Error::Refused(format!(
                    "user namespaces enabled, but both namespace path and non-matching mapping \
                     specified -- you may only provide one (its {name} is {})",
                    shortened(&String::from_utf8_lossy(&read))
                )));
            }
        }
        Ok(())
    }

    pub(super) fn limit_resources(&self, limits: &[Limit]) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        for limit in limits {
            let value = Rlimit { current: limit.soft, maximum: limit.hard };
            prlimit(Some(child.pid), limit.resource, value)
                .map(drop)
                .context("error setting rlimit", format!("{:?}", limit.resource))?;
        }
        Ok(())
    }

    pub(super) fn run_hooks(&self) -> Result<(), Error> {
        self.tracer.wait(Phase::Sync, "await hooks", "", plan::INIT, || {
            self.await_message(&Message::Hooks)
        })?;
        let pid = self.child.as_ref().map_or(0, |child| child.pid.as_raw_nonzero().get());
        for kind in &self.plan.runtime_hooks {
            let (directory, tracer) = (Some(self.bundle), Some(self.tracer));
            let limit = self.plan.descriptors.map(|descriptors| descriptors.own);
            let manner = hooks::Manner { directory, tracer, limit };
            // Prestart hooks expect the status `created`: in the version of the specification that introduced them,
            // they ran after the container had been created.
            let status = if kind.kind == "prestart" { "created" } else { "creating" };
            hooks::run_all(kind, &self.plan.state, status, pid, &manner)
                .map_err(|failed| Error::Hook(failed.describe(kind).to_string()))?;
        }
        self.say(Word::HooksDone)
    }

    /// Sends the seccomp filter's listener to the agent, over a connection that is closed afterwards.
    pub(super) fn send_listener(&self, agent: &Agent) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        let number = match channel::listen(channel).context("read", "init")? {
            Message::Listener(number) => number,
            other => {
                return Err(unexpected(self.plan, other, &Message::Listener(-1), || self.death()));
            }
        };
        let pid = child.pid.as_raw_nonzero().get();
        let listener = pidfd_getfd(&child.pidfd, number, PidfdGetfdFlags::empty())
            .context("pidfd_getfd", format!("seccomp listener of {pid}"))?;
        let path = || agent.socket.to_string_lossy();
        let socket = sys::fdpass::dial(agent.socket.as_c_str()).context(
            "failed to connect with seccomp agent specified in the seccomp profile",
            path(),
        )?;
        let message = agent.message(&self.plan.state, pid);
        sys::fdpass::send_whole(&socket, message.as_bytes(), listener.as_fd())
            .context("cannot send seccomp fd to", path())?;
        self.say(Word::ListenerSent)
    }

    /// Opens the root of the container's init, in the verified procfs.
    pub(super) fn open_root_of(&self, init: i32) -> Result<OwnedFd, Error> {
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let path = format!("{init}/root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(proc, path.as_str(), flags, Mode::empty())
            .context("open", format!("/proc/{path}"))?;
        // If init is still alive now, its pid has not been reused, so the directory is init's.
        let container = self.slots.get(Slot::CONTAINER).ok_or_else(no_child)?;
        sys::signal::send(container, 0).context("kill", "container init")?;
        Ok(root)
    }
}

/// The maximum number of lines of a mapping that an error quotes. A mapping has up to 340.
const QUOTED_LINES: usize = 3;

/// Returns the lines of a text in one line; of a long text, the first ones and the number of the others.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (shown, rest) = lines.split_at(lines.len().min(QUOTED_LINES));
    let words = |line: &&str| line.split_ascii_whitespace().collect::<Vec<&str>>().join(" ");
    let mut quoted = shown.iter().map(words).collect::<Vec<String>>().join(", ");
    if !rest.is_empty() {
        quoted.push_str(&format!(", and {} more", rest.len()));
    }
    quoted
}

/// Returns the numbers of each mapping, sorted: their order does not matter.
fn mappings(text: &str) -> Vec<Vec<&str>> {
    let mut lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_the_same_in_any_order() {
        let read = "         0     100000       1000\n      1000          0          1\n";
        assert_eq!(mappings(read), mappings("1000 0 1\n0 100000 1000\n"));
        assert_ne!(mappings(read), mappings("0 100000 1000\n"));
    }

    #[test]
    fn long_mappings_are_shortened() {
        assert_eq!(shortened("-1000"), "-1000");
        assert_eq!(shortened("  0  1 1\n1 5 1\n"), "0 1 1, 1 5 1");
        let lines: String = (0..340).map(|id| format!("{id} {id} 1\n")).collect();
        assert_eq!(shortened(&lines), "0 0 1, 1 1 1, 2 2 1, and 337 more");
    }
}
