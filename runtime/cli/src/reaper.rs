//! The first process of a container that was started with `--init`. This process runs the program as its child,
//! forwards signals to the program, reaps orphans, and exits with the program's exit status.
//!
//! This process runs under the container's seccomp filter and as the container's user. The only file of the host that
//! it can access is dayfly's own binary, on a read-only mount.
//!
//! The binary is mounted from the file that dayfly was executed from, and not from /proc/self/exe, because a sealed
//! command may run from a memfd or a detached mount (`launch/src/seal.rs`). An init that forked and stayed would need
//! no mount, but would keep a copy of the command's memory in the container.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::fmt::Write;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{getpid, setpgid};
use rustix::termios::tcsetpgrp;
use sys::clone::{Clone, clone3_bound};
use sys::exec::cloexec_from;
use sys::signal::{self, SignalSet};
use sys::stdio::{Stderr, stdin};

use crate::execute::{DEFAULT_PATH, execute, within};

/// The exit statuses, as in shells, for a program that was not found and for one that was found but cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
const SIGCHLD: i32 = 17;

/// Runs the program that the arguments name. Returns its exit status, or 128 + n if signal n killed it.
pub fn run(args: sys::Args) -> i32 {
    match try_run(args) {
        Ok(status) => status,
        Err(errno) => {
            let _ =
                writeln!(Stderr, "error: init of the container: {}", sys::errno::describe(errno));
            NOT_EXECUTABLE
        }
    }
}

fn try_run(args: sys::Args) -> Result<i32, Errno> {
    signal::reset_sigchld();
    // All signals are blocked, so that the kernel queues them for the signalfd. Unblocked signals without a handler
    // would be discarded, since this process is the first in its pid namespace.
    signal::set_mask(SignalSet::ALL)?;
    let signals = signal::signalfd(SignalSet::ALL)?;
    let child = match clone3_bound()? {
        Clone::Parent(child) => child,
        Clone::Child => {
            let _ = signal::set_mask(SignalSet::EMPTY);
            sys::start::exit(become_program(args))
        }
    };
    loop {
        match poll(&mut [PollFd::new(&signals, PollFlags::IN)], None) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        while let Ok(number) = signal::read_signal(signals.as_fd()) {
            if number != SIGCHLD {
                let _ = signal::send(child.pidfd.as_fd(), number);
            }
        }
        if let Some(status) = container::reap(&child)? {
            return Ok(status);
        }
    }
}

/// Runs in the child. Creates a process group, makes it the terminal's foreground group, and executes the program. The
/// terminal then sends its signals only to this group, so the program does not receive them a second time from its
/// parent. Returns only if the program cannot be executed.
fn become_program(args: sys::Args) -> i32 {
    // The program gets the standard streams only.
    if cloexec_from(3).is_err() {
        return NOT_EXECUTABLE;
    }
    let _ = setpgid(None, None);
    // tcsetpgrp(3) from a background process group raises SIGTTOU, which would stop the process.
    let mask = signal::set_mask(SignalSet::ALL);
    let _ = tcsetpgrp(stdin(), getpid());
    if let Ok(mask) = mask {
        let _ = signal::set_mask(mask);
    }
    let argv: Vec<CString> = args.iter().skip(1).map(CString::from).collect();
    let name = argv.first().cloned().unwrap_or_default();
    let path = args.env("PATH").unwrap_or(DEFAULT_PATH);
    let mut directories = path.split(':').filter(|directory| !directory.is_empty());
    let paths = match name.to_bytes().contains(&b'/') {
        true => Vec::from([name.clone()]),
        false => within(&mut directories, &name.to_string_lossy()),
    };
    let why = execute(&paths, argv, args);
    let name = name.to_string_lossy();
    let _ = writeln!(Stderr, "error: exec {name}: {}", sys::errno::describe(why));
    if why == Errno::NOENT { NOT_FOUND } else { NOT_EXECUTABLE }
}
