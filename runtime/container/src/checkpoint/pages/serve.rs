//! The server's loop. It speaks the protocol of `criu lazy-pages` (criu/uffd.c): for each process, criu sends the pid of
//! the images as an int, and a userfaultfd; and in the end [`FINISHED`].

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use sys::Context;
use sys::userfault::Mapped;
use sys::wait::Deadline;

use super::super::images::{Directory, RECORD};
use super::pending::Pending;
use super::space::{Progress, Space};
use super::touched::Touched;
use crate::Error;

/// criu's message that all processes are restored.
const FINISHED: i32 = 0x5253_5446;
/// The time after the restore in which accessed pages are recorded.
const RECORDED: Duration = Duration::from_secs(1);
/// If a record exists, the remaining pages are loaded when the processes have waited for none for this time, and at the
/// latest after [`LATEST`].
const QUIET: Duration = Duration::from_millis(50);
const LATEST: Duration = Duration::from_millis(500);
/// With the memory of so many processes, all remaining pages are loaded. Each fork gives this process a descriptor, and
/// another copy of the list of pages.
const FORKED: usize = 32;
/// A record that lacks as many pages is completed.
const MANY: usize = 64;
/// The number of bytes that are loaded between two looks at events.
const CHUNK: u64 = 1 << 18;
/// The number of bytes that are loaded for a page for which a thread waits.
const AHEAD: u64 = 1 << 16;
/// The pause before another attempt when memory is short, or before an event can be read.
const PAUSE: Duration = Duration::from_millis(1);

/// The server of a restore.
#[derive(Debug)]
pub(super) struct Server {
    pub images: Directory,
    /// The listening socket, and criu's connection from its acceptance until the end of the restore.
    pub listener: OwnedFd,
    connection: Option<OwnedFd>,
    /// The connection to the command, which sends a pidfd of init when the memory can be filled.
    control: Option<OwnedFd>,
    init: Option<OwnedFd>,
    /// The pidfd of the guard.
    guard: OwnedFd,
    /// The record of an earlier restore.
    earlier: Option<Touched>,
    /// The record of this restore.
    touched: Touched,
    /// The number of pages for which threads have waited.
    misses: usize,
    page: u64,
    files: BTreeMap<u32, Mapped>,
    spaces: Vec<Space>,
    is_fetched: bool,
    /// The time at which all remaining pages are loaded, and the latest such time.
    fill: Option<(Deadline, Deadline)>,
    is_delayed: bool,
}

impl Server {
    pub fn new(
        images: Directory,
        listener: OwnedFd,
        control: OwnedFd,
        guard: OwnedFd,
    ) -> Result<Self, Error> {
        Ok(Self {
            earlier: Touched::read(&images)?,
            images,
            listener,
            connection: None,
            control: Some(control),
            init: None,
            guard,
            touched: Touched::default(),
            misses: 0,
            page: sys::start::page_size() as u64,
            files: BTreeMap::new(),
            spaces: Vec::new(),
            is_fetched: false,
            fill: None,
            is_delayed: false,
        })
    }

    /// Serves until all pages are loaded, or all processes have exited.
    ///
    /// # Errors
    /// The memory of the processes is then incomplete, and stays so.
    pub fn run(mut self) -> Result<(), Error> {
        loop {
            let is_filling = self.fill.is_some_and(|(at, _)| at.left().is_none());
            if self.fill.is_some() && self.spaces.iter().all(|space| space.pending.len() == 0) {
                return self.finish();
            }
            if self.wait(is_filling)? {
                return Ok(());
            }
            self.read_events()?;
            if is_filling {
                self.fill()?;
            }
        }
    }

