//! Finds the object of a system call: the path that an argument points to, or the file behind a descriptor. The caller
//! is stopped at the entry to the call (ptrace(2)).

use super::classify::{NETLINK, call};
use crate::base::*;
use host::follow::memory;

/// AT_FDCWD.
const HERE: i32 = -100;

/// Looks up the objects of calls, and remembers which sockets are netlink sockets.
#[derive(Debug, Default)]
pub struct Look {
    netlink: HashSet<String>,
}

impl Look {
    /// Returns the object of the call `name`, with `args`, that `pid` is about to make: a path, the kind of a
    /// descriptor (`"pipe"`), a text argument, or the name of an operation; empty if the call has no object.
    pub fn object(&self, pid: Pid, name: &str, args: &[u64; 6]) -> String {
        let arg = |at: usize| args.get(at).copied().unwrap_or(0);
        match call(name).map_or(("-", 0), |call| call.object) {
            ("path", at) => path(pid, HERE, arg(at)),
            ("at", at) => path(pid, arg(at) as i32, arg(at + 1)),
            ("file", at) => self.file(pid, arg(at) as i32),
            ("text", at) => memory::text(pid, arg(at)).unwrap_or_default(),
            ("operation", at) => operation(name, arg(at)),
            _ => String::new(),
        }
    }

    /// Records that `pid` has made a netlink socket.
    pub fn is_netlink(&mut self, pid: Pid, file: i32) {
        self.netlink.extend(link(pid, &format!("fd/{file}")));
    }

    fn file(&self, pid: Pid, file: i32) -> String {
        if file < 0 {
            return String::new();
        }
        let name = link(pid, &format!("fd/{file}")).unwrap_or_default();
        if self.netlink.contains(&name) { NETLINK.to_owned() } else { kind(&name).to_owned() }
    }
}

/// Returns the name of an operation of prctl(2) or bpf(2).
fn operation(call: &str, number: u64) -> String {
    let start = format!("{call} {number} ");
    let name = include_str!("operations.txt").lines().find_map(|line| line.strip_prefix(&start));
    name.map_or_else(|| number.to_string(), str::to_owned)
}

/// Returns the kind of object that a link of /proc/PID/fd names, without the object's number. A path is returned
/// unchanged.
fn kind(name: &str) -> &str {
    if let Some(name) = name.strip_prefix("anon_inode:") {
        return name.trim_matches(['[', ']']);
    }
    match name.split_once(":[") {
        Some((kind, _)) if !name.starts_with('/') => kind,
        _ => name,
    }
}

/// Returns the path at `address`. A relative path is joined to the path of `directory`.
fn path(pid: Pid, directory: i32, address: u64) -> String {
    let text =
        if address == 0 { String::new() } else { memory::text(pid, address).unwrap_or_default() };
    if let Some(file) = descriptor(&text) {
        return link(pid, &format!("fd/{file}")).unwrap_or(text);
    }
    if text.starts_with('/') {
        return text;
    }
    let base = match directory {
        HERE => link(pid, "cwd"),
        file => link(pid, &format!("fd/{file}")),
    };
    let base = base.unwrap_or_default();
    match text.as_str() {
        "" | "." => base,
        below => format!("{}/{below}", base.trim_end_matches('/')),
    }
}

/// Returns the number of the descriptor, if the path names a descriptor of the caller, such as `/proc/self/fd/3`.
fn descriptor(path: &str) -> Option<i32> {
    let places = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    places.iter().find_map(|place| path.strip_prefix(place)?.parse().ok())
}

fn link(pid: Pid, file: &str) -> Option<String> {
    let target = fs::read_link(format!("/proc/{}/{file}", pid.as_raw_pid())).ok()?;
    Some(target.to_string_lossy().into_owned())
}

/// Returns the process behind a pidfd of `pid`.
pub fn behind_pidfd(pid: Pid, file: i32) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{}/fdinfo/{file}", pid.as_raw_pid())).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    // The number of a process that has been reaped is -1.
    number.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::os::fd::AsRawFd;

    fn address(text: &CStr) -> u64 {
        text.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn paths_from_directories() {
        let own = rustix::process::getpid();
        let directory = fs::File::open("/usr").expect("/usr");
        let at = directory.as_raw_fd();
        assert_eq!(path(own, at, address(c"bin/env")), "/usr/bin/env");
        assert_eq!(path(own, at, address(c"")), "/usr");
        assert_eq!(path(own, at, address(c"/etc")), "/etc");
        let through = std::ffi::CString::new(format!("/proc/self/fd/{at}")).expect("no NUL");
        assert_eq!(path(own, HERE, address(&through)), "/usr");
    }

    #[test]
    fn channels_have_no_numbers() {
        assert_eq!(kind("pipe:[123]"), "pipe");
        assert_eq!(kind("anon_inode:[eventpoll]"), "eventpoll");
        assert_eq!(kind("anon_inode:bpf-prog"), "bpf-prog");
        assert_eq!(kind("/a:[b"), "/a:[b");
        let (reading, _) = rustix::pipe::pipe().expect("pipe");
        let own = rustix::process::getpid();
        assert_eq!(Look::default().file(own, reading.as_raw_fd()), "pipe");
    }

    #[test]
    fn pidfds_have_processes() {
        let own = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty());
        let pidfd = pidfd.expect("pidfd");
        assert_eq!(behind_pidfd(own, pidfd.as_raw_fd()), Some(own));
        let mut child = std::process::Command::new("/bin/true").spawn().expect("true");
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        child.wait().expect("reap");
        assert_eq!(behind_pidfd(own, pidfd.expect("pidfd").as_raw_fd()), None);
    }
}
