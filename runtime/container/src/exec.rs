//! `exec`: an additional process in a running container.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use launch::Launched;
use plan::step::Slot;
use plan::{Caller, ExecAgent, ExecRequest, FastPaths, Plan};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::CWD;
use spec::{Capabilities, Process, Str};
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::defence::{Defence, is_off};
use sys::fs::c_path;
use trace::{PROGRAM, Phase};

use crate::announce::{announce, check_preserved};
use crate::console::{Console, Receiver, Terminal};
use crate::create::{OtherWay, attempt};
use crate::options::safe_fast_paths;
use crate::path::absolute;
use crate::state::Status;
use crate::{Container, Error, Warn, foreground, pid_file};

/// The source of a process's JSON.
#[derive(Debug, Clone, Copy)]
pub enum ProcessDocument<'a> {
    /// The file at this path contains the JSON.
    File(&'a str),
    /// The JSON itself.
    Text {
        /// The text.
        json: &'a str,
        /// Whether the process has a terminal, whatever the text says.
        terminal: bool,
    },
}

/// The options of `exec`. An omitted option has the value of the container's own process (config.json), except `tty`:
/// if it is omitted, the process has no terminal.
#[derive(Debug, Clone, Default)]
pub struct ExecOptions<'a> {
    /// The JSON of the whole process, in place of the options for single attributes. Capabilities, labels, rlimits and
    /// scheduling that the JSON omits are those of the container's own process.
    pub process: Option<ProcessDocument<'a>>,
    /// The program and its arguments.
    pub args: Vec<&'a str>,
    /// The working directory.
    pub cwd: Option<&'a str>,
    /// Environment entries to add.
    pub env: Vec<&'a str>,
    /// Whether the process has a terminal.
    pub tty: Option<bool>,
    /// The user, and optionally the group: `uid` or `uid:gid`.
    pub user: Option<&'a str>,
    /// Supplementary groups to add.
    pub additional_gids: Vec<u32>,
    /// Capabilities to add.
    pub caps: Vec<&'a str>,
    /// Whether the process gets no_new_privs, so that it cannot gain privileges by execve(2).
    pub no_new_privs: Option<bool>,
    /// The AppArmor profile.
    pub apparmor: Option<&'a str>,
    /// The SELinux label.
    pub process_label: Option<&'a str>,
    /// Whether to return once the process is running.
    pub detach: bool,
    /// The file to which the pid of the new process is written.
    pub pid_file: Option<&'a str>,
    /// The socket that receives the terminal.
    pub console_socket: Option<&'a str>,
    /// A connected socket that receives the terminal, in place of `console_socket`.
    pub console: Option<BorrowedFd<'a>>,
    /// The socket that receives the pidfd of the new process.
    pub pidfd_socket: Option<&'a str>,
    /// The number of descriptors, from 3 on, that the process inherits.
    pub preserve_fds: u32,
    /// Sub-cgroups to enter: `PATH`, or `CONTROLLER[,…]:PATH` on cgroup v1.
    pub cgroup: Vec<&'a str>,
    /// Whether to enter a paused container; the process starts when the container is resumed.
    pub ignore_paused: bool,
    /// The fast paths to use.
    pub fast_paths: FastPaths,
    /// The receiver of warnings.
    pub warn: Warn<'a>,
}

impl Container {
    /// Runs an additional process. Waits for its exit and returns its exit status; with `detach`, waits only for its
    /// start and returns 0.
    ///
    /// # Errors
    /// If the container is not running; if an option is invalid; if execve(2) fails.
    pub fn exec(&self, options: &ExecOptions<'_>) -> Result<i32, Error> {
        Ok(self.attempt(options)?.1)
    }

    /// Starts an additional process, and returns it once it is running. The master of its terminal, if any, is sent to
    /// the console socket.
    ///
    /// # Errors
    /// As [`Container::exec`].
    pub fn exec_detached(&self, options: &ExecOptions<'_>) -> Result<Child, Error> {
        Ok(self.attempt(&ExecOptions { detach: true, ..options.clone() })?.0)
    }

    fn attempt(&self, options: &ExecOptions<'_>) -> Result<(Child, i32), Error> {
        attempt(options, other_way, |options, connected| self.try_exec(options, connected))
    }

