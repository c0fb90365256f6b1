//! Handles SIGINT, SIGTERM and SIGHUP, which end a run of the suite. The processes of the run's cases are killed, and
//! their cgroups and files are removed.

use crate::view::View;
use crate::{bed, cgroups, leak};
use report::interrupt::{self, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Prevents calls from starting while the run is being ended. The start of a call takes the read lock. After a signal,
/// the thread of `watch` takes the write lock, and holds it until the process exits.
static GATE: RwLock<()> = RwLock::new(());

/// Keeps the run from ending as long as the returned value lives. Never returns once the run is being ended.
pub(crate) fn begin() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that waits for the signals. `shared` is the directory of the run.
///
/// # Panics
/// When the signals can't be caught.
pub(crate) fn watch(view: View, shared: &Path) {
    let shared = shared.to_owned();
    let streams = interrupt::streams().expect("catch signals");
    std::thread::spawn(move || {
        let number = wait(&streams);
        let _closed = GATE.write();
        eprintln!("signal {number}: the run ends");
        clean(view, &shared);
        std::process::exit(128 + number)
    });
}

/// Waits for a signal; returns its number.
fn wait(streams: &[Stream]) -> i32 {
    loop {
        let mut fds: Vec<PollFd<'_>> =
            streams.iter().map(|stream| PollFd::new(&stream.came, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
        let came = fds.iter().zip(streams).find(|(fd, _)| !fd.revents().is_empty());
        if let Some((_, stream)) = came {
            return stream.number;
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
