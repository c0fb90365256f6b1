//! Standard streams of processes: pipes and terminals carried to FIFOs, files and loggers.
//!
//! A program gets pipes of the shim's making, never what containerd has made: root in a container could change the
//! mode and owner of a FIFO of the host. What goes through a pipe is spliced, so that it never is in the shim's memory,
//! and only as fast as it is taken: a FIFO that nobody reads fills, then the pipe, and then the program waits.
//!
//! As with Go's shim (containerd 2.4, `cmd/containerd-shim-runc-v2/process/io.go`):
//! - Of each FIFO the shim has both ends. containerd may go and come back: nobody gets SIGPIPE, nothing is lost.
//! - The end of a client is no end of standard input, since the next may come. Task.CloseIO is, once all clients have
//!   closed it. If the program has a terminal, that hangs up then.
//! - Output through a pipe ends when nobody has the pipe any more, which may be later than the end of the process:
//!   children that it has left behind are heard to the end, or until Task.Delete has waited for long enough. A
//!   terminal's output ends with the process, and what has been written by then is carried over.
//!
//! Otherwise than there:
//! - Where a file or a logger takes no more, output is thrown away. A program does not wait for ever for a full disk.
//! - A FIFO that nobody reads at the end keeps its contents until Task.Delete (`parting`).
//! - A program that has closed its standard input makes the client's next write an EPIPE.
//! - Pipes to loggers have the owner that was asked for as well.

mod carrier;
mod error;
mod held;
mod logger;
mod open;
mod parting;
#[cfg(test)]
mod tests;
mod uri;

use rustix::fd::OwnedFd;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::termios::{Winsize, tcsetwinsize};
use sys::Context;

use carrier::{Carrier, Manner, Sink};
use held::Held;
use logger::Logger;
use parting::Parting;
use uri::Target;

use crate::poller::{Interest, Poller, Source};

pub use error::Error;

/// The parts of the streams that a poller tells apart.
mod part {
    /// Standard input, either end.
    pub const IN: u8 = 0;
    /// Standard output, either end; a terminal's output.
    pub const OUT: u8 = 1;
    /// Standard error, either end.
    pub const ERR: u8 = 2;
    /// What a logger says.
    pub const READY: u8 = 3;
    /// The end of a logger.
    pub const LOGGER: u8 = 4;
    /// A logger's time limit.
    pub const TIMER: u8 = 5;
    /// [`OUT`], once it has ended unread.
    pub const PARTING_OUT: u8 = 6;
    /// [`ERR`], likewise.
    pub const PARTING_ERR: u8 = 7;
}

/// How often something is carried over at the end of a process before others have their turn: several times what
/// pipe and FIFO hold.
const TURNS_AT_END: usize = 64;

/// What containerd asks for (`CreateTaskRequest`, `ExecProcessRequest`).
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Where standard input comes from: the path of a FIFO, or empty.
    pub stdin: &'a str,
    /// Where standard output goes: a path, a URI (`fifo`, `file`, `binary`, `binary-v2`), or empty.
    pub stdout: &'a str,
    /// Where standard error goes; without a meaning if `stdout` is a logger, or there is a terminal.
    pub stderr: &'a str,
    /// Whether the program has a terminal.
    pub terminal: bool,
    /// containerd's namespace, for loggers.
    pub namespace: &'a str,
    /// The id of the exec, or of the container if it is its init, for loggers.
    pub process: &'a str,
    /// Who may reopen the pipes (`IoUid`, `IoGid`).
    pub owner: Option<(u32, u32)>,
}

/// What the program gets as its standard streams. `None` is /dev/null, or the terminal if it has one.
///
/// They are closed as soon as the program has them: its end would not be seen otherwise.
#[derive(Debug, Default)]
pub struct Ends {
    /// The reading end of a pipe.
    pub stdin: Option<OwnedFd>,
    /// The writing end of a pipe.
    pub stdout: Option<OwnedFd>,
    /// The writing end of a pipe.
    pub stderr: Option<OwnedFd>,
}

/// What a terminal is to be connected to, once it is there.
#[derive(Debug)]
struct Outlook {
    stdin: Option<OwnedFd>,
    stdout: Sink,
}

/// The standard streams of a process. To be given up by [`Streams::abandon`].
#[derive(Debug, Default)]
pub struct Streams {
    process: u32,
    /// By part: standard input, output, error.
    carriers: [Option<Carrier>; 3],
    /// The writing end of standard input's FIFO, open until Task.CloseIO.
    stdin_writer: Option<OwnedFd>,
    /// The reading ends of the outputs' FIFOs, in the order of the parts.
    readers: [Option<Held>; 2],
    /// FIFOs that wait for a reader, in the order of the parts.
    partings: [Option<Parting>; 2],
    /// Until there is a terminal.
    outlook: Option<Outlook>,
    /// The terminal.
    master: Option<OwnedFd>,
    logger: Option<Logger>,
    /// What the logger of a terminal has as standard error: nothing comes by it, nor does it end before the other.
    silent: Option<OwnedFd>,
    has_ended: bool,
}