    /// Waits for an event, or until it is time to load pages. Returns whether the restore has ended before it began.
    fn wait(&mut self, is_filling: bool) -> Result<bool, Error> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = match self.fill {
            _ if self.is_delayed => Deadline::after(PAUSE).left(),
            _ if is_filling => Some(now),
            Some((at, _)) => Some(at.left().unwrap_or(now)),
            None => None,
        };
        let socket = match &self.connection {
            Some(connection) => Some(connection),
            None => self.fill.is_none().then_some(&self.listener),
        };
        let fixed = [socket, self.control.as_ref(), self.init.as_ref(), Some(&self.guard)];
        let any = &self.guard;
        let watched =
            |fd: Option<&OwnedFd>| if fd.is_some() { PollFlags::IN } else { PollFlags::empty() };
        let mut fds: Vec<PollFd<'_>> =
            fixed.iter().map(|fd| PollFd::new(fd.unwrap_or(any), watched(*fd))).collect();
        // A frozen or slow process has no events; the others are not to wait for it.
        fds.extend(self.spaces.iter().map(|space| PollFd::new(&space.uffd, PollFlags::IN)));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(sys::Error::new("poll", "memory", errno).into()),
        }
        let ready = |at: usize| {
            let is_watched = fixed.get(at).is_some_and(Option::is_some);
            is_watched && fds.get(at).is_some_and(|fd| !fd.revents().is_empty())
        };
        let [has_socket, has_control, has_exited, is_alone] = [0, 1, 2, 3].map(ready);
        drop(fds);
        if is_alone {
            return Err(Error::text("the guard was killed"));
        }
        if has_exited {
            self.init = None;
            self.fill_now();
        }
        if has_socket {
            self.hear_criu()?;
        }
        if has_control {
            return self.hear_command();
        }
        Ok(false)
    }

    /// Accepts criu's connection, or reads a message from it.
    fn hear_criu(&mut self) -> Result<(), Error> {
        let Some(connection) = &self.connection else {
            let connection = accept_with(&self.listener, SocketFlags::CLOEXEC);
            self.connection = Some(connection.context("accept", "criu")?);
            return Ok(());
        };
        let mut message = [0; 4];
        let (length, _) =
            sys::fdpass::receive(connection, &mut message).context("recvmsg", "criu")?;
        match (length, i32::from_ne_bytes(message)) {
            (4, FINISHED) => {
                self.connection = None;
                let (at, latest) = match self.earlier {
                    Some(_) => (QUIET, LATEST),
                    None => (RECORDED, RECORDED),
                };
                self.fill = Some((Deadline::after(at), Deadline::after(latest)));
                self.fetch()
            }
            // A process that had exited.
            (4, ..0) => Ok(()),
            (4, pid) => {
                let (_, uffd) =
                    sys::fdpass::receive(connection, &mut [0]).context("recvmsg", "criu")?;
                let uffd = uffd.ok_or_else(|| Error::text("criu handed over no memory"))?;
                self.add(pid, uffd)
            }
            _ => Err(Error::text("criu has ended")),
        }
    }

    /// Reads the command's message. Returns whether the command has ended before criu has begun.
    fn hear_command(&mut self) -> Result<bool, Error> {
        let Some(control) = self.control.take() else { return Ok(false) };
        let (_, init) = sys::fdpass::receive(control, &mut [0]).context("recvmsg", "command")?;
        if init.is_none() {
            return Ok(self.connection.is_none() && self.fill.is_none());
        }
        self.init = init;
        self.fetch()?;
        Ok(false)
    }

    /// Adds the memory of a process.
    fn add(&mut self, pid: i32, uffd: OwnedFd) -> Result<(), Error> {
        let name = format!("pagemap-{pid}.img");
        let image = self.images.read(&name, 1 << 28)?;
        let decoded = Pending::decode(&image, self.page);
        let (number, pending) = decoded.ok_or_else(|| self.images.damaged(&name, "no pages"))?;
        let file = match self.files.get(&number) {
            Some(file) => *file,
            None => {
                let name = format!("pages-{number}.img");
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(&self.images.fd, name.as_str(), flags, Mode::empty());
                let file = file.and_then(|file| Mapped::new(&file)).context("map", &name)?;
                self.files.insert(number, file);
                file
            }
        };
        self.spaces.push(Space::new(pid, uffd, file, self.page, pending));
        Ok(())
    }

    /// Loads the pages that the processes of an earlier restore have accessed.
    fn fetch(&mut self) -> Result<(), Error> {
        let Some(earlier) = &self.earlier else { return Ok(()) };
        if core::mem::replace(&mut self.is_fetched, true) {
            return Ok(());
        }
        for space in &mut self.spaces {
            for [start, end] in earlier.0.get(&space.pid).into_iter().flatten() {
                // What cannot be loaded now is loaded when it is accessed.
                let progress = space.fetch(*start, *end).context("load", "memory")?;
                if progress != Progress::Done {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the events of all processes, and provides the pages for which they wait.
    fn read_events(&mut self) -> Result<(), Error> {
        let mut born = Vec::new();
        let ahead = if self.earlier.is_some() { AHEAD } else { self.page };
        self.is_delayed = false;
        for mut space in core::mem::take(&mut self.spaces) {
            let is_any = space.read_events(&mut born).context("read", "userfaultfd")?;
            if let (true, Some((_, latest)), Some(_)) = (is_any, self.fill, &self.earlier) {
                self.fill = Some((Deadline::after(QUIET).min(latest), latest));
            }
            let progress = space.answer(ahead).context("load", "memory")?;
            self.is_delayed |= progress == Progress::Later;
            match progress {
                Progress::Exited => self.note(space),
                Progress::Done | Progress::Later => self.spaces.push(space),
            }
        }
        self.spaces.append(&mut born);
        if self.spaces.len() > FORKED {
            self.fill_now();
        }
        Ok(())
    }

    /// Waits no longer until all remaining pages are loaded, once the processes are restored.
    fn fill_now(&mut self) {
        let now = Deadline::after(Duration::ZERO);
        self.fill = self.fill.map(|_| (now, now));
    }

    /// Loads a part of the remaining pages.
    fn fill(&mut self) -> Result<(), Error> {
        let Some(index) = self.spaces.iter().position(|space| space.pending.len() > 0) else {
            return Ok(());
        };
        let mut space = self.spaces.swap_remove(index);
        let Some(range) = space.pending.first() else { return Ok(()) };
        match space.copy(range, CHUNK).context("load", "memory")? {
            Progress::Exited => self.note(space),
            progress => {
                self.is_delayed |= progress == Progress::Later;
                self.spaces.push(space);
            }
        }
        Ok(())
    }

    fn note(&mut self, space: Space) {
        self.misses += space.touched.len();
        let page = self.page;
        let pages = space.touched.into_iter().map(|start| [start, start.saturating_add(page)]);
        self.touched.add(space.pid, pages);
    }

    /// Gives the memory back to the kernel. Writes the record if there was none, or if it lacked many pages.
    fn finish(mut self) -> Result<(), Error> {
        for space in core::mem::take(&mut self.spaces) {
            self.note(space);
        }
        let earlier = self.earlier.take();
        let is_good = earlier.is_some() && self.misses < MANY;
        if !is_good && self.misses > 0 {
            for (pid, ranges) in earlier.unwrap_or_default().0 {
                self.touched.add(pid, ranges);
            }
            // Without a record, the next restore makes one.
            let _ = self.images.write(RECORD, &self.touched.encode());
        }
        Ok(())
    }
}
