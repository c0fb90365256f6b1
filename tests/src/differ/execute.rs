//! Runs one case with one runtime, and gathers what there is to see: inside, on the host, and afterwards.

use crate::differ::bed::{Bed, USER, remove_cgroup};
use crate::differ::observe::{self, Facts};
use crate::differ::streams::Streams;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{FdFlags, dup2, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, wait, waitpid,
};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time after which a command hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A runtime.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// `dayfly`, `runc`, `crun`.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
}

/// What one runtime made of a case.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Everything that is compared.
    pub facts: Facts,
    /// What the runtime wrote, for a reader.
    pub text: String,
}

impl Outcome {
    /// Returns whether a program of the container ran.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.facts.contains_key("Uid")
    }
}

/// Descriptor 3 of every program that a worker starts: a socket to the probe, or /dev/null.
pub struct Channel(OwnedFd);

impl Channel {
    /// Takes descriptor 3, which must be the first one that this process opens.
    ///
    /// # Errors
    /// If descriptor 3 is in use.
    pub fn take() -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let null = OwnedFd::from(File::open("/dev/null")?);
        if null.as_raw_fd() != 3 {
            return Err(io::Error::other("descriptor 3 is in use"));
        }
        fcntl_setfd(&null, FdFlags::empty())?;
        Ok(Self(null))
    }

    /// Puts a new socket at descriptor 3; returns its other end.
    fn open(&mut self) -> io::Result<OwnedFd> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_passcred(&ours, true)?;
        dup2(&theirs, &mut self.0)?;
        Ok(ours)
    }

    fn close(&mut self) -> io::Result<()> {
        let null = OwnedFd::from(File::open("/dev/null")?);
        Ok(dup2(&null, &mut self.0)?)
    }
}

/// Runs a case.
///
/// # Errors
/// What keeps the worker from running anything; nothing that a runtime does.
pub fn run(
    bed: &Bed,
    channel: &mut Channel,
    runtime: &Runtime,
    case: &Value,
) -> io::Result<Outcome> {
    bed.build_image(case["image"].as_array().map_or(&[], Vec::as_slice))?;
    let joins = case["config"].to_string().contains("@N/");
    if joins {
        bed.renew_namespaces()?;
    }
    let config = bed.place(&case["config"].to_string());
    fs::write(bed.top.join("bundle/config.json"), config)?;
    let hooks = bed.top.join("hooks");
    let _ = fs::remove_file(&hooks);
    if bed.is_rootless {
        fs::write(&hooks, "")?;
        chown(&hooks, Some(USER), Some(USER))?;
    }
    let (host, image) = (bed.look(), bed.image());
    let path = case["config"]["linux"]["cgroupsPath"].as_str().unwrap_or_default().to_owned();
    let mut run = Run {
        bed,
        channel,
        runtime,
        outcome: Outcome::default(),
        texts: Vec::new(),
        masks: masks(case),
        path,
    };
    if case["detach"] == true { run.detached(case) } else { run.foreground(case) }?;
    run.sweep();
    let mut outcome = run.outcome;
    changes(&mut outcome.facts, "host", &host, &bed.look());
    if outcome.has_started() {
        let log = fs::read_to_string(&hooks).unwrap_or_default();
        let inside = fs::read_to_string(bed.top.join("bundle/rootfs/hooklog")).unwrap_or_default();
        for (number, line) in log.lines().chain(inside.lines()).enumerate() {
            outcome.facts.insert(format!("hook {number}"), line.to_owned());
        }
        changes(&mut outcome.facts, "image", &image, &bed.image());
    }
    outcome.facts =
        outcome.facts.iter().map(|(key, value)| (bed.unplace(key), bed.unplace(value))).collect();
    outcome.text = bed.unplace(&outcome.text);
    Ok(outcome)
}

fn changes(facts: &mut Facts, name: &str, before: &[String], after: &[String]) {
    // The details of a mount that is new, or has gone, tell nothing more: `mount PLACE DETAIL=VALUE`.
    let is_detail = |line: &str, there: &[String]| {
        let mut words = line.split(' ');
        let (word, place, detail) = (words.next(), words.next(), words.next());
        let whole = format!("mount {}=", place.unwrap_or_default());
        word == Some("mount")
            && detail.is_some()
            && !there.iter().any(|other| other.starts_with(&whole))
    };
    let lines = |here: &[String], there: &[String]| -> Vec<String> {
        here.iter()
            .filter(|line| !there.contains(line) && !is_detail(line, there))
            .cloned()
            .collect()
    };
    for line in lines(before, after) {
        facts.insert(format!("{name} lost {line}"), String::new());
    }
    for line in lines(after, before) {
        facts.insert(format!("{name} got {line}"), String::new());
    }
}

struct Run<'a> {
    bed: &'a Bed,
    channel: &'a mut Channel,
    runtime: &'a Runtime,
    outcome: Outcome,
    texts: Vec<String>,
    masks: Vec<String>,
    /// `cgroupsPath`
    path: String,
}

