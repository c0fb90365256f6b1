//! The shim's log: lines written to the FIFO `log` of the bundle, which containerd copies to its own log.
//!
//! Lines have logrus' text format, like those of Go's shim. The shim never waits for a reader: it also opens the FIFO
//! for reading, so that neither open(2) nor write(2) blocks or fails if no other process reads. Lines for which the
//! FIFO has no space are dropped and counted.

use alloc::format;
use alloc::string::String;
use core::cell::Cell;
use core::fmt::{self, Display, Write};

use container::Rfc3339;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, write};
use rustix::path::Arg;
use rustix::time::{ClockId, clock_gettime};

use crate::NAME;

/// The maximum size of a line in bytes. Writes of up to this size to a FIFO are atomic (PIPE_BUF, pipe(7)), so the
/// lines of several writers do not mix.
const LONGEST: usize = 4096;

/// The level of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Information for debugging.
    Debug,
    /// General information.
    Info,
    /// A problem that does not prevent the operation.
    Warning,
    /// An error.
    Error,
}

/// A log to a FIFO, or one that discards all lines.
#[derive(Debug)]
pub struct Log {
    fd: Option<OwnedFd>,
    least: Level,
    /// The fields that describe the shim, in the form in which they are appended to each line.
    fields: String,
    lost: Cell<u64>,
}

/// Opens the FIFO `path`, relative to `dir`, for the log.
///
/// # Errors
/// Those of openat(2); EINVAL if the file is not a FIFO.
pub fn open(dir: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, path, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::Fifo => Ok(fd),
        _ => Err(Errno::INVAL),
    }
}

impl Log {
    /// Returns a log that writes to `fd`, from [`open`], for the shim of the container or pod `id`. Without `fd`, lines
    /// are discarded.
    pub fn new(fd: Option<OwnedFd>, debug: bool, namespace: &str, id: &str) -> Self {
        let mut fields = String::new();
        for (key, value) in [("id", id), ("namespace", namespace), ("runtime", NAME)] {
            let _ = write!(fields, " {key}={}", Value(value));
        }
        let least = if debug { Level::Debug } else { Level::Info };
        Self { fd, least, fields, lost: Cell::new(0) }
    }

    /// Returns a log that discards everything.
    pub fn nowhere() -> Self {
        Self { fd: None, least: Level::Error, fields: String::new(), lost: Cell::new(0) }
    }

    /// Returns a log for the bundle at the path `bundle`: opens its FIFO with [`open`] and passes it to [`Log::new`].
    pub fn of_bundle(bundle: &str, debug: bool, namespace: &str, id: &str) -> Self {
        let fd = open(CWD, format!("{bundle}/log").as_str());
        Self::new(fd.ok(), debug, namespace, id)
    }

    /// Returns the log's descriptor, for code that writes to it directly.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns whether lines of this level are logged, so that callers need not format lines that would be dropped.
    pub fn is_kept(&self, level: Level) -> bool {
        self.fd.is_some() && level >= self.least
    }

    /// Writes a line.
    pub fn line(&self, level: Level, message: impl Display) {
        if !self.is_kept(level) {
            return;
        }
        let lost = self.lost.get();
        if lost > 0 && self.put(&self.record(Level::Warning, format_args!("{lost} lines lost"))) {
            self.lost.set(0);
        }
        if !self.put(&self.record(level, message)) {
            self.lost.set(self.lost.get() + 1);
        }
    }

    /// Logs information for debugging.
    pub fn debug(&self, message: impl Display) {
        self.line(Level::Debug, message);
    }

    /// Logs general information.
    pub fn info(&self, message: impl Display) {
        self.line(Level::Info, message);
    }

    /// Logs a problem that does not prevent the operation.
    pub fn warning(&self, message: impl Display) {
        self.line(Level::Warning, message);
    }

    /// Logs an error.
    pub fn error(&self, message: impl Display) {
        self.line(Level::Error, message);
    }

