//! The standard streams of processes: pipes and terminals, whose data is copied from and to FIFOs, files and loggers.
//!
//! A program gets pipes created by the shim, never containerd's FIFOs: root in a container could change the mode and
//! owner of the host's FIFOs. Data is spliced between pipes, so it is never copied to the shim's memory. Data is moved
//! only as fast as it is read: without a reader, first the FIFO fills up, then the pipe, and then the program blocks.
//!
//! The following is as in Go's shim (containerd 2.4, `cmd/containerd-shim-runc-v2/process/io.go`):
//! - The shim holds both ends of each FIFO. So containerd may exit and restart: no process gets SIGPIPE, and no data is
//!   lost.
//! - Standard input does not end when a client closes it, since another client may follow. It ends after Task.CloseIO,
//!   as soon as all clients have closed it; a terminal then hangs up.
//! - Output through a pipe ends when no process has the pipe open. Children of a process may have it open after the
//!   process has exited. Their output is copied to the end, unless Task.Delete reaches its time limit first. A
//!   terminal's output ends with the process; data written before that is copied.
//!
//! Differences:
//! - If a file or a logger accepts no more data, output is discarded, so that a full disk does not make a program wait
//!   forever.
//! - If a FIFO has no reader when the output ends, the FIFO's contents are kept until Task.Delete (see `unread_fifo`).
//! - If a program has closed its standard input, the client's next write to the FIFO fails with EPIPE.
//! - The owner in the options (`IoUid`, `IoGid`) is set for the pipes to loggers, too.

mod carrier;
mod error;
mod held;
mod logger;
mod open;
#[cfg(test)]
mod tests;
mod unread_fifo;
mod uri;

use alloc::rc::Rc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::termios::{Winsize, tcsetwinsize};
use sys::Context;

use carrier::{Carrier, Manner, Sink};
use held::Held;
use logger::Logger;
use unread_fifo::UnreadFifo;
use uri::Target;

use crate::poller::{Interest, Poller, Source};

pub use error::Error;

/// The numbers that identify the parts of a process's streams in a poller. A stream has one number for its source and
/// its sink, because the poller waits for only one of the two at a time.
mod part {
    /// Standard input: its source or its sink.
    pub const IN: u8 = 0;
    /// Standard output, or a terminal's output: the source or the sink.
    pub const OUT: u8 = 1;
    /// Standard error: its source or its sink.
    pub const ERR: u8 = 2;
    /// The pipe on which a logger reports that it is ready.
    pub const READY: u8 = 3;
    /// The pidfd of a logger.
    pub const LOGGER: u8 = 4;
    /// The timer of a logger.
    pub const TIMER: u8 = 5;
    /// The inotify watch on standard output's FIFO, which had no reader when the output ended.
    pub const UNREAD_OUT: u8 = 6;
    /// The inotify watch on standard error's FIFO, which had no reader when the output ended.
    pub const UNREAD_ERR: u8 = 7;
}

/// The maximum number of times that a stream's data is moved when its process has exited, before other
/// processes are served. This is enough for several times the capacity of the pipe and the FIFO.
const TURNS_AT_END: usize = 64;

/// The streams that containerd requests (`CreateTaskRequest`, `ExecProcessRequest`).
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The source of standard input: a path, a URI (`fifo`, `file`), or empty.
    pub stdin: &'a str,
    /// The sink of standard output: a path, a URI (`fifo`, `file`, `binary`, `binary-v2`), or empty.
    pub stdout: &'a str,
    /// The sink of standard error; ignored if `stdout` is a logger, or if `terminal` is set.
    pub stderr: &'a str,
    /// Whether the program has a terminal.
    pub terminal: bool,
    /// containerd's namespace; passed to loggers.
    pub namespace: &'a str,
    /// The exec id, or for init the container's id; passed to loggers.
    pub process: &'a str,
    /// The user and group that may reopen the pipes (`IoUid`, `IoGid`).
    pub owner: Option<(u32, u32)>,
}

/// The program's ends of its standard streams. `None` means /dev/null, or the terminal if the program has one.
///
/// These descriptors must be closed as soon as the program has its copies. Otherwise the shim does not notice the end
/// of the program's output.
#[derive(Debug, Default)]
pub struct Ends {
    /// The reading end of a pipe.
    pub stdin: Option<OwnedFd>,
    /// The writing end of a pipe.
    pub stdout: Option<OwnedFd>,
    /// The writing end of a pipe.
    pub stderr: Option<OwnedFd>,
}