/// Returns the paths that a case hides.
fn masks(case: &Value) -> Vec<String> {
    let paths = case["config"]["linux"]["maskedPaths"].as_array().into_iter().flatten();
    paths.filter_map(|path| path.as_str().map(str::to_owned)).collect()
}

impl Run<'_> {
    fn tell(&mut self, key: &str, value: impl ToString) {
        self.outcome.facts.insert(key.to_owned(), value.to_string());
    }

    /// Returns the command without its last words.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.runtime.program);
        command.arg("--root").arg(self.state()).args(words);
        command.current_dir(&self.bed.top);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        if self.bed.is_rootless {
            let user = self.bed.top.join("user");
            command.uid(USER).gid(USER).env("HOME", &user).env("XDG_RUNTIME_DIR", user);
        }
        command
    }

    /// Returns the directory of the runtime's state.
    fn state(&self) -> PathBuf {
        let top = if self.bed.is_rootless { "user/state-" } else { "state-" };
        self.bed.top.join(format!("{top}{}", self.runtime.name))
    }

    fn foreground(&mut self, case: &Value) -> io::Result<()> {
        let bundle = self.bed.top.join("bundle").display().to_string();
        let mut command = self.command(&[
            "run",
            "--preserve-fds",
            "1",
            "--bundle",
            &bundle,
            &self.bed.id.clone(),
        ]);
        let is_terminal = case["config"]["process"]["terminal"] == true;
        let mut streams = if is_terminal { Streams::terminal()? } else { Streams::files()? };
        streams.give(&mut command)?;
        let socket = self.channel.open()?;
        let mut child = command.spawn()?;
        self.channel.close()?;
        drop(command);
        if let Some(pid) = self.report("", &socket, &child)? {
            self.observe("", pid, true);
            self.leave(&socket);
        }
        let code = self.end(&mut child)?;
        self.ended("exit", &code, &mut streams);
        Ok(())
    }

    fn detached(&mut self, case: &Value) -> io::Result<()> {
        let bundle = self.bed.top.join("bundle").display().to_string();
        let id = self.bed.id.clone();
        let mut command =
            self.command(&["run", "--detach", "--preserve-fds", "1", "--bundle", &bundle, &id]);
        let mut streams = Streams::files()?;
        streams.give(&mut command)?;
        let socket = self.channel.open()?;
        let mut child = command.spawn()?;
        self.channel.close()?;
        let code = self.end(&mut child)?;
        self.ended("run", &code, &mut streams);
        if code != "0" {
            return Ok(());
        }
        let Some(pid) = self.report("", &socket, &child)? else { return Ok(()) };
        self.observe("", pid, true);
        if !case["exec"].is_null() {
            self.exec(&case["exec"])?;
        }
        self.leave(&socket);
        let code = self.reap(pid);
        self.tell("exit", code);
        let mut command = self.command(&["delete", &id]);
        let mut streams = Streams::files()?;
        streams.give(&mut command)?;
        let mut child = command.spawn()?;
        let code = self.end(&mut child)?;
        self.ended("delete", &code, &mut streams);
        Ok(())
    }

    fn exec(&mut self, process: &Value) -> io::Result<()> {
        let file = self.bed.top.join("process.json");
        fs::write(&file, self.bed.place(&process.to_string()))?;
        let (file, id) = (file.display().to_string(), self.bed.id.clone());
        let mut command = self.command(&["exec", "--preserve-fds", "1", "--process", &file, &id]);
        let mut streams = Streams::files()?;
        streams.give(&mut command)?;
        let socket = self.channel.open()?;
        let mut child = command.spawn()?;
        self.channel.close()?;
        if let Some(pid) = self.report("exec: ", &socket, &child)? {
            self.observe("exec: ", pid, false);
            self.leave(&socket);
        }
        let code = self.end(&mut child)?;
        self.ended("exec exit", &code, &mut streams);
        Ok(())
    }

    /// Reads the probe's report; returns the probe's pid, or `None` if it never began.
    fn report(&mut self, prefix: &str, socket: &OwnedFd, child: &Child) -> io::Result<Option<i32>> {
        let deadline = Instant::now() + PATIENCE;
        // A child that has ended has no pidfd.
        let watched = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok();
        let (mut text, mut pid) = (Vec::new(), None);
        while text.last() != Some(&0) {
            let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
            fds.extend(watched.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            if poll(&mut fds, Some(&left))? == 0 {
                self.tell(&format!("{prefix}hung"), "no report");
                break;
            }
            if !fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP) {
                break;
            }
            let mut bytes = [0; 65536];
            let mut space =
                [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let got = recvmsg(
                socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                RecvFlags::empty(),
            )?;
            for part in control.drain() {
                if let RecvAncillaryMessage::ScmCredentials(who) = part {
                    pid = Some(who.pid.as_raw_nonzero().get());
                }
            }
            if got.bytes == 0 {
                break;
            }
            text.extend_from_slice(&bytes[..got.bytes]);
        }
        if text.pop() != Some(0) {
            return Ok(None);
        }
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((key, value)) = line.split_once('\t') {
                self.tell(&format!("{prefix}{key}"), value);
            }
        }
        Ok(pid)
    }

    fn observe(&mut self, prefix: &str, pid: i32, has_mounts: bool) {
        observe::process(&mut self.outcome.facts, prefix, pid, &self.bed.namespaces());
        if has_mounts {
            let host = self.bed.mounts();
            observe::mounts(&mut self.outcome.facts, pid, &host, &self.masks);
            observe::cgroups(&mut self.outcome.facts, pid, self.bed.view);
        }
    }

    fn leave(&self, socket: &OwnedFd) {
        let _ = rustix::io::write(socket, b".");
    }

    /// Waits for a command; kills it if it hangs.
    fn end(&mut self, child: &mut Child) -> io::Result<String> {
        use std::os::unix::process::ExitStatusExt;
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        if poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&patience))? == 0 {
            self.tell("hung", true);
            child.kill()?;
        }
        let status = child.wait()?;
        Ok(status.code().map_or_else(
            || format!("signal {}", status.signal().unwrap_or(0)),
            |code| code.to_string(),
        ))
    }

    /// Waits for a container whose parent is this process, because it takes in orphans.
    fn reap(&mut self, pid: i32) -> String {
        let Some(pid) = Pid::from_raw(pid) else { return String::new() };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return "gone".to_owned() };
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        if matches!(poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&patience)), Ok(0)) {
            return "hung".to_owned();
        }
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                status.exit_status().map_or_else(|| "signal".to_owned(), |code| code.to_string())
            }
            other => format!("{other:?}"),
        }
    }

    /// Notes how a command ended, and what it wrote.
    fn ended(&mut self, name: &str, code: &str, streams: &mut Streams) {
        let text = streams.text();
        self.tell(name, code);
        if (!self.outcome.has_started() || name != "exit") && code != "0" {
            self.tell(&format!("{name} | error"), class(&text));
        }
        if !text.trim().is_empty() {
            self.texts.push(format!("{name}: {}", text.trim()));
        }
        self.outcome.text = self.texts.join("\n");
    }

    /// Removes what the container has left, and tells of it.
    fn sweep(&mut self) {
        let record = self.state().join(&self.bed.id);
        if record.exists() {
            self.tell("left a record", true);
            let id = self.bed.id.clone();
            let mut command = self.command(&["delete", "--force", &id]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Ok(mut child) = command.spawn() {
                let _ = self.end(&mut child);
            }
            let _ = fs::remove_dir_all(record);
        }
        self.sweep_processes();
        for parent in self.bed.view.parents() {
            let dir = parent.join(&self.bed.id);
            if !dir.exists() {
                continue;
            }
            // The parents of a deeper path stay with every runtime.
            let is_parent = ["sub", "relative", "x"].iter().any(|name| self.path.contains(name));
            if !is_parent
                || ["sub/deep", "relative", "x"].iter().any(|name| dir.join(name).exists())
            {
                self.tell(&format!("left a cgroup {}", dir.display()), true);
            }
            remove_cgroup(&dir);
        }
    }

    /// Ends every process that has become this worker's child.
    fn sweep_processes(&mut self) {
        let me = std::process::id();
        let begun = Instant::now();
        let mut told = false;
        while begun.elapsed() < Duration::from_secs(2) {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            let children =
                fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap_or_default();
            let mut is_left = false;
            for pid in
                children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            {
                let command = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
                    .unwrap_or_default();
                if command.starts_with("unshare\0") {
                    continue;
                }
                is_left = true;
                if begun.elapsed() > Duration::from_millis(200) {
                    if !told {
                        self.tell("left a process", command.replace('\0', " "));
                        told = true;
                    }
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            if !is_left {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Texts that callers look for in errors.
const ERRORS: &[&str] = &[
    "no such file or directory",
    "permission denied",
    "operation not permitted",
    "invalid argument",
    "not a directory",
    "is a directory",
    "file exists",
    "too many levels of symbolic links",
    "device or resource busy",
    "read-only file system",
    "exec format error",
    "executable file not found",
    "no such device or address",
    "no such device",
    "function not implemented",
    "no space left on device",
    "numerical result out of range",
    "argument list too long",
];

/// Returns the last of the known texts in what a failed runtime wrote, or "other". A warning is not why it failed.
fn class(text: &str) -> String {
    let is_error = |line: &&str| !line.contains("level=warning") && !line.contains("WARN");
    let text = text.lines().filter(is_error).collect::<String>().to_lowercase();
    let found =
        ERRORS.iter().filter_map(|error| Some((text.rfind(error)?, error.len(), *error))).max();
    found.map_or("other", |(_, _, error)| error).to_owned()
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn the_last_error_counts() {
        assert_eq!(class("open x: No such file or directory"), "no such file or directory");
        assert_eq!(class("a: permission denied: b: not a directory"), "not a directory");
        assert_eq!(class("no such device or address"), "no such device or address");
        assert_eq!(class("what"), "other");
        assert_eq!(class("WARN[0000] file exists\nERRO[0000] what"), "other");
        assert_eq!(class("level=warning msg=\"file exists\"\nlevel=error msg=what"), "other");
    }
}