    fn try_exec(
        &self,
        options: &ExecOptions<'_>,
        connected: Option<OwnedFd>,
    ) -> Result<(Child, i32), Error> {
        // `status` fails for a container that is not complete: its init may still share the memory of the command that
        // creates the container, so no process that could trace init may enter.
        match self.status()? {
            Status::Stopped => return Err(Error::text("cannot exec in a stopped container")),
            Status::Paused if !options.ignore_paused => {
                return Err(Error::text(
                    "cannot exec in a paused container (use --ignore-paused to override)",
                ));
            }
            _ => {}
        }
        let own = Process::parse(self.record.process.as_str())
            .map_err(|error| crate::error::damaged(self.id(), error))?;
        let read;
        let process = match options.process {
            Some(document) => {
                let (name, text, terminal) = match document {
                    ProcessDocument::File(path) => {
                        self.trace.point("read", path)?;
                        read = read_process(path)?;
                        (path, read.as_str(), None)
                    }
                    ProcessDocument::Text { json, terminal } => ("process", json, Some(terminal)),
                };
                let (mut process, misspelt) = Process::parse_and_tell(text.as_bytes())
                    .map_err(|error| Error::Parse { path: name.to_string(), error })?;
                options.warn.misspelt(name, &misspelt);
                process.terminal = terminal.unwrap_or(process.terminal);
                complete(process, own)
            }
            None => amend(own, options)?,
        };
        spec::validate_process(&process)?;
        check_preserved(options.preserve_fds)?;

        let (terminal, detach) = (process.terminal, options.detach);
        let receiver = Receiver { socket: options.console_socket, given: options.console };
        let mut console = Console::prepare(terminal, receiver, detach, connected, self.trace)?;
        let ours = console.take_receiver();
        let signals = match options.detach {
            true => None,
            false => Some(foreground::Signals::block(false, self.trace)?),
        };
        self.trace.point("compile", "plan")?;
        let plan: &'static Plan = Box::leak(Box::new(plan::compile_exec(
            &process,
            ExecRequest {
                id: self.id(),
                namespaces: CloneFlags::from_bits_retain(self.record.namespaces),
                cgroup: self.exec_cgroup(&options.cgroup)?,
                cgroup_is_asked_for: !options.cgroup.is_empty(),
                memory_is_limited: match &self.record.cgroup {
                    Some(location) => location.limits_memory(),
                    None => false,
                },
                init: self.init_number(),
                execution: self.record.execution.clone(),
                resctrl: self.record.resctrl.clone(),
                filter: self.filter()?,
                agent: self.agent(),
                preserve_fds: options.preserve_fds,
                console: console.source(),
                terminal_size: ours.as_ref().and_then(|_| Terminal::own_size()),
                keyring: self.record.keyring,
                keep_groups: plan::keeps_groups(
                    self.record.annotations.iter().map(|(key, value)| (&**key, &**value)),
                ),
                fast_paths: safe_fast_paths(options.fast_paths, options.pidfd_socket),
                caller: match self.record.confined {
                    true => Caller::probe(None),
                    // The host's root created the container. Only root can read the records of such containers, so the
                    // caller is root, too.
                    false => Caller::default(),
                },
            },
        )?));
        options.warn.all(&plan.warnings);
        let Launched { child, program_since, .. } = self.launch_exec(options, plan, console)?;
        let status = match signals {
            None => Ok(0),
            Some(signals) => Terminal::receive(ours, self.trace).and_then(|terminal| {
                self.trace.wait(Phase::Program, "process runs", "", PROGRAM, || {
                    self.trace.prepare(self.id());
                    signals.wait(&child, terminal.as_ref(), None, &mut None, None)
                })
            }),
        };
        if status.is_err() {
            // Kills the process: this command fails, so the caller would not learn that the process is running.
            let _ = sys::signal::send(child.pidfd.as_fd(), 9);
            let _ = launch::wait(&child.pidfd);
            pid_file::remove(options.pid_file);
        }
        let program = options.args.first().copied().unwrap_or_default();
        let time = (program_since, self.trace.clock());
        self.trace.lived(PROGRAM, child.pid, Phase::Program, program, time);
        status.map(|status| (child, status))
    }

    fn launch_exec(
        &self,
        options: &ExecOptions<'_>,
        plan: &'static Plan,
        console: Console<'_>,
    ) -> Result<Launched, Error> {
        self.trace.point("open", "container init")?;
        let (_, init) = self.init().ok_or(Error::NotRunning)?;
        let mut given = Vec::from([(Slot::CONTAINER, init)]);
        given.extend(console.into_sender().map(|socket| (Slot::CONSOLE, socket)));
        let bundle = c_path(self.record.bundle.as_str()).context("find", &self.record.bundle)?;
        let (pid_file, pidfd_socket) = (options.pid_file, options.pidfd_socket);
        let launched =
            launch::start(plan, given, None, &bundle, self.trace).and_then(|mut born| {
                born.record(|child| announce(child, "setns", pid_file, pidfd_socket, self.trace))?;
                born.commit(None)
            });
        Ok(launched.inspect_err(|_| pid_file::remove(pid_file))?)
    }

    /// Returns the container's cgroup, or the requested sub-cgroup.
    fn exec_cgroup(&self, subs: &[&str]) -> Result<Option<cgroup::Location>, Error> {
        let Some(location) = &self.record.cgroup else { return Ok(None) };
        Ok(Some(sub_cgroup(location, subs)?))
    }

    fn init_number(&self) -> i32 {
        self.header.process.map_or(0, |(pid, _)| pid.as_raw_nonzero().get())
    }

    fn agent(&self) -> Option<ExecAgent<'_>> {
        let (socket, metadata) = self.record.agent.as_deref()?;
        let init = self.init_number();
        Some(ExecAgent { socket, metadata, init, state_head: &self.record.state_head })
    }

    fn filter(&self) -> Result<Option<seccomp::Program>, Error> {
        if self.filter.is_empty() {
            return Ok(None);
        }
        match seccomp::Program::from_bytes(&self.filter) {
            Some(program) => Ok(Some(program)),
            None => Err(crate::error::damaged(self.id(), "seccomp program")),
        }
    }
}

