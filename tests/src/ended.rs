//! Ends a run of the suite early: after SIGINT, SIGTERM or SIGHUP, and if a case hangs. The processes of the run's cases
//! are killed, and their cgroups and files are removed.

use crate::view::View;
use crate::{bed, cgroups, leak, runner, running};
use report::interrupt::{self, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Prevents calls from starting while the run is being ended. The start of a call takes the read lock. When the run
/// ends, the thread of `watch` takes the write lock, and holds it until the process exits.
static GATE: RwLock<()> = RwLock::new(());

/// Keeps the run from ending as long as the returned value lives. Never returns once the run is being ended.
pub(crate) fn begin() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Why a run ends early.
enum Cause {
    /// A signal, by its number.
    Signal(i32),
    /// A case, by its name, that has exceeded the maximum time of a case.
    Hanging(String),
}

/// Starts a thread that waits for the signals, and for a case that hangs. `shared` is the directory of the run.
///
/// # Panics
/// When the signals can't be caught.
pub(crate) fn watch(view: View, shared: &Path) {
    let shared = shared.to_owned();
    let streams = interrupt::streams().expect("catch signals");
    std::thread::spawn(move || {
        let cause = wait(&streams);
        let _closed = GATE.write();
        let status = match cause {
            Cause::Signal(number) => {
                eprintln!("signal {number}: the run ends");
                128 + number
            }
            Cause::Hanging(name) => {
                println!("test {name} ... FAILED (has not ended after {:?})", running::limit());
                println!("\n---- {name}\nhangs; the cases after it were not run");
                runner::count(0, 1, 0);
                1
            }
        };
        clean(view, &shared);
        std::process::exit(status)
    });
}

fn wait(streams: &[Stream]) -> Cause {
    loop {
        let mut fds: Vec<PollFd<'_>> =
            streams.iter().map(|stream| PollFd::new(&stream.came, PollFlags::IN)).collect();
        let left = Timespec::try_from(running::time_left()).ok();
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
        let came = fds.iter().zip(streams).find(|(fd, _)| !fd.revents().is_empty());
        if let Some((_, stream)) = came {
            return Cause::Signal(stream.number);
        }
        if let Some(name) = running::hanging() {
            return Cause::Hanging(name);
        }
    }
}

fn clean(view: View, shared: &Path) {
    leak::sweep(view, &bed::ids());
    cgroups::remove_parents(view);
    // A case may have mounted a directory of the host there, whose files must not be removed. So the directory stays if
    // anything is mounted in it.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if !mounts.contains(&*shared.to_string_lossy()) {
        let _ = fs::remove_dir_all(shared);
    }
}
