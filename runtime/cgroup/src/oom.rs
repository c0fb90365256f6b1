//! Notification of OOM kills.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sys::Context;

use crate::directory::Directory;
use crate::v2::limits;
use crate::wait::{self, Deadline};
use crate::{Cgroup, Controller, Error, Location, parse, v1};

/// The result of a read or wait of [`OomWatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomEvent {
    /// The kernel killed processes of the container because memory ran out. On cgroup v1 with `disableOOMKiller`, it
    /// paused them instead.
    Oom,
    /// The container has no processes any more, or its cgroup was removed. No further events follow.
    End,
    /// No event has occurred.
    None,
}

/// Watches one cgroup for OOM events. It has its own descriptors, so it is independent of the [`Cgroup`].
#[derive(Debug)]
pub struct OomWatch(Watch);

#[derive(Debug)]
enum Watch {
    /// The file memory.events. poll(2) and epoll(7) report each change as POLLPRI. After the cgroup's removal, they
    /// report POLLPRI permanently.
    Unified { memory: Watched, cgroup: Watched, kills: u64 },
    /// An eventfd(2) bound to memory.oom_control. The kernel signals the eventfd before a kill in this cgroup, and also
    /// if an ancestor cgroup runs out of memory, but not if the host runs out of memory. The counter in
    /// memory.oom_control includes the kills of all three cases (Linux 4.13).
    Legacy { control: Watched, event: OwnedFd, kills: u64 },
}

/// An open file that is read repeatedly, and its path for error messages.
#[derive(Debug)]
struct Watched {
    fd: OwnedFd,
    path: String,
}

impl Watched {
    fn open(directory: &Directory, name: &str) -> Result<Self, sys::Error> {
        let fd = directory.file(name, OFlags::RDONLY)?.into_fd();
        Ok(Self { fd, path: format!("{}/{name}", directory.path()) })
    }

    /// Reads the value of `key` from the file.
    fn key(&self, key: &str) -> Result<Reading, Error> {
        let mut page = [0; 4096];
        let count = match rustix::io::pread(&self.fd, &mut page, 0) {
            Err(Errno::NODEV) => return Ok(Reading::Gone),
            result => result.context("read", &self.path)?,
        };
        let text = core::str::from_utf8(page.get(..count).unwrap_or_default()).unwrap_or_default();
        Ok(parse::key(text, key).map_or(Reading::Unknown, Reading::Value))
    }
}

/// The result of reading a key's value.
enum Reading {
    Value(u64),
    /// The kernel does not provide the key.
    Unknown,
    /// The cgroup was removed.
    Gone,
}

impl Cgroup {
    /// Starts watching. Kills before this call are not reported.
    ///
    /// # Errors
    /// [`Error::NoController`] if the memory controller is missing; failing system calls.
    pub fn watch_oom(&self) -> Result<OomWatch, Error> {
        let (None, Some(unified)) = (self.legacy.first(), &self.unified) else {
            let memory = v1::require(&self.legacy, Controller::Memory, "memory.oom_control")?;
            return OomWatch::legacy(memory);
        };
        let directory = &unified.directory;
        // This call is made only for its error, which names the controller.
        limits::open(directory, "memory.events", OFlags::RDONLY)?;
        OomWatch::unified(directory)
    }
}