impl Streams {
    /// Opens what containerd has named, makes the pipes, starts the logger. Never waits for anybody.
    ///
    /// # Errors
    /// A URI that is none; those of open(2), stat(2), mkdir(2), pipe2(2), fchown(2), clone3(2).
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
            streams.outlook = Some(Outlook { stdin, stdout });
            return Ok((streams, ends));
        }
        if let Some(source) = stdin {
            let (reader, writer) = open::pipe(asked.owner)?;
            open::never_wait(&writer)?;
            let splices = streams.stdin_writer.is_some();
            let to = Sink::Flow(writer);
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

    /// Where a terminal's output goes.
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
                (Sink::Flow(writer), None)
            }
        };
        self.readers[0] = reader;
        Ok(sink)
    }

    /// A pipe of which the writing end is returned, carried to where `uri` says.
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

    /// Puts everything into the poller, as parts of `process`, which is a number that no other streams have.
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

    /// Whether the program may be started: at once, unless there is a logger that is not ready yet. To be asked again
    /// after each [`Streams::ready`].
    ///
    /// # Errors
    /// The logger can't be executed, has not become ready within 10 s, or has ended before it was.
    pub fn may_begin(&self) -> Result<bool, Error> {
        self.logger.as_ref().map_or(Ok(true), Logger::is_ready)
    }

    /// Connects the terminal, of which `master` is the master.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn take_terminal(&mut self, poller: &Poller, master: OwnedFd) -> Result<(), Error> {
        let Some(Outlook { stdin, stdout }) = self.outlook.take() else { return Ok(()) };
        open::never_wait(&master)?;
        // epoll(7) knows a descriptor once, and each direction waits for itself.
        let copy = || fcntl_dupfd_cloexec(&master, 3).context("dup", "terminal");
        if let Some(stdin) = stdin {
            let to = Sink::Flow(copy()?);
            self.carriers[0] = Some(Carrier::new(stdin, to, Manner::TerminalInput, false));
        }
        let mut output = Carrier::new(copy()?, stdout, Manner::TerminalOutput, false);
        if self.has_ended {
            output.end_when_empty();
        }
        self.carriers[1] = Some(output);
        self.master = Some(master);
        self.carry(poller, part::OUT);
        self.carry(poller, part::IN);
        Ok(())
    }

    /// A part is ready: carries on with it. For the loop.
    pub fn ready(&mut self, poller: &Poller, part: u8, _what: Interest) {
        match part {
            part::IN | part::OUT | part::ERR => self.carry(poller, part),
            part::PARTING_OUT => self.part(poller, 0),
            part::PARTING_ERR => self.part(poller, 1),
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

    /// Task.CloseIO: standard input ends with what its clients have written, as soon as all have closed it.
    pub fn close_stdin(&mut self, poller: &Poller) {
        self.stdin_writer = None;
        self.carry(poller, part::IN);
    }

    /// Task.ResizePty, in characters. Without a terminal, nothing, as with Go's shim.
    ///
    /// # Errors
    /// Those of ioctl_tty(2), TIOCSWINSZ.
    pub fn resize(&self, width: u16, height: u16) -> Result<(), Error> {
        let Some(master) = &self.master else { return Ok(()) };
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(master, size).context("ioctl TIOCSWINSZ", "terminal")?)
    }

    /// The process has ended: carries over what there is without waiting, and the rest as it is taken.
    ///
    /// Output through pipes goes on until nobody has them any more. A terminal's ends here.
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

    /// Task.Delete has begun: a logger is to end, by itself within a second if it does so at the end of its input, else
    /// by SIGTERM, and 12 seconds later by SIGKILL.
    pub fn settle(&mut self, poller: &Poller) {
        if let Some(logger) = &mut self.logger {
            logger.settle(poller);
        }
    }

    /// Whether all output has reached its destination, and the logger, if any, has ended.
    pub fn is_drained(&self) -> bool {
        let [_, stdout, stderr] = &self.carriers;
        let carried = stdout.is_none() && stderr.is_none() && self.outlook.is_none();
        carried && self.logger.as_ref().is_none_or(Logger::has_ended)
    }

    /// Gives up all that is open, whatever was not carried over, and takes it out of the poller. A logger gets SIGTERM,
    /// or SIGKILL if it has had that.
    ///
    /// For the end of Task.Delete, and for a program that could not be started. Workers that have copies of the
    /// descriptors make the poller keep them otherwise.
    pub fn abandon(&mut self, poller: &Poller) {
        for carrier in self.carriers.iter_mut().filter_map(Option::take) {
            carrier.leave(poller);
        }
        for parting in self.partings.iter_mut().filter_map(Option::take) {
            parting.leave(poller);
        }
        self.stdin_writer = None;
        for reader in self.readers.iter_mut().filter_map(Option::take) {
            reader.close();
        }
        (self.outlook, self.master, self.silent) = (None, None, None);
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

    /// The clients of a terminal have gone for good: so does it.
    fn hang_up(&mut self, poller: &Poller) {
        if self.master.is_some()
            && let Some(output) = &mut self.carriers[1]
        {
            output.end_when_empty();
            self.carry(poller, part::OUT);
        }
    }

    /// An output has ended: its reader is told.
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
            && let Some(parting) = self.partings.get_mut(output)
        {
            reader.close();
            let part = [part::PARTING_OUT, part::PARTING_ERR][output.min(1)];
            *parting = Parting::begin(writer, poller, Source::Stream(self.process, part));
        }
    }

    fn part(&mut self, poller: &Poller, output: usize) {
        let Some(parting) = self.partings.get_mut(output) else { return };
        if let Some(parting) = parting.take_if(|parting| !parting.goes_on()) {
            parting.leave(poller);
        }
    }
}
