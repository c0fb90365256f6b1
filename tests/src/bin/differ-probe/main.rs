//! The program of the oracle's containers and hooks.
//!
//! ```text
//! differ-probe [exit=N]               tells on descriptor 3 what it sees, and waits there for leave to end
//! differ-probe hook KIND FILE [fail]  appends a line about itself to FILE
//! ```
//!
//! What the host can read about a process, it reads itself (`observe.rs`). The probe tells the rest: what each path is,
//! and what this process may do.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a number that is cut fails the test"
)]

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// File systems whose files are the kernel's, by the magic numbers of statfs(2): proc, sysfs, cgroup, cgroup2.
const KERNEL_OWNED: [i64; 4] = [0x9fa0, 0x6265_6572, 0x27_e0eb, 0x6367_7270];
const CGROUP2: i64 = 0x6367_7270;
/// More paths than a drawn image has. A bind of a host's root has more.
const MOST_PATHS: usize = 600;
/// What runtimes hide or make read-only.
const KERNEL_PATHS: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sys/kernel",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    "/sys/kernel",
    "/sys/fs",
    "/sys/fs/cgroup/cgroup.procs",
];
const SYSCTLS: &[&str] = &[
    "net/ipv4/ip_forward",
    "net/ipv4/ping_group_range",
    "net/ipv4/ip_unprivileged_port_start",
    "net/core/somaxconn",
    "kernel/hostname",
    "kernel/domainname",
    "kernel/shm_rmid_forced",
    "kernel/shmmax",
    "kernel/msgmax",
    "fs/mqueue/msg_max",
];

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let word = |index: usize| args.get(index).and_then(|arg| arg.to_str()).unwrap_or_default();
    if word(1) == "hook" {
        return hook(word(2), word(3), word(4) == "fail");
    }
    let mut channel = match sys::stdio::take_inherited(3) {
        Ok(fd) => File::from(fd),
        Err(_) => return ExitCode::from(99),
    };
    let mut report = Report(String::new());
    system(&mut report);
    terminal(&mut report);
    tries(&mut report);
    kernel_paths(&mut report);
    walk(&mut report);
    report.0.push('\0');
    if channel.write_all(report.0.as_bytes()).is_err() {
        return ExitCode::from(98);
    }
    let _ = channel.read(&mut [0]);
    let code = args.iter().find_map(|arg| arg.to_str()?.strip_prefix("exit=")?.parse().ok());
    ExitCode::from(code.unwrap_or(0))
}

/// Lines `KEY<TAB>VALUE`.
struct Report(String);

impl Report {
    fn tell(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{}\t{value}", key.escape_debug());
    }
}

fn system(report: &mut Report) {
    let uname = rustix::system::uname();
    report.tell("hostname", uname.nodename().to_string_lossy());
    report.tell("domainname", uname.domainname().to_string_lossy());
    report.tell("machine", uname.machine().to_string_lossy());
    let parent = rustix::process::parent_process_death_signal();
    report.tell("parent-death signal", outcome(parent.map(|signal| format!("{signal:?}"))));
    let bits = rustix::thread::capabilities_secure_bits();
    report.tell("securebits", outcome(bits.map(|bits| format!("{bits:?}"))));
    let own = rustix::process::getpid();
    // Runtimes whose init has threads use some up.
    report.tell("is process 1", (own == rustix::process::Pid::INIT).to_string());
    let is_leader =
        |id: Result<rustix::process::Pid, Errno>| outcome(id.map(|id| (id == own).to_string()));
    report.tell("leads its session", is_leader(rustix::process::getsid(None)));
    report.tell("leads its group", (rustix::process::getpgrp() == own).to_string());
    report.tell(
        "cwd",
        outcome(std::env::current_dir().map(|dir| dir.display().to_string()).map_err(errno)),
    );
}