/// Returns the options that avoid this failure, or the error if there are none: see [`attempt`].
#[cold]
fn other_way<'a>(options: &ExecOptions<'a>, error: Error) -> OtherWay<ExecOptions<'a>> {
    let Error::Launch(launch::Error::Stillborn(connected)) = error else { return Err(error) };
    let fast_paths = options.fast_paths - FastPaths::CLONE_INTO_CGROUP;
    Ok((ExecOptions { fast_paths, warn: Warn::default(), ..options.clone() }, connected))
}

fn read_process(path: &str) -> Result<String, Error> {
    let path = absolute(path)?;
    let bytes = sys::fs::read_at(CWD, path.as_str()).context("open", &path)?;
    String::from_utf8(bytes).map_err(|_| Error::Text(format!("{path}: not UTF-8")))
}

/// Completes a process file as runc does: the attributes below get the values of the container's own process if the file
/// omits them. All others are those of the file: without `user`, the process is root of the container, and without
/// `noNewPrivileges` it may gain privileges, even if the container's own process may not.
fn complete<'a>(mut process: Process<'a>, own: Process<'a>) -> Process<'a> {
    process.capabilities = process.capabilities.or(own.capabilities);
    process.oom_score_adj = process.oom_score_adj.or(own.oom_score_adj);
    process.apparmor_profile = process.apparmor_profile.or(own.apparmor_profile);
    process.selinux_label = process.selinux_label.or(own.selinux_label);
    process.scheduler = process.scheduler.or(own.scheduler);
    process.io_priority = process.io_priority.or(own.io_priority);
    process.exec_cpu_affinity = process.exec_cpu_affinity.or(own.exec_cpu_affinity);
    if process.rlimits.is_empty() {
        process.rlimits = own.rlimits;
    }
    process
}