/// The source and the sink that will be connected to a terminal once the terminal exists.
#[derive(Debug)]
struct PendingTty {
    stdin: Option<OwnedFd>,
    stdout: Sink,
}

/// The standard streams of a process. The owner must call [`Streams::abandon`] when they are no longer needed.
#[derive(Debug, Default)]
pub struct Streams {
    process: u32,
    /// The carriers, indexed by part: standard input, standard output, standard error.
    carriers: [Option<Carrier>; 3],
    /// The shim's own writing end of standard input's FIFO, open until Task.CloseIO.
    stdin_writer: Option<OwnedFd>,
    /// The shim's own reading ends of the output FIFOs, first of standard output, then of standard
    /// error.
    readers: [Option<Held>; 2],
    /// The FIFOs that wait for a reader, first of standard output, then of standard error.
    unread: [Option<UnreadFifo>; 2],
    /// The source and sink for a future terminal; `None` once the terminal is connected.
    pending_tty: Option<PendingTty>,
    /// The terminal's master, which the carriers share.
    master: Option<Rc<OwnedFd>>,
    logger: Option<Logger>,
    /// The writing end of a logger's stderr pipe, if there is a terminal. This pipe carries no data, but it must not
    /// end before the stdout pipe.
    silent: Option<OwnedFd>,
    has_ended: bool,
}

impl Streams {
    /// Opens the streams that containerd requests, creates the pipes, and starts the logger. Never blocks.
    ///
    /// # Errors
    /// An invalid URI; those of open(2), stat(2), mkdir(2), pipe2(2), fchown(2), clone3(2).
    pub fn open(asked: &Asked<'_>) -> Result<(Self, Ends), Error> {
        let mut streams = Self::default();
        let mut ends = Ends::default();
        let stdin = match Target::parse(asked.stdin)? {
            Target::Nothing => None,
            Target::Path(path) | Target::File(path) => {
                let (source, writer) = open::source(&path)?;
                streams.stdin_writer = writer;
                Some(source)
            }
            Target::Logger(_) => {
                let what = "a logger has no output";
                return Err(Error::Uri { uri: asked.stdin.into(), what });
            }
        };
        if asked.terminal {
            let stdout = streams.open_terminal(asked)?;
            streams.pending_tty = Some(PendingTty { stdin, stdout });
            return Ok((streams, ends));
        }
        if let Some(source) = stdin {
            let (reader, writer) = open::pipe(asked.owner)?;
            open::never_wait(&writer)?;
            let splices = streams.stdin_writer.is_some();
            let to = Sink::Flow(writer.into());
            streams.carriers[0] = Some(Carrier::new(source, to, Manner::Input, splices));
            ends.stdin = Some(reader);
        }
        if let Target::Logger(logger) = Target::parse(asked.stdout)? {
            let (out, stdout) = open::pipe(asked.owner)?;
            let (err, stderr) = open::pipe(asked.owner)?;
            streams.logger = Some(Logger::start(&logger, asked, &out, &err)?);
            (ends.stdout, ends.stderr) = (Some(stdout), Some(stderr));
            return Ok((streams, ends));
        }
        ends.stdout = streams.open_output(1, asked.stdout, asked)?;
        ends.stderr = streams.open_output(2, asked.stderr, asked)?;
        Ok((streams, ends))
    }

    /// Opens the sink of a terminal's output.
    fn open_terminal(&mut self, asked: &Asked<'_>) -> Result<Sink, Error> {
        let (sink, reader) = match Target::parse(asked.stdout)? {
            Target::Nothing => (Sink::Nothing, None),
            Target::Path(path) => open::existing(&path)?,
            Target::File(path) => open::file(&path)?,
            Target::Logger(logger) => {
                let (out, writer) = open::pipe(None)?;
                let (err, silent) = open::pipe(None)?;
                open::never_wait(&writer)?;
                self.logger = Some(Logger::start(&logger, asked, &out, &err)?);
                self.silent = Some(silent);
                (Sink::Flow(writer.into()), None)
            }
        };
        self.readers[0] = reader;
        Ok(sink)
    }