    fn record(&self, level: Level, message: impl Display) -> String {
        let now = clock_gettime(ClockId::Realtime);
        let mut text = String::new();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        let time = Time(now.tv_sec.unsigned_abs(), nanos);
        let message = format!("{message}");
        let _ = write!(text, "time=\"{time}\" level={} msg={}", level.name(), Value(&message));
        if text.len() + self.fields.len() >= LONGEST {
            let end = LONGEST - self.fields.len().min(LONGEST / 2) - 8;
            text.truncate((0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
            // The cut must not be in the middle of an escape sequence.
            text.truncate(text.trim_end_matches('\\').len());
            text.push_str("...\"");
        }
        text.push_str(&self.fields);
        text.push('\n');
        text
    }

    /// Writes a formatted line; returns whether that succeeded.
    fn put(&self, record: &str) -> bool {
        let Some(fd) = &self.fd else { return true };
        loop {
            match write(fd, record.as_bytes()) {
                Err(Errno::INTR) => {}
                result => return result.is_ok(),
            }
        }
    }
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A timestamp, printed with all nine digits of the nanoseconds, as in containerd's logs.
struct Time(u64, u32);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = format!("{}", Rfc3339(self.0.saturating_mul(1_000_000_000)));
        write!(f, "{}.{:09}Z", whole.trim_end_matches('Z'), self.1)
    }
}

/// A value, printed in logrus' format: quoted unless it is a plain word.
struct Value<'a>(&'a str);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/@^+".contains(&byte);
        if self.0.bytes().all(is_word) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                _ if character.is_control() => write!(f, "\\x{:02x}", character as u32)?,
                _ => f.write_char(character)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &Log) -> String {
        let mut buffer = [0; 1 << 16];
        let length = rustix::io::read(log.fd().unwrap(), &mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    fn fifo() -> Log {
        let dir = std::env::temp_dir().join(format!("dayfly-shim-log-{}", std::process::id()));
        let path = std::format!("{}-{:?}", dir.display(), std::thread::current().id());
        let _ = std::fs::remove_file(&path);
        rustix::fs::mknodat(CWD, path.as_str(), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        let fd = open(CWD, path.as_str()).unwrap();
        std::fs::remove_file(&path).unwrap();
        Log::new(Some(fd), false, "k8s.io", "pod one")
    }

    #[test]
    fn lines_are_those_of_logrus() {
        let log = fifo();
        log.debug("not kept");
        log.info("ready");
        log.error("open /x: \"y\"\n");
        let text = read(&log);
        let lines: std::vec::Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let tail = " id=\"pod one\" namespace=k8s.io runtime=io.containerd.dayfly.v2";
        assert!(lines[0].ends_with(&format!("Z\" level=info msg=ready{tail}")), "{text}");
        let tail = format!("level=error msg=\"open /x: \\\"y\\\"\\n\"{tail}");
        assert!(lines[1].ends_with(&tail), "{text}");
        assert_eq!(Time(0, 5).to_string(), "1970-01-01T00:00:00.000000005Z");
    }

    #[test]
    fn nobody_reads() {
        let log = fifo();
        for number in 0..2000 {
            log.warning(format_args!("number {number} of many"));
        }
        let lost = log.lost.get();
        assert!(lost > 0);
        while rustix::io::read(log.fd().unwrap(), &mut [0; 1 << 16]).is_ok() {}
        log.info("again");
        let text = read(&log);
        assert!(text.contains(&format!("{lost} lines lost")) && text.contains("msg=again"));
    }

    #[test]
    fn long_lines_are_cut() {
        let log = fifo();
        log.info("\"é".repeat(LONGEST));
        let text = read(&log);
        assert!(text.len() <= LONGEST && text.ends_with("runtime=io.containerd.dayfly.v2\n"));
        assert!(text.contains("...\" id="));
    }

    #[test]
    fn only_fifos_are_logs() {
        assert!(open(CWD, "/dev/null").is_err());
        Log::nowhere().error("nothing");
    }
}
