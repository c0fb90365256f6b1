//! The trace of a command: how it is requested, where it is written, and the entries that concern the whole command.
//!
//! A trace is requested by `--trace`, by an environment variable, or by an annotation of the container. The annotation
//! is for engines that pass on neither options nor environment. The trace is written at the end of the command, even if
//! the command fails.

use alloc::format;
use alloc::string::{String, ToString};
use core::cell::{Cell, RefCell};
use core::ops::Deref;

use plan::FastPaths;
use rustix::io::Errno;
use rustix::process::getpid;
use sys::Context;
use trace::{Format, Phase, Tracer};

use crate::trace_file::{self, Draft};
use crate::{Error, cache, host_cache, spool};

/// The environment variable that requests a trace, like `--trace`.
pub const VARIABLE: &str = "DAYFLY_TRACE";
/// The annotation that requests a trace: its value is a format, and the file goes to the spool.
pub const ANNOTATION: &str = "run.dayfly.trace";

/// A command, and its trace if requested.
#[derive(Debug)]
pub struct Trace {
    tracer: Tracer,
    command: &'static str,
    args: sys::Args,
    destination: RefCell<Option<Destination>>,
    /// The id of the container, once a draft was formatted. The command line may have the beginning of an id only.
    id: RefCell<String>,
    /// The file, once it contains a draft.
    draft: RefCell<Option<Draft>>,
    /// The time of the program's first instruction, in nanoseconds; 0 if the clock was not read
    /// then.
    entered: u64,
    /// The times from before the command executed itself again; `None` if it has not done so.
    sealed: Option<Sealed>,
    /// The creation time of the process, once known.
    began: Cell<Option<u64>>,
    /// The name and object of the step that created the process.
    birth: (&'static str, &'static str),
    /// The number of steps so far.
    #[cfg(dayfly_faults)]
    pub(crate) steps: Cell<usize>,
}

#[derive(Debug, Clone)]
enum Destination {
    Stderr,
    File(String),
    Spool(Format),
}

/// Times from before a command executed itself again, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Sealed {
    entered: u64,
    seal: u64,
    exec: u64,
}

impl Trace {
    /// Returns the trace of `command`, whose first instruction ran at `entered`; if `entered` is 0, the command is not
    /// traced. `destination`, if given, is `-` for stderr, or the path of a file. In the path, `%i` stands for the
    /// container's id, `%c` for the command and `%p` for its pid.
    pub fn new(
        command: &'static str,
        args: sys::Args,
        entered: u64,
        destination: Option<&str>,
    ) -> Self {
        let asked = destination.filter(|text| !text.is_empty());
        let is_wanted = entered > 0 && asked.is_some();
        let trace = Self {
            tracer: Tracer::off(),
            command,
            args,
            destination: RefCell::new(asked.map(|text| match text {
                "-" => Destination::Stderr,
                file => Destination::File(file.to_string()),
            })),
            id: RefCell::new(String::new()),
            draft: RefCell::new(None),
            entered,
            sealed: if is_wanted { Sealed::left(args) } else { None },
            began: Cell::new(None),
            birth: ("exec", "dayfly"),
            #[cfg(dayfly_faults)]
            steps: Cell::new(0),
        };
        if is_wanted {
            trace.tracer.turn_on();
            trace.add(Phase::Configuration, "read arguments", "", (entered, trace.clock()));
        }
        trace
    }

    /// Returns the trace of `command` in a process that is a copy of its parent, which read the arguments. The calling
    /// instruction counts as the process's first. Only an annotation turns this trace on.
    pub fn of_copy(command: &'static str, args: sys::Args) -> Self {
        Self { birth: ("clone", "worker"), ..Self::new(command, args, trace::now(), None) }
    }

    /// Returns the command's arguments and environment.
    pub(crate) fn args(&self) -> sys::Args {
        self.args
    }

    /// Returns whether the environment requests a trace.
    pub fn is_asked_for(args: sys::Args) -> bool {
        args.env(VARIABLE).is_some()
    }

