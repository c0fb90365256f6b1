//! Being told when the kernel kills for want of memory.

use alloc::vec::Vec;
use core::time::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sys::Context;

use crate::directory::{Directory, File};
use crate::v2::limits;
use crate::wait::{self, Deadline};
use crate::{Cgroup, Controller, Error, parse, v1};

/// What an [`OomWatch`] has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomEvent {
    /// The kernel killed processes of the container for want of memory; on cgroup v1 with
    /// `disableOOMKiller` it paused them.
    Oom,
    /// The container has no more processes, or its cgroup is gone. Nothing will follow.
    End,
    /// Nothing yet.
    None,
}

/// Watches one cgroup for want of memory.
#[derive(Debug)]
pub struct OomWatch<'a>(Watch<'a>);

#[derive(Debug)]
enum Watch<'a> {
    /// memory.events and cgroup.events, which poll(2) reports with POLLPRI.
    Unified { memory: File<'a>, cgroup: File<'a>, kills: u64 },
    /// An eventfd(2) bound to memory.oom_control.
    Legacy { directory: &'a Directory, event: OwnedFd },
}

impl Cgroup {
    /// Starts to watch.
    ///
    /// # Errors
    /// [`Error::NoController`] without the memory controller; failing system calls.
    pub fn watch_oom(&self) -> Result<OomWatch<'_>, Error> {
        let (None, Some(unified)) = (self.legacy.first(), &self.unified) else {
            return self.watch_legacy();
        };
        let directory = &unified.directory;
        let memory = limits::open(directory, "memory.events", OFlags::RDONLY)?;
        let cgroup = directory.file("cgroup.events", OFlags::RDONLY)?;
        let mut watch = Watch::Unified { memory, cgroup, kills: 0 };
        // The first reading arms the files, and kills of the past are none of ours.
        read(&mut watch)?;
        Ok(OomWatch(watch))
    }

    /// Binds an eventfd to memory.oom_control (cgroup-v1/memory.rst, "OOM Control").
    fn watch_legacy(&self) -> Result<OomWatch<'_>, Error> {
        let directory = v1::require(&self.legacy, Controller::Memory, "memory.oom_control")?;
        let event =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("eventfd", "")?;
        let control = directory.file("memory.oom_control", OFlags::RDONLY)?;
        let numbers = (event.as_raw_fd(), control.as_fd().as_raw_fd());
        directory.write("cgroup.event_control", format_args!("{} {}", numbers.0, numbers.1))?;
        Ok(OomWatch(Watch::Legacy { directory, event }))
    }

    /// How many processes of the container were killed for want of memory so far (Linux 4.13).
    ///
    /// # Errors
    /// [`Error::NoController`] without the memory controller; failing system calls.
    pub fn oom_kills(&self) -> Result<u64, Error> {
        match (self.legacy.first(), &self.unified) {
            (None, Some(unified)) => unified.directory.read_key("memory.events", "oom_kill"),
            _ => v1::require(&self.legacy, Controller::Memory, "memory.oom_control")?
                .read_key("memory.oom_control", "oom_kill"),
        }
    }
}

impl OomWatch<'_> {
    /// The descriptors to poll(2), each with what to ask for; when one is ready, [`OomWatch::read`].
    pub fn fds(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        match &self.0 {
            Watch::Unified { memory, cgroup, .. } => {
                Vec::from([(memory.as_fd(), PollFlags::PRI), (cgroup.as_fd(), PollFlags::PRI)])
            }
            Watch::Legacy { event, .. } => Vec::from([(event.as_fd(), PollFlags::IN)]),
        }
    }

    /// Finds out what has happened; does not wait.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn read(&mut self) -> Result<OomEvent, Error> {
        read(&mut self.0)
    }

    /// Waits for something to happen, for `limit` at most.
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
                // Another counter of memory.events moved.
                OomEvent::None => {}
                event => return Ok(event),
            }
        }
    }
}

fn read(watch: &mut Watch<'_>) -> Result<OomEvent, Error> {
    match watch {
        Watch::Unified { memory, cgroup, kills } => {
            let mut page = [0; 4096];
            let result = (|| -> Result<_, sys::Error> {
                let count = parse::key(memory.reread(&mut page)?, "oom_kill").unwrap_or(0);
                let populated = parse::key(cgroup.reread(&mut page)?, "populated");
                Ok((count, populated != Some(0)))
            })();
            match result {
                Ok((count, _)) if count > *kills => {
                    *kills = count;
                    Ok(OomEvent::Oom)
                }
                Ok((_, true)) => Ok(OomEvent::None),
                Ok((_, false)) => Ok(OomEvent::End),
                Err(error) if error.errno == Errno::NODEV => Ok(OomEvent::End),
                Err(error) => Err(error.into()),
            }
        }
        Watch::Legacy { directory, event } => {
            let mut count = [0; 8];
            match rustix::io::read(event, &mut count) {
                Err(Errno::AGAIN) => Ok(OomEvent::None),
                Err(errno) => Err(sys::Error::new("read", "eventfd", errno).into()),
                // The removal of the cgroup signals, too.
                Ok(_) if directory.has("cgroup.event_control") => Ok(OomEvent::Oom),
                Ok(_) => Ok(OomEvent::End),
            }
        }
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
        assert_eq!(cgroup.oom_kills(), Ok(2));
        let mut watch = cgroup.watch_oom().unwrap();
        assert_eq!(watch.read(), Ok(OomEvent::None));
        events(3, 1);
        assert_eq!(watch.read(), Ok(OomEvent::Oom));
        assert_eq!(watch.read(), Ok(OomEvent::None));
        // The kill that ended it is still told.
        events(4, 0);
        assert_eq!(watch.read(), Ok(OomEvent::Oom));
        assert_eq!(watch.read(), Ok(OomEvent::End));
    }
}
