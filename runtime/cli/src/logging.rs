//! Error output: to standard error for users, and to a log for engines, in the format of runc's log records.

use alloc::format;
use alloc::string::String;
use core::fmt::{Display, Write};

use container::Rfc3339;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::time::{ClockId, clock_gettime};
use sys::Context;
use sys::stdio::{Stderr, write_all};

use crate::definition::options::{DEBUG, LOG, LOG_FORMAT};
use crate::failure::{Failure, failure};
use crate::values::Values;

/// The format of a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `time="…" level=error msg="…"`
    #[default]
    Text,
    /// `{"level":"error","msg":"…","time":"…"}`
    Json,
}

/// The log requested on the command line.
#[derive(Debug, Default)]
pub struct Log {
    file: Option<OwnedFd>,
    format: Format,
    debug: bool,
}

impl Log {
    /// Opens the log. The file is created even if nothing is written to it, because engines expect it to exist.
    ///
    /// # Errors
    /// The format is unknown, or the file cannot be opened.
    pub fn open(globals: &Values<'_>) -> Result<Self, Failure> {
        let format = match globals.text(&LOG_FORMAT) {
            None | Some("text") => Format::Text,
            Some("json") => Format::Json,
            Some(other) => return Err(failure!("invalid log-format: {other}")),
        };
        let flags =
            OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = match globals.text(&LOG) {
            Some(path) => Some(open(path, flags, Mode::from(0o644)).context("open", path)?),
            None => None,
        };
        Ok(Self { file, format, debug: globals.flag(&DEBUG) })
    }

    /// Reports an error to standard error and, if a log file is open, to the log. Some callers search standard error
    /// for the word `error:` instead of checking the exit status.
    pub fn error(&self, message: &str) {
        let record = || record(self.format, "error", message, &now());
        let written = match &self.file {
            Some(file) => write_all(file, record().as_bytes()).is_ok(),
            None => false,
        };
        // Each line is written by one write(2), so that lines of several processes do not mix.
        let _ = match self.format {
            Format::Json if self.file.is_none() => Stderr.write_str(&record()),
            _ => Stderr.write_str(&format!("error: {message}\n")),
        };
        if self.file.is_some() && !written {
            let _ = Stderr.write_str("error: can't write to the log\n");
        }
    }

    /// Prints a command's usage on standard error, unless errors are printed there as JSON.
    pub fn usage(&self, line: &str) {
        if self.format == Format::Text || self.file.is_some() {
            let _ = Stderr.write_str(&format!("{line}\n"));
        }
    }

    /// Reports a problem that does not make the command fail, such as a setting that is not applied as requested. The
    /// warning goes to the log file if one is open, otherwise to standard error.
    pub fn warning(&self, message: &str) {
        self.write("warning", message);
    }

    /// Writes a warning to the log file, if one is open.
    pub fn record_warning(&self, message: &str) {
        if self.file.is_some() {
            self.warning(message);
        }
    }

    /// Logs debugging information, if the command line requests it.
    pub fn debug(&self, message: impl Display) {
        if self.debug {
            self.write("debug", &format!("{message}"));
        }
    }

    fn write(&self, level: &str, message: &str) {
        let record = record(self.format, level, message, &now());
        let _ = match &self.file {
            Some(file) => write_all(file, record.as_bytes()),
            None => write_all(sys::stdio::stderr(), record.as_bytes()),
        };
    }
}

/// Returns the current time in whole seconds.
fn now() -> Rfc3339 {
    let seconds = u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0);
    Rfc3339(seconds.saturating_mul(1_000_000_000))
}

/// Formats one line of the log.
fn record(format: Format, level: &str, message: &str, time: &Rfc3339) -> String {
    match format {
        Format::Text if is_bare(message) => {
            format!("time=\"{time}\" level={level} msg={message}\n")
        }
        Format::Text => format!("time=\"{time}\" level={level} msg={message:?}\n"),
        Format::Json => {
            let message = serde_json::Value::from(message);
            format!("{{\"level\":\"{level}\",\"msg\":{message},\"time\":\"{time}\"}}\n")
        }
    }
}

/// Returns whether a value can be written without quotes.
fn is_bare(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/@^+".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::GLOBALS;
    use crate::definition::Order;
    use crate::parser::parse;

    const TIME: &Rfc3339 = &Rfc3339(1_795_246_459_000_000_000);

    #[test]
    fn records_are_those_of_runc() {
        assert_eq!(
            record(Format::Text, "error", "container does not exist", TIME),
            "time=\"2026-11-21T07:34:19Z\" level=error msg=\"container does not exist\"\n"
        );
        assert_eq!(
            record(Format::Text, "error", "runc: \"state\" requires\n", TIME),
            "time=\"2026-11-21T07:34:19Z\" level=error msg=\"runc: \\\"state\\\" requires\\n\"\n"
        );
        assert_eq!(
            record(Format::Text, "debug", "/usr/bin/x", TIME),
            "time=\"2026-11-21T07:34:19Z\" level=debug msg=/usr/bin/x\n"
        );
        assert_eq!(
            record(Format::Json, "error", "a \"b\"\n", TIME),
            "{\"level\":\"error\",\"msg\":\"a \\\"b\\\"\\n\",\"time\":\"2026-11-21T07:34:19Z\"}\n"
        );
    }

    fn open(args: &[&str]) -> Result<Log, Failure> {
        Log::open(&parse(GLOBALS, Order::OptionsFirst, args).unwrap().values)
    }

    #[test]
    fn logs_that_cannot_be_written() {
        assert_eq!(open(&["--log-format", "xml"]).unwrap_err().message, "invalid log-format: xml");
        let failure = open(&["--log", "/no/such/directory/log"]).unwrap_err();
        assert_eq!(failure.message, "open /no/such/directory/log: no such file or directory");
    }

    #[test]
    fn log_is_made_and_appended_to() {
        let path = std::env::temp_dir().join(format!("dayfly-log-{}", std::process::id()));
        let name = path.to_str().unwrap();
        drop(open(&["--log", name]).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        for _ in 0..2 {
            open(&["--log", name, "--log-format=json"]).unwrap().error("oh");
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.starts_with("{\"level\":\"error\",\"msg\":\"oh\",")));
    }
}