    /// Starts the trace requested by a container's annotations, unless a trace was already requested.
    pub(crate) fn heed<'a>(&self, mut annotations: impl Iterator<Item = (&'a str, &'a str)>) {
        if self.is_on() {
            return;
        }
        let Some((_, name)) = annotations.find(|(key, _)| *key == ANNOTATION) else { return };
        let Some(format) = Format::parse(name) else {
            let known = Format::ALL.map(Format::name).join(", ");
            let _ = core::fmt::Write::write_fmt(
                &mut sys::stdio::Stderr,
                format_args!(
                    "dayfly: warning: annotation {ANNOTATION}: no format {name:?}: known are {known}\n"
                ),
            );
            return;
        };
        *self.destination.borrow_mut() = Some(Destination::Spool(format));
        self.tracer.turn_on();
        self.remark("requested by an annotation: earlier steps are not shown separately");
    }

    /// Ensures that the command runs from a file that nobody can write to (see [`launch::seal_self`]). Keeps the
    /// read-only mount of the binary for later commands.
    ///
    /// # Errors
    /// If no safe copy could be made.
    pub fn seal(&self, args: sys::Args, fast_paths: FastPaths) -> Result<(), Error> {
        self.point("seal", "/proc/self/exe")?;
        let kept = || host_cache::program(fast_paths);
        if let Some(mount) = launch::seal_self(args, self.entered, self, kept)? {
            host_cache::keep_program(fast_paths, &mount);
        }
        Ok(())
    }

    /// Prepares [`Self::write`]: queries the process's creation time, formats the trace so far, and writes a draft to
    /// the file. A command calls this while it waits for the program, so that the trace delays the command's exit less:
    /// at the end, the code is in memory, the file exists, and the allocator reuses the blocks.
    pub(crate) fn prepare(&self, id: &str) {
        if !self.is_on() {
            return;
        }
        self.look_back();
        *self.id.borrow_mut() = id.to_string();
        let destination = self.destination.borrow();
        let Some(destination) = &*destination else { return };
        let text = destination.format().text(&self.timeline(&self.title(), id));
        match destination {
            Destination::File(pattern) => {
                *self.draft.borrow_mut() =
                    Draft::write(&self.fill_in(pattern, id), text.as_bytes());
            }
            _ => drop(core::hint::black_box(text)),
        }
    }

    fn title(&self) -> String {
        format!("dayfly {}", self.command)
    }

    fn look_back(&self) {
        if self.began.get().is_none() {
            self.began.set(Some(self.find_beginning()));
        }
    }

    /// Writes the trace, if requested.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, id: &str) -> Result<(), Error> {
        if !self.is_on() {
            return Ok(());
        }
        self.complete();
        let known = self.id.take();
        let id = if known.is_empty() { id } else { &known };
        let timeline = self.timeline(&self.title(), id);
        let destination = match self.destination.borrow().clone() {
            Some(Destination::File(pattern)) => Destination::File(self.fill_in(&pattern, id)),
            Some(other) => other,
            None => return Ok(()),
        };
        let format = destination.format();
        let text = format.text(&timeline);
        let text = text.as_bytes();
        match destination {
            Destination::Stderr => {
                sys::stdio::write_all(sys::stdio::stderr(), text)
                    .context("write trace", "stderr")?;
            }
            Destination::File(path) => trace_file::write(&path, text, self.draft.take())?,
            Destination::Spool(_) => {
                spool::write(&format!("{id}-{}{}", self.command, format.suffix()), text)?;
            }
        }
        Ok(())
    }

    /// Returns the time of the program's first instruction. If the program has executed itself again, this is the first
    /// instruction of its first execution.
    fn first(&self) -> u64 {
        self.sealed.map_or_else(|| self.entered(), |sealed| sealed.entered)
    }

    /// Returns the time of this execution's first instruction.
    fn entered(&self) -> u64 {
        // If an annotation requests the trace, the clock was not read at the program's first
        // instruction.
        if self.entered > 0 { self.entered } else { self.turned_on() }
    }

    /// Returns the creation time of the process, which is before its first instruction.
    fn find_beginning(&self) -> u64 {
        let first = self.first();
        let before = trace::now();
        match sys::taskstats::age(getpid()) {
            Ok(age) => match trace::now().saturating_sub(age * 1000) {
                began if began < first => began,
                // Another process may have run on the CPU between the kernel's answer and the reading of the clock.
                _ => before.saturating_sub(age * 1000).min(first),
            },
            Err(errno) => {
                let why = sys::errno::describe(errno);
                self.remark(format_args!("begins with the first instruction: taskstats: {why}"));
                first
            }
        }
    }

    /// Adds events from before the tracer existed.
    fn complete(&self) {
        self.look_back();
        let (first, entered) = (self.first(), self.entered());
        let began = self.began.get().unwrap_or(first);
        self.tracer.began(began);
        let (step, object) = self.birth;
        self.add(Phase::Bootstrap, step, object, (began, first));
        if let Some(sealed) = self.sealed {
            self.add(Phase::Configuration, "read arguments", "", (first, sealed.seal));
            self.add(Phase::Security, "seal", "/proc/self/exe", (sealed.seal, sealed.exec));
            self.add(Phase::Bootstrap, "exec", "dayfly, sealed", (sealed.exec, entered));
        }
    }

    fn fill_in(&self, pattern: &str, id: &str) -> String {
        let pid = getpid().as_raw_pid().to_string();
        pattern.replace("%i", id).replace("%c", self.command).replace("%p", &pid)
    }
}