    /// Creates a pipe whose data is copied to `uri`, and returns the pipe's writing end.
    fn open_output(
        &mut self,
        part: usize,
        uri: &str,
        asked: &Asked<'_>,
    ) -> Result<Option<OwnedFd>, Error> {
        let (sink, fifo_reader) = match Target::parse(uri)? {
            Target::Nothing => return Ok(None),
            Target::Path(path) => open::existing(&path)?,
            Target::File(path) => open::file(&path)?,
            Target::Logger(_) => {
                let what = "a logger takes both streams, and is named as standard output";
                return Err(Error::Uri { uri: uri.into(), what });
            }
        };
        let (reader, writer) = open::pipe(asked.owner)?;
        open::never_wait(&reader)?;
        let splices = fifo_reader.is_some();
        self.readers[part - 1] = fifo_reader;
        self.carriers[part] = Some(Carrier::new(reader, sink, Manner::Output, splices));
        Ok(Some(writer))
    }

    /// Adds all descriptors to the poller, as parts of `process`. No other streams may use this number.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn register(&mut self, poller: &Poller, process: u32) -> Result<(), Error> {
        self.process = process;
        if let Some(logger) = &mut self.logger {
            logger.register(poller, process).context("epoll_ctl", "logger")?;
        }
        for part in [part::IN, part::OUT, part::ERR] {
            self.carry(poller, part);
        }
        Ok(())
    }

    /// Returns whether the program may be started. The result is false only while a logger is not ready yet; in that
    /// case, call this function again after each [`Streams::ready`].
    ///
    /// # Errors
    /// If the logger cannot be executed, is not ready within 10 s, or has exited before it was ready.
    pub fn may_begin(&self) -> Result<bool, Error> {
        self.logger.as_ref().map_or(Ok(true), Logger::is_ready)
    }

    /// Connects the terminal whose master is `master`.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn take_terminal(&mut self, poller: &Poller, master: OwnedFd) -> Result<(), Error> {
        let Some(PendingTty { stdin, stdout }) = self.pending_tty.take() else { return Ok(()) };
        open::never_wait(&master)?;
        let master = Rc::new(master);
        if let Some(stdin) = stdin {
            let to = Sink::Flow(Rc::clone(&master));
            self.carriers[0] = Some(Carrier::new(stdin, to, Manner::TerminalInput, false));
        }
        let from = Rc::clone(&master);
        let mut output = Carrier::new(from, stdout, Manner::TerminalOutput, false);
        if self.has_ended {
            output.end_when_empty();
        }
        self.carriers[1] = Some(output);
        self.master = Some(master);
        self.carry(poller, part::OUT);
        self.carry(poller, part::IN);
        Ok(())
    }

    /// Handles an event on the descriptor of one part of the streams. Called by the loop.
    pub fn ready(&mut self, poller: &Poller, part: u8, _what: Interest) {
        match part {
            part::IN | part::OUT | part::ERR => self.carry(poller, part),
            part::UNREAD_OUT => self.part(poller, 0),
            part::UNREAD_ERR => self.part(poller, 1),
            _ => {
                let Some(logger) = &mut self.logger else { return };
                match part {
                    part::READY => logger.speaks(poller),
                    part::LOGGER => logger.ends(poller),
                    part::TIMER => logger.is_late(poller),
                    _ => {}
                }
            }
        }
    }

    /// Handles Task.CloseIO: standard input ends as soon as all clients have closed it and their data is copied.
    pub fn close_stdin(&mut self, poller: &Poller) {
        self.stdin_writer = None;
        self.carry(poller, part::IN);
    }

    /// Handles Task.ResizePty: sets the terminal's width and height, in characters. Does nothing without a terminal, as
    /// in Go's shim.
    ///
    /// # Errors
    /// Those of ioctl_tty(2), TIOCSWINSZ.
    pub fn resize(&self, width: u16, height: u16) -> Result<(), Error> {
        let Some(master) = &self.master else { return Ok(()) };
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(master.as_fd(), size).context("ioctl TIOCSWINSZ", "terminal")?)
    }

    /// Handles the exit of the process: copies the data that is available now, without waiting. The loop copies the
    /// remaining data as fast as clients read it.
    ///
    /// Output through pipes continues until no process has the pipes open. A terminal's output ends here.
    pub fn ended(&mut self, poller: &Poller) {
        self.has_ended = true;
        if self.master.is_some()
            && let Some(output) = &mut self.carriers[1]
        {
            output.end_when_empty();
        }
        for part in [part::OUT, part::ERR] {
            self.carry_up_to(TURNS_AT_END, poller, part);
        }
    }

    /// Handles the beginning of Task.Delete, when a logger must exit. The logger has one second to
    /// exit by itself; then it gets SIGTERM, and 12 seconds later SIGKILL.
    pub fn settle(&mut self, poller: &Poller) {
        if let Some(logger) = &mut self.logger {
            logger.settle(poller);
        }
    }

    /// Returns whether all output has reached its sinks, and the logger, if there is one, has exited.
    pub fn is_drained(&self) -> bool {
        let [_, stdout, stderr] = &self.carriers;
        let carried = stdout.is_none() && stderr.is_none() && self.pending_tty.is_none();
        carried && self.logger.as_ref().is_none_or(Logger::has_ended)
    }

    /// Closes all streams, removes them from the poller, and discards data that is not copied yet. A logger gets
    /// SIGTERM, or SIGKILL if it already got SIGTERM.
    ///
    /// Called at the end of Task.Delete, and for a program that could not be started. Only closing the descriptors
    /// would not be enough: copies of them in workers would keep them in the poller.
    pub fn abandon(&mut self, poller: &Poller) {
        for carrier in self.carriers.iter_mut().filter_map(Option::take) {
            carrier.leave(poller);
        }
        for fifo in self.unread.iter_mut().filter_map(Option::take) {
            fifo.leave(poller);
        }
        self.stdin_writer = None;
        for reader in self.readers.iter_mut().filter_map(Option::take) {
            reader.close();
        }
        (self.pending_tty, self.master, self.silent) = (None, None, None);
        if let Some(mut logger) = self.logger.take() {
            logger.abandon(poller);
        }
    }

    fn carry(&mut self, poller: &Poller, part: u8) {
        self.carry_up_to(carrier::TURNS, poller, part);
    }

    fn carry_up_to(&mut self, turns: usize, poller: &Poller, part: u8) {
        let source = Source::Stream(self.process, part);
        let Some(carrier) = self.carriers.get_mut(usize::from(part)) else { return };
        let goes_on = |carrier: &mut Carrier| carrier.carry_up_to(turns, poller, source);
        let Some(ended) = carrier.take_if(|carrier| !goes_on(carrier)) else { return };
        let is_broken = ended.is_broken();
        let sink = ended.leave(poller);
        match part {
            part::IN => {
                self.stdin_writer = None;
                if !is_broken {
                    self.hang_up(poller);
                }
            }
            part::OUT => self.finish(poller, 0, sink),
            _ => self.finish(poller, 1, sink),
        }
    }

    /// Hangs up the terminal, because all clients have closed the terminal's input for good.
    fn hang_up(&mut self, poller: &Poller) {
        if self.master.is_some()
            && let Some(output) = &mut self.carriers[1]
        {
            output.end_when_empty();
            self.carry(poller, part::OUT);
        }
    }

    /// Handles the end of an output: its reader gets an end of file.
    fn finish(&mut self, poller: &Poller, output: usize, sink: Sink) {
        if self.master.take().is_some()
            && let Some(input) = self.carriers[0].take()
        {
            input.leave(poller);
            self.stdin_writer = None;
        }
        self.silent = None;
        let reader = self.readers.get_mut(output).and_then(Option::take);
        if let Some(reader) = reader
            && let Sink::Flow(writer) = sink
            && let Some(fifo) = self.unread.get_mut(output)
        {
            reader.close();
            let part = [part::UNREAD_OUT, part::UNREAD_ERR][output.min(1)];
            *fifo = UnreadFifo::begin(writer, poller, Source::Stream(self.process, part));
        }
    }

    fn part(&mut self, poller: &Poller, output: usize) {
        let Some(fifo) = self.unread.get_mut(output) else { return };
        if let Some(fifo) = fifo.take_if(|fifo| !fifo.is_unread()) {
            fifo.leave(poller);
        }
    }
}
