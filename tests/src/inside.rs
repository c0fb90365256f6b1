//! Makes mount calls for which busybox has no program. A process that joins a container's namespaces, and has all
//! capabilities there, makes the calls. setns(2) into a user namespace requires a single-threaded process, so the suite
//! executes its own program for this purpose.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    FsPickFlags, UnmountFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick, unmount,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::process::{Command, ExitCode};
use sys::clone::CloneFlags;
use sys::mount::{MountAttr, attr, mount_setattr};

const WORD: &str = "--inside";

/// Tries to make each mount, and the superblock of its file system, writable; `paths` are paths in the container.
/// Returns the attempts that succeeded.
///
/// # Panics
/// When the container does not exist.
#[must_use]
pub fn loosen(pid: i32, paths: &[&str]) -> String {
    call(pid, &[&["loosen"], paths].concat())
}

/// Unmounts the container's root in its mount namespace, tries to make the mount under it writable, and tries to create
/// a directory there. Returns the attempts that succeeded, and the names in that mount's root directory.
///
/// # Panics
/// As [`loosen`].
#[must_use]
pub fn change_below_root(pid: i32) -> String {
    call(pid, &["below"])
}

fn call(pid: i32, args: &[&str]) -> String {
    let mut command = Command::new("/proc/self/exe");
    let output = command.arg(WORD).arg(pid.to_string()).args(args).output().expect("execute");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Performs the mount calls of this module if the suite executed itself for that purpose; otherwise returns `None`.
pub fn called() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [word, pid, what, paths @ ..] = &args[..] else { return None };
    if word != WORD {
        return None;
    }
    let pid = pid.parse().ok().and_then(Pid::from_raw).expect("pid");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("container");
    // Fails with EINVAL if the container shares our user namespace.
    let _ = sys::ns::join_process(process.as_fd(), CloneFlags::NEWUSER);
    sys::ns::join_process(process.as_fd(), CloneFlags::NEWNS).expect("mount namespace");
    match what.as_str() {
        "loosen" => paths.iter().for_each(|path| loosen_one(path)),
        _ => below(&process),
    }
    Some(ExitCode::SUCCESS)
}

fn tell(what: &str, result: Result<(), Errno>) {
    match result {
        Ok(()) => println!("{what}"),
        Err(errno) => eprintln!("{what}: {errno}"),
    }
}

fn loosen_one(path: &str) {
    let Ok(place) = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return };
    let clear = attr::RDONLY | attr::NOSUID | attr::NODEV | attr::NOEXEC;
    let attr = MountAttr { clear, ..MountAttr::default() };
    tell(&format!("mount {path}"), mount_setattr(place.as_fd(), false, &attr));
    tell(&format!("superblock {path}"), reconfigure(&place));
}

fn reconfigure(place: &OwnedFd) -> Result<(), Errno> {
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let context = fspick(place, c"", flags)?;
    fsconfig_set_flag(&context, c"rw")?;
    fsconfig_reconfigure(&context)
}

fn below(process: &OwnedFd) {
    unmount("/", UnmountFlags::DETACH).expect("unmount");
    // After setns(2) to the mount namespace, a process's root is the topmost mount that remains.
    sys::ns::join_process(process.as_fd(), CloneFlags::NEWNS).expect("mount namespace");
    loosen_one("/");
    for entry in std::fs::read_dir("/").expect("read").flatten() {
        println!("found {}", entry.path().display());
    }
    tell("made", rustix::fs::mkdirat(CWD, "/made", Mode::RWXU));
}