impl Deref for Trace {
    type Target = Tracer;

    fn deref(&self) -> &Tracer {
        &self.tracer
    }
}

impl Destination {
    /// Returns the format of a trace that goes there.
    fn format(&self) -> Format {
        match self {
            Self::Stderr => Format::Table,
            Self::File(path) => Format::of_path(path),
            Self::Spool(format) => *format,
        }
    }
}

impl Sealed {
    fn left(args: sys::Args) -> Option<Self> {
        Self::parse(args.env(launch::SEALED)?)
    }

    /// Parses the variable that [`launch::seal_self`] left in the environment.
    fn parse(text: &str) -> Option<Self> {
        let mut times = text.split(',').map(str::parse);
        let [entered, seal, exec] = [times.next()?.ok()?, times.next()?.ok()?, times.next()?.ok()?];
        (entered <= seal && seal <= exec).then_some(Self { entered, seal, exec })
    }
}

impl trace::Failed for Error {
    fn errno(&self) -> u16 {
        match self {
            Self::Launch(error) => error.errno(),
            Self::Cgroup(cgroup::Error::System(error))
            | Self::Resctrl(cgroup::resctrl::Error::System(error))
            | Self::Topology(topology::Error::System(error))
            | Self::Cache(cache::Error::System(error))
            | Self::System(error) => error.errno(),
            Self::NotFound(_) | Self::NoConfiguration(_) => Errno::NOENT.errno(),
            Self::Exists(_) => Errno::EXIST.errno(),
            Self::NotRunning => Errno::SRCH.errno(),
            Self::NotForked { .. } => Errno::CANCELED.errno(),
            Self::Parse { .. } | Self::Invalid(_) | Self::Id(_) | Self::Plan(_) => {
                Errno::INVAL.errno()
            }
            Self::Damaged(_) => Errno::BADMSG.errno(),
            Self::Foreign { .. } => Errno::PERM.errno(),
            Self::Rootfs(rootfs::Error::System(error)) => error.errno(),
            Self::Cgroup(_)
            | Self::Rootfs(_)
            | Self::Resctrl(_)
            | Self::Topology(_)
            | Self::Cache(_)
            | Self::CannotStart(_)
            | Self::CannotDelete { .. }
            | Self::Survives
            | Self::Json { .. }
            | Self::Text(_) => Errno::CANCELED.errno(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled_in() {
        let trace = Trace::new("run", sys::Args::empty(), 5, None);
        let pid = getpid().as_raw_pid();
        assert_eq!(trace.fill_in("/t/%i-%c-%p.json", "web"), format!("/t/web-run-{pid}.json"));
        assert!(!trace.is_on());
    }

    #[test]
    fn only_times_in_order_are_taken_from_the_environment() {
        assert!(Sealed::parse("1,2,3").is_some());
        for bad in ["", "1", "1,2", "3,2,1", "a,b,c", "1,2,"] {
            assert!(Sealed::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_annotation_turns_a_trace_on() {
        let trace = Trace::new("run", sys::Args::empty(), 5, None);
        trace.heed([("a", "b")].into_iter());
        assert!(!trace.is_on());
        trace.heed([("a", "b"), (ANNOTATION, "chrome")].into_iter());
        assert!(trace.is_on());
    }
}