fn terminal(report: &mut Report) {
    // Runtimes set the size while the program starts.
    for _ in 0..100 {
        let size = rustix::termios::tcgetwinsize(sys::stdio::stdin());
        if !size.is_ok_and(|size| size.ws_row == 0) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    for (name, fd) in
        [("in", sys::stdio::stdin()), ("out", sys::stdio::stdout()), ("err", sys::stdio::stderr())]
    {
        let size = rustix::termios::tcgetwinsize(fd);
        report.tell(
            &format!("tty {name} size"),
            outcome(size.map(|size| format!("{}x{}", size.ws_row, size.ws_col))),
        );
        let Ok(modes) = rustix::termios::tcgetattr(fd) else { continue };
        let all = format!(
            "{:?} {:?} {:?} {:?}",
            modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes
        );
        report.tell(&format!("tty {name} modes"), all);
        report.tell(
            &format!("tty {name} name"),
            outcome(
                rustix::termios::ttyname(fd, Vec::new())
                    .map(|name| name.to_string_lossy().into_owned()),
            ),
        );
    }
    let tty = rustix::fs::open(
        "/dev/tty",
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    report.tell("open /dev/tty", outcome(tty.map(|_| "ok".to_owned())));
}

/// System calls that drawn seccomp profiles, missing capabilities and device rules refuse.
fn tries(report: &mut Report) {
    let done = |result: Result<(), Errno>| outcome(result.map(|()| "ok".to_owned()));
    report.tell(
        "try getpriority",
        outcome(rustix::process::getpriority_process(None).map(|nice| nice.to_string())),
    );
    report.tell("try getpgid", done(rustix::process::getpgid(None).map(drop)));
    report.tell(
        "try sync_file",
        done(
            rustix::fs::openat(CWD, "/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .and_then(rustix::fs::fsync),
        ),
    );
    report.tell(
        "try socket",
        done(
            rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::DGRAM,
                None,
            )
            .map(drop),
        ),
    );
    report.tell(
        "try raw socket",
        done(
            rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::RAW,
                Some(rustix::net::ipproto::ICMP),
            )
            .map(drop),
        ),
    );
    report.tell("try unshare", done(rustix_unshare()));
    report.tell("try chroot", done(rustix::process::chroot("/")));
    for place in ["/tmp", "/", "/dev", "/a"] {
        let path = format!("{place}/.tried");
        let made = rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o777));
        if made.is_ok() {
            let owner = rustix::fs::lstat(&path)
                .map(|stat| format!("{:o} {}:{}", stat.st_mode, stat.st_uid, stat.st_gid));
            report.tell(&format!("try mkdir {place}"), outcome(owner));
            let _ = rustix::fs::unlinkat(CWD, &path, AtFlags::REMOVEDIR);
        } else {
            report.tell(&format!("try mkdir {place}"), done(made));
        }
    }
    for (name, kind, major, minor) in [
        ("null", FileType::CharacterDevice, 1, 3),
        ("mem", FileType::CharacterDevice, 1, 1),
        ("fuse", FileType::CharacterDevice, 10, 229),
        ("loop", FileType::BlockDevice, 7, 0),
    ] {
        let path = "/tmp/.node";
        let made = rustix::fs::mknodat(
            CWD,
            path,
            kind,
            Mode::from_raw_mode(0o600),
            rustix::fs::makedev(major, minor),
        );
        report.tell(&format!("try mknod /tmp {name}"), done(made));
        if made.is_ok() {
            let opened = rustix::fs::open(
                path,
                OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            );
            report.tell(&format!("try open /tmp {name}"), done(opened.map(drop)));
            let _ = rustix::fs::unlink(path);
        }
    }
}

/// In a child would be cleaner; a new cgroup namespace of this process changes nothing that it tells afterwards.
fn rustix_unshare() -> Result<(), Errno> {
    sys::ns::unshare(sys::clone::CloneFlags::NEWUTS)
}

fn kernel_paths(report: &mut Report) {
    for path in KERNEL_PATHS {
        describe(report, Path::new(path), true);
    }
    for name in SYSCTLS {
        let path = format!("/proc/sys/{name}");
        let value = std::fs::read_to_string(&path).map_err(errno);
        report.tell(
            &format!("sysctl {name}"),
            outcome(value.map(|text| text.trim().escape_debug().to_string())),
        );
    }
}

/// Describes every path below the root, breadth first, in the order of names. Does not go below the kernel's own file
/// systems.
fn walk(report: &mut Report) {
    let mut left = VecDeque::from([PathBuf::from("/")]);
    let mut count = 0;
    while let Some(directory) = left.pop_front() {
        if count > MOST_PATHS {
            return;
        }
        if directory == Path::new("/") {
            describe(report, &directory, false);
        }
        let kind = rustix::fs::statfs(&directory).map_or(0, |fs| fs.f_type);
        let is_cgroup_top = directory == Path::new("/sys/fs/cgroup");
        if KERNEL_OWNED.contains(&kind) && !is_cgroup_top {
            continue;
        }
        // The host's own root and what is below it is too much, and changes.
        if directory.starts_with("/host") && directory.components().count() > 2 {
            continue;
        }
        let mut paths: Vec<PathBuf> = match std::fs::read_dir(&directory) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) => {
                report.tell(&format!("list {}", directory.display()), errno(error));
                continue;
            }
        };
        paths.sort();
        if kind == CGROUP2 {
            // Groups of the host come and go.
            paths.retain(|path| !path.is_dir());
        }
        for path in paths {
            count += 1;
            if describe(report, &path, KERNEL_OWNED.contains(&kind))
                && !KERNEL_OWNED.contains(&kind)
            {
                left.push_back(path);
            }
        }
    }
}

