//! Tests of the streams of fake programs; FIFOs, pipes, terminals and loggers are real.

mod logger;
mod pipes;
mod terminal;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::event::Timespec;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat, open};

use super::*;

/// The key of the process.
const KEY: u32 = 7;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// A timeout that is longer than any operation takes.
const EVER: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A directory with FIFOs, and the streams of a process with a loop that serves them.
struct Rig {
    dir: PathBuf,
    poller: Poller,
    streams: Streams,
    /// The number of events that have occurred.
    events: usize,
    _turn: Turn,
}

/// The lock that a test holds: shared, or exclusive for tests with loggers. A logger starts as a
/// copy of this process, and for a moment has copies of all descriptors. No other test may run
/// during that time, because a descriptor that it closes would stay open in the logger.
enum Turn {
    WithOthers(#[allow(dead_code, reason = "to be dropped")] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "to be dropped")] RwLockWriteGuard<'static, ()>),
}

static TURN: RwLock<()> = RwLock::new(());

impl Rig {
    /// Returns a rig with the FIFOs `in`, `out` and `err`, but without streams.
    fn new() -> Self {
        let turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
        Self::in_turn(Turn::WithOthers(turn))
    }

    /// Returns a rig like [`Rig::new`], for a test with loggers, during which no other test runs.
    fn alone() -> Self {
        let turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
        Self::in_turn(Turn::Alone(turn))
    }

    fn in_turn(turn: Turn) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("dayfly-io-{}-{count}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        for name in ["in", "out", "err"] {
            let mode = Mode::from_raw_mode(0o700);
            mknodat(CWD, dir.join(name).to_str().unwrap(), FileType::Fifo, mode, 0).unwrap();
        }
        let (poller, streams) = (Poller::new().unwrap(), Streams::default());
        Self { dir, poller, streams, events: 0, _turn: turn }
    }

    /// Returns a rig whose streams are connected to the FIFOs.
    fn with_fifos() -> (Self, Ends) {
        let mut rig = Self::new();
        let [stdin, stdout, stderr] = ["in", "out", "err"].map(|name| rig.path(name));
        let ends = rig.open([&stdin, &stdout, &stderr], false);
        (rig, ends)
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    fn open(&mut self, [stdin, stdout, stderr]: [&str; 3], terminal: bool) -> Ends {
        let (namespace, process, owner) = ("k8s.io", "c1", Some((1000, 1001)));
        let asked = Asked { stdin, stdout, stderr, terminal, namespace, process, owner };
        let (streams, ends) = Streams::open(&asked).unwrap();
        self.streams = streams;
        self.streams.register(&self.poller, KEY).unwrap();
        ends
    }

    /// Runs the loop until a condition is true. Panics if no event occurs for [`EVER`].
    fn run_until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        while !is_so(self) {
            assert!(self.turn(&EVER), "nothing happens");
        }
    }

    /// Runs the loop until no more events occur.
    fn run_out(&mut self) {
        let before = self.events;
        while self.turn(&NOW) {
            assert!(self.events - before < 10_000, "the loop spins");
        }
    }

    /// Waits once for events. Returns whether any event occurred.
    fn turn(&mut self, limit: &Timespec) -> bool {
        let ready = self.poller.wait(Some(limit)).unwrap();
        self.events += ready.len();
        for (source, what) in &ready {
            let Source::Stream(KEY, part) = source else { panic!("{source:?}") };
            self.streams.ready(&self.poller, *part, *what);
        }
        !ready.is_empty()
    }

    /// Reads until the end of file, without blocking.
    fn read_all(&mut self, file: &File) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (piece, is_end) = read_now(file);
            all.extend(piece);
            if is_end {
                return all;
            }
            let before = self.events;
            self.run_out();
            assert!(self.events > before, "no end after {} bytes", all.len());
        }
    }

    /// Writes until there is no space left, or until all data is written; returns the number of bytes written.
    fn fill(&mut self, file: &mut File, data: &[u8]) -> usize {
        let mut written = 0;
        while written < data.len() {
            match file.write(&data[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    let before = self.events;
                    self.run_out();
                    if self.events == before {
                        break;
                    }
                }
            }
        }
        written
    }

    /// Writes like [`Rig::fill`], but through a terminal, which moves data asynchronously.
    fn fill_terminal(&mut self, part: usize, file: &mut File, data: &[u8]) -> usize {
        let mut written = self.fill(file, data);
        while !self.streams.carriers[part].as_ref().unwrap().waits_for_room() {
            assert!(self.turn(&EVER), "nothing happens");
            written += self.fill(file, &data[written..]);
        }
        written
    }

    fn drain(&mut self) {
        self.run_until(|rig| rig.streams.is_drained());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(logger) = &self.streams.logger {
            let id = rustix::process::WaitId::PidFd(logger.pidfd());
            let _ = sys::signal::send(logger.pidfd(), 9);
            let _ = rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED);
        }
        self.streams.abandon(&self.poller);
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

/// A descriptor that implements std's traits `Read` and `Write`, which `OwnedFd` does not implement.
struct File(OwnedFd);

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = rustix::io::read(&self.0, buffer);
        read.map_err(|errno| io::Error::from_raw_os_error(errno.raw_os_error()))
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = rustix::io::write(&self.0, bytes);
        written.map_err(|errno| io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a FIFO as a non-blocking reader.
fn reader(path: impl AsRef<str>) -> File {
    open(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap().into()
}

/// Opens a FIFO as a non-blocking writer.
fn writer(path: impl AsRef<str>) -> File {
    open(path.as_ref(), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).unwrap().into()
}

/// Makes a program's end non-blocking, so that one thread can play both the program and the client.
fn impatient(fd: Option<OwnedFd>) -> File {
    let fd = fd.unwrap();
    let flags = fcntl_getfl(&fd).unwrap();
    assert!(!flags.contains(OFlags::NONBLOCK), "programs are to wait");
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
    fd.into()
}

/// Returns the data that can be read without blocking, and whether the end of file was reached.
fn read_now(mut file: &File) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    match file.read_to_end(&mut all) {
        Ok(_) => (all, true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => (all, false),
        Err(error) => panic!("{error}"),
    }
}

/// Returns `length` bytes in which no two adjacent blocks are equal.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(next).collect()
}