/// Returns the cgroup selected by `--cgroup PATH` on v2 or `--cgroup CONTROLLER[,…]:PATH` on v1, by runc's rules.
fn sub_cgroup(location: &cgroup::Location, subs: &[&str]) -> Result<cgroup::Location, Error> {
    let mut result = location.clone();
    let mut named: Vec<&str> = Vec::new();
    for sub in subs {
        let invalid =
            |why: &str| Err(Error::Text(format!("invalid --cgroup argument: {sub} ({why})")));
        let (controllers, path) = match sub.split_once(':') {
            Some(("", _)) => return invalid("empty <controller> prefix"),
            Some((controllers, path)) => (Some(controllers), path),
            None if location.is_unified() || subs.len() == 1 => (None, *sub),
            None => return invalid("missing <controller>: prefix"),
        };
        for controller in controllers.unwrap_or_default().split(',').filter(|name| !name.is_empty())
        {
            if named.contains(&controller) {
                return Err(Error::Text(format!(
                    "invalid --cgroup argument(s): controller {controller} specified multiple times"
                )));
            }
            named.push(controller);
        }
        result = result.sub(controllers, path)?;
    }
    // The requested cgroup must exist: a process that silently ran in another cgroup would escape the limits.
    let places = result.legacy.iter().map(|legacy| &legacy.place).chain(&result.unified);
    for place in places.filter(|_| !subs.is_empty()) {
        rustix::fs::access(place.directory(), rustix::fs::Access::EXISTS)
            .context("open cgroup", place.directory())?;
    }
    Ok(result)
}

/// Applies the command line's options to the container's own process, by runc's rules.
fn amend<'a>(mut process: Process<'a>, options: &ExecOptions<'a>) -> Result<Process<'a>, Error> {
    process.args = options.args.iter().map(|arg| Str::new(arg)).collect();
    process.terminal = options.tty.unwrap_or(false);
    process.console_size = None;
    if let Some(cwd) = options.cwd {
        process.cwd = Str::new(cwd);
    }
    process.env.extend(options.env.iter().map(|entry| Str::new(entry)));
    if let Some(value) = options.no_new_privs {
        process.no_new_privileges = value;
    }
    if let Some(profile) = options.apparmor {
        process.apparmor_profile = Some(Str::new(profile));
    }
    if let Some(label) = options.process_label {
        process.selinux_label = Some(Str::new(label));
    }
    if let Some(user) = options.user {
        let (uid, gid) = match user.split_once(':') {
            Some((uid, gid)) => (uid, Some(gid)),
            None => (user, None),
        };
        process.user.uid = number("uid", uid)?;
        if let Some(gid) = gid {
            process.user.gid = number("gid", gid)?;
        }
    }
    process.user.additional_gids.extend(&options.additional_gids);
    for name in &options.caps {
        add_capability(process.capabilities.get_or_insert_default(), name);
    }
    Ok(process)
}

/// Parses numbers of the command line strictly: only digits are accepted (CVE-2026-30892).
fn number(what: &str, text: &str) -> Result<u32, Error> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    let number = number.or_else(|| is_off(Defence::StrictIntegers).then_some(0));
    number.ok_or_else(|| Error::Text(format!("bad {what}: {text:?} is not a 32-bit number")))
}

/// Adds a capability to the bounding, effective and permitted sets. The inheritable set stays unchanged
/// (CVE-2022-29162). If the inheritable set is not empty, the capability is also added to the ambient set, as in runc.
/// The plan warns of an unknown name, and of a capability that cannot be raised.
fn add_capability<'a>(sets: &mut Capabilities<'a>, name: &'a str) {
    let ambient = (!sets.inheritable.is_empty()).then_some(&mut sets.ambient);
    let inheritable = is_off(Defence::Inheritable).then_some(&mut sets.inheritable);
    let sets = [&mut sets.bounding, &mut sets.effective, &mut sets.permitted];
    for set in sets.into_iter().chain(inheritable).chain(ambient) {
        if !set.iter().any(|known| known == name) {
            set.push(Str::new(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_fit() {
        assert_eq!(number("user", "1000").ok(), Some(1000));
        for bad in ["", "+1", "-1", " 1", "1 ", "0x1", "1a", "4294967296", "١"] {
            assert!(number("user", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn added_capabilities_are_not_inheritable() {
        let options = ExecOptions { caps: alloc::vec!["CAP_KILL"], ..Default::default() };
        let sets = amend(Process::default(), &options).unwrap().capabilities.unwrap();
        assert_eq!((sets.bounding.len(), sets.effective.len(), sets.permitted.len()), (1, 1, 1));
        assert!(sets.inheritable.is_empty() && sets.ambient.is_empty());
        let mut sets = Capabilities { inheritable: alloc::vec![Str::new("CAP_CHOWN")], ..sets };
        add_capability(&mut sets, "CAP_CHOWN");
        assert_eq!((sets.inheritable.len(), sets.ambient.len()), (1, 1));
    }
}