/// Tells what a path is; returns whether it is a directory.
fn describe(report: &mut Report, path: &Path, opened: bool) -> bool {
    let key = format!("path {}", path.display());
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(errno) => {
            report.tell(&key, name(errno));
            return false;
        }
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let mut text =
        format!("{} {:o} {}:{}", kind_of(kind), stat.st_mode & 0o7777, stat.st_uid, stat.st_gid);
    match kind {
        FileType::Symlink => {
            let target = rustix::fs::readlink(path, Vec::new());
            let _ = write!(
                text,
                " -> {}",
                outcome(target.map(|target| target.to_string_lossy().into_owned()))
            );
        }
        FileType::CharacterDevice | FileType::BlockDevice => device(&mut text, path, &stat),
        FileType::RegularFile => {
            let content = if opened { String::new() } else { content(path, &stat) };
            let _ = write!(text, " {} {content}", access(path));
        }
        _ => {
            let _ = write!(text, " {}", access(path));
            if opened && kind == FileType::Directory {
                let listed =
                    std::fs::read_dir(path).map(|entries| entries.count() > 0).map_err(errno);
                let _ =
                    write!(text, " filled {}", outcome(listed.map(|filled| filled.to_string())));
            }
        }
    }
    report.tell(&key, text);
    kind == FileType::Directory
}

fn kind_of(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "dir",
        FileType::Symlink => "link",
        FileType::CharacterDevice => "char",
        FileType::BlockDevice => "block",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        _ => "unknown",
    }
}

fn device(text: &mut String, path: &Path, stat: &Stat) {
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Opening a ptmx makes a terminal.
    let opened = if major == 5 && minor == 2 {
        Ok(())
    } else {
        rustix::fs::open(path, flags, Mode::empty()).map(drop)
    };
    let _ = write!(text, " {major}:{minor} {}", outcome(opened.map(|()| "opens".to_owned())));
}

/// What this process may do with a file: `rwx`, and the reason if it may not write.
fn access(path: &Path) -> String {
    let may = |access| rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS);
    let mut text = String::new();
    for (letter, access) in [('r', Access::READ_OK), ('x', Access::EXEC_OK)] {
        text.push(if may(access).is_ok() { letter } else { '-' });
    }
    match may(Access::WRITE_OK) {
        Ok(()) => text.push('w'),
        Err(errno) => text.push_str(&name(errno)),
    }
    text
}

/// Size, and a sum of the contents, of a small file.
fn content(path: &Path, stat: &Stat) -> String {
    if stat.st_size > 4096 {
        return "large".to_owned();
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(errno) => return name(errno),
    };
    let mut bytes = Vec::new();
    if let Err(error) = file.take(4096).read_to_end(&mut bytes) {
        return errno(error).to_string();
    }
    let length = bytes.len();
    let sum = dayfly_tests::differ::sum(0xcbf2_9ce4_8422_2325, bytes);
    format!("{length} {:08x}", sum as u32)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn outcome(result: Result<String, Errno>) -> String {
    result.unwrap_or_else(name)
}

fn name(errno: Errno) -> String {
    format!("E{}", errno.raw_os_error())
}

/// Appends one line about this hook: what it was given, and whose namespaces it is in.
fn hook(kind: &str, path: &str, fails: bool) -> ExitCode {
    let mut state = String::new();
    let _ = std::io::stdin().read_to_string(&mut state);
    let mut line = kind.to_string();
    if let Ok(serde_json::Value::Object(state)) = serde_json::from_str(&state) {
        for key in ["ociVersion", "id", "status", "bundle", "annotations"] {
            let _ = write!(
                line,
                " {key}={}",
                state.get(key).map_or("none".to_owned(), ToString::to_string)
            );
        }
        let pid = state.get("pid").and_then(serde_json::Value::as_i64).unwrap_or(0);
        let _ = write!(line, " pid={}", pid > 0);
        // A createContainer hook has the container's number of the process, but the host's procfs.
        let other = if kind == "createContainer" { "1".to_owned() } else { pid.to_string() };
        // Inside, whether the links of process 1 can be read depends on the runtime.
        let namespaces: &[&str] =
            if kind == "startContainer" { &[] } else { &["mnt", "net", "uts", "pid"] };
        for namespace in namespaces {
            let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{namespace}")).ok();
            let _ = write!(line, " {namespace}={}", of("self") == of(&other));
        }
    } else {
        line.push_str(" no state");
    }
    let cwd = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    let _ = write!(line, " cwd={cwd} uid={}", rustix::process::getuid().as_raw());
    let mut environment: Vec<String> = std::env::vars_os()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect();
    environment.sort();
    let _ = write!(line, " env={environment:?}");
    line.push('\n');
    let file = File::options().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    ExitCode::from(u8::from(fails) * 3)
}