impl OomWatch {
    /// Starts watching the cgroup at `location`; returns `None` if the memory controller is missing. Kills before this
    /// call are not reported.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist; failing system calls.
    pub fn begin(location: &Location) -> Result<Option<Self>, Error> {
        match Cgroup::open(location)?.watch_oom() {
            Ok(watch) => Ok(Some(watch)),
            Err(Error::NoController { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn unified(directory: &Directory) -> Result<Self, Error> {
        let memory = Watched::open(directory, "memory.events")?;
        let cgroup = Watched::open(directory, "cgroup.events")?;
        let mut watch = Self(Watch::Unified { memory, cgroup, kills: 0 });
        // After the first read, poll(2) reports changes of the files.
        watch.read()?;
        Ok(watch)
    }

    /// Binds an eventfd to memory.oom_control (cgroup-v1/memory.rst, "OOM Control").
    fn legacy(directory: &Directory) -> Result<Self, Error> {
        let event =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("eventfd", "")?;
        let control = Watched::open(directory, "memory.oom_control")?;
        let numbers = (event.as_raw_fd(), control.fd.as_raw_fd());
        directory.write("cgroup.event_control", format_args!("{} {}", numbers.0, numbers.1))?;
        let kills = match control.key("oom_kill")? {
            Reading::Value(kills) => kills,
            Reading::Unknown | Reading::Gone => 0,
        };
        Ok(Self(Watch::Legacy { control, event, kills }))
    }

    /// Returns the descriptors for poll(2), each with its event mask. When one of them is ready, call
    /// [`OomWatch::read`].
    pub fn fds(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let first = self.fd();
        match &self.0 {
            Watch::Unified { cgroup, .. } => {
                Vec::from([first, (cgroup.fd.as_fd(), PollFlags::PRI)])
            }
            Watch::Legacy { .. } => Vec::from([first]),
        }
    }

    /// Returns the descriptor that reports only kills, with its event mask. When it is ready, call [`OomWatch::kills`].
    pub fn fd(&self) -> (BorrowedFd<'_>, PollFlags) {
        match &self.0 {
            Watch::Unified { memory, .. } => (memory.fd.as_fd(), PollFlags::PRI),
            Watch::Legacy { event, .. } => (event.as_fd(), PollFlags::IN),
        }
    }

    /// Returns the number of kills since the last call, without waiting. Returns `None` if the cgroup was removed; in
    /// that case, stop polling. If a killed process is already known to have exited, its kill is included: before the
    /// kernel kills a process, it increments the counter (or, on cgroup v1, signals the eventfd).
    ///
    /// On cgroup v1, each signal of the eventfd counts as a kill, even if the kernel only paused the container's
    /// processes, or killed a process outside the container.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn kills(&mut self) -> Result<Option<u64>, Error> {
        match &mut self.0 {
            Watch::Unified { memory, kills, .. } => Ok(match memory.key("oom_kill")? {
                Reading::Value(count) => Some(news(kills, count)),
                Reading::Unknown => Some(0),
                Reading::Gone => None,
            }),
            Watch::Legacy { control, event, kills } => {
                let is_signalled = is_signalled(event)?;
                legacy_kills(control, is_signalled, kills)
            }
        }
    }

    /// Returns the next event without waiting, or [`OomEvent::None`] if there is none.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn read(&mut self) -> Result<OomEvent, Error> {
        let kills = match &mut self.0 {
            Watch::Unified { .. } => self.kills()?,
            // The eventfd is also signalled by the removal of the cgroup.
            Watch::Legacy { control, event, kills } => match is_signalled(event)? {
                true => legacy_kills(control, true, kills)?,
                false => Some(0),
            },
        };
        match (kills, &self.0) {
            (None, _) => Ok(OomEvent::End),
            (Some(1..), _) => Ok(OomEvent::Oom),
            (Some(0), Watch::Legacy { .. }) => Ok(OomEvent::None),
            (Some(0), Watch::Unified { cgroup, .. }) => match cgroup.key("populated")? {
                Reading::Value(0) | Reading::Gone => Ok(OomEvent::End),
                Reading::Value(_) | Reading::Unknown => Ok(OomEvent::None),
            },
        }
    }

    /// Waits for an event, at most for `limit`.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn wait(&mut self, limit: Duration) -> Result<OomEvent, Error> {
        let deadline = Deadline::after(limit);
        loop {
            let fds = self.fds();
            let mut polled: Vec<_> =
                fds.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
            if !wait::ready(&mut polled, deadline)? {
                return Ok(OomEvent::None);
            }
            match self.read()? {
                // A counter of memory.events other than the number of kills has changed.
                OomEvent::None => {}
                event => return Ok(event),
            }
        }
    }
}

/// Returns the difference between `count` and `known`, or 0 if `count` is smaller, and sets `known` to the larger
/// value.
fn news(known: &mut u64, count: u64) -> u64 {
    let new = count.saturating_sub(*known);
    *known = count.max(*known);
    new
}

fn legacy_kills(
    control: &Watched,
    is_signalled: bool,
    kills: &mut u64,
) -> Result<Option<u64>, Error> {
    let new = match control.key("oom_kill")? {
        Reading::Value(count) => news(kills, count),
        Reading::Unknown => 0,
        Reading::Gone => return Ok(None),
    };
    if new == 0 && is_signalled {
        // The kernel will count this kill only after the signal. Adding the kill to `kills` now prevents a second
        // report of it.
        *kills += 1;
        return Ok(Some(1));
    }
    Ok(Some(new))
}

/// Returns whether an eventfd(2) was signalled since the last call of this function.
fn is_signalled(event: &OwnedFd) -> Result<bool, Error> {
    match rustix::io::read(event, &mut [0; 8]) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(sys::Error::new("read", "eventfd", errno).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Unified;
    use crate::fixture::Fixture;
    use crate::{Hierarchies, Location};

    #[test]
    fn kills_are_counted_from_the_start_of_the_watch() {
        let fixture = Fixture::new(&[]);
        let events = |kills, populated| {
            fixture.put("memory.events", &format!("low 0\noom 9\noom_kill {kills}\n"));
            fixture.put("cgroup.events", &format!("populated {populated}\nfrozen 0\n"));
        };
        let hierarchies =
            Hierarchies { root: "/".into(), unified: Some("/".into()), legacy: vec![] };
        let place = Location::resolve(&hierarchies, Some("/x"), "x").unwrap().unified.unwrap();
        let mut cgroup = Cgroup::default();
        cgroup.unified = Some(Unified { place, directory: fixture.directory() });
        events(2, 1);
        let mut watch = cgroup.watch_oom().unwrap();
        assert_eq!(watch.read(), Ok(OomEvent::None));
        events(3, 1);
        assert_eq!(watch.read(), Ok(OomEvent::Oom));
        assert_eq!(watch.read(), Ok(OomEvent::None));
        // A kill is reported even if the cgroup is already empty.
        events(4, 0);
        assert_eq!(watch.read(), Ok(OomEvent::Oom));
        assert_eq!(watch.read(), Ok(OomEvent::End));
    }

    #[test]
    fn a_kill_on_v1_is_told_once() {
        let fixture = Fixture::new(&[]);
        let put = |kills| {
            let text = format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
            fixture.put("memory.oom_control", &text);
        };
        put(4);
        let control = Watched::open(&fixture.directory(), "memory.oom_control").unwrap();
        let mut known = 4;
        let mut kills = |is_signalled| legacy_kills(&control, is_signalled, &mut known);
        assert_eq!(kills(false), Ok(Some(0)));
        // The eventfd was signalled before the kernel counted the kill.
        assert_eq!(kills(true), Ok(Some(1)));
        put(5);
        assert_eq!(kills(false), Ok(Some(0)));
        // First, the host ran out of memory: the kill is counted, but the eventfd is not signalled. Then there is one
        // more such kill, and one kill for which the eventfd is signalled.
        put(6);
        assert_eq!(kills(false), Ok(Some(1)));
        put(8);
        assert_eq!(kills(true), Ok(Some(2)));
        // Older kernels do not have the counter.
        fixture.put("memory.oom_control", "oom_kill_disable 0\nunder_oom 1\n");
        assert_eq!(kills(true), Ok(Some(1)));
        assert_eq!(kills(false), Ok(Some(0)));
    }
}
