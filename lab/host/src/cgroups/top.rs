//! `top` and `record`: sample the usage of groups repeatedly.

use super::group::{Group, Tree};
use super::usage::{Usage, known, size};
use crate::cgroups::options::{Column, Record, Top, Watched};
use report::interrupt::{self, Second};
use report::{Error, Table, sayln};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use rustix::time::Timespec;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

/// The changes of a group between two samples; a figure is `None` if no controller counts it.
#[derive(Debug, Clone, PartialEq)]
struct Rates {
    now: Usage,
    /// The number of busy CPUs.
    cpus: Option<f64>,
    /// The fraction of the time in which the quota throttled the group.
    throttled: Option<f64>,
    /// Bytes per second.
    io: Option<f64>,
}

/// Shows samples until q is pressed, a signal arrives or the count is reached.
///
/// # Errors
/// Unknown groups; failing system calls.
pub fn top(options: &Top) -> Result<(), Error> {
    interrupt::catch(Second::Waits)?;
    let tree = Tree::detect()?;
    check(&tree, &options.watched)?;
    let is_terminal = io::stdout().is_terminal();
    let keys = if is_terminal { Keys::take() } else { None };
    let mut ticks = Ticks::new(options.watched.interval);
    let mut sort = options.sort;
    let mut before: HashMap<String, Usage> = HashMap::new();
    let mut last = Instant::now();
    let mut looks = 0;
    // The first sample is only a baseline.
    let mut rates = Vec::new();
    let mut is_due = true;
    while !interrupt::came() {
        if is_due {
            let now = look(&tree, &options.watched);
            let passed = last.elapsed();
            last = Instant::now();
            rates = now.iter().map(|usage| rate(usage, before.get(&usage.group), passed)).collect();
            before = now.into_iter().map(|usage| (usage.group.clone(), usage)).collect();
        }
        if looks > 0 || is_terminal {
            show(&mut rates, sort, is_terminal)?;
        }
        looks += u64::from(is_due);
        // One sample more than requested is taken, because figures are differences of two samples.
        if options.watched.count.is_some_and(|count| looks > count) {
            break;
        }
        match ticks.wait(keys.is_some())? {
            Event::Due => is_due = true,
            Event::Key(b'q' | 3) => break,
            Event::Key(b's') => (is_due, sort) = (false, sort.next()),
            Event::Key(_) | Event::Other => is_due = false,
        }
    }
    Ok(())
}

/// Writes a CSV line for each group and sample.
///
/// # Errors
/// Unknown groups; failing system calls.
pub fn record(options: &Record) -> Result<(), Error> {
    interrupt::catch(Second::Waits)?;
    let tree = Tree::detect()?;
    check(&tree, &options.watched)?;
    let mut out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(File::create(path).map_err(Error::of("create", path))?),
        None => Box::new(io::stdout()),
    };
    let mut ticks = Ticks::new(options.watched.interval);
    let mut text = String::from(
        "time,group,processes,tasks,cpu_ns,throttled,throttled_ns,memory,memory_peak,memory_limit,\
         read,written,cpu_pressure,memory_pressure,io_pressure\n",
    );
    let mut looks = 0;
    while !interrupt::came() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for usage in look(&tree, &options.watched) {
            text.push_str(&csv(now, &usage));
        }
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result.map_err(|cause| Error::system("write", "CSV", cause))?,
        }
        text.clear();
        looks += 1;
        if options.watched.count.is_some_and(|count| looks >= count) {
            break;
        }
        while !interrupt::came() && !matches!(ticks.wait(false)?, Event::Due) {}
    }
    Ok(())
}

/// Formats a line of CSV. Unknown figures are empty fields.
fn csv(now: Duration, usage: &Usage) -> String {
    let time = format!("{}.{:03}", now.as_secs(), now.subsec_millis());
    let pressure = usage.pressure.map(|all| all.map(|percent| format!("{percent:.2}")));
    let figures = [
        usage.tasks,
        usage.cpu_ns,
        usage.throttled,
        usage.throttled_ns,
        usage.memory,
        usage.memory_peak,
        usage.memory_limit,
        usage.read,
        usage.written,
    ];
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    // Writing to memory can't fail.
    let _ = writer.serialize((
        (time, &usage.group, usage.processes),
        figures,
        pressure.unwrap_or_default(),
    ));
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Rejects groups that don't exist at the start.
fn check(tree: &Tree, watched: &Watched) -> Result<(), Error> {
    watched.groups.iter().try_for_each(|group| tree.existing(group).map(|_| ()))
}

/// Samples all watched groups. A group that has been removed is omitted until it exists again.
fn look(tree: &Tree, watched: &Watched) -> Vec<Usage> {
    let all = [Group::default()];
    let tops = if watched.groups.is_empty() { &all[..] } else { &watched.groups };
    let groups = tops.iter().filter(|top| tree.exists(top)).flat_map(|top| tree.walk(top));
    let groups = groups.filter(|group| !group.path.is_empty());
    groups.filter_map(|group| Usage::of(tree, &group).ok()).collect()
}

fn rate(now: &Usage, before: Option<&Usage>, passed: Duration) -> Rates {
    let seconds = passed.as_secs_f64().max(1e-3);
    let per_second = |of: fn(&Usage) -> Option<u64>| {
        let now = of(now)?;
        let before = before.and_then(of).unwrap_or(now);
        Some(now.saturating_sub(before) as f64 / seconds)
    };
    Rates {
        now: now.clone(),
        cpus: per_second(|usage| usage.cpu_ns).map(|rate| rate / 1e9),
        throttled: per_second(|usage| usage.throttled_ns).map(|rate| rate / 1e9),
        io: per_second(|usage| Some(usage.read?.saturating_add(usage.written?))),
    }
}

fn show(rates: &mut [Rates], sort: Column, in_place: bool) -> Result<(), Error> {
    sorted(rates, sort);
    if !in_place {
        sayln!("{}", table(rates));
        return Ok(());
    }
    // A terminal that does not report its size counts as one of the usual size.
    let (columns, rows) = size_of_stdout().unwrap_or((80, 24));
    let table = table(rates).within(Some(columns.saturating_sub(1))).to_string();
    let screen = screen(&table, sort, (columns, rows));
    let mut out = io::stdout().lock();
    let written = out.write_all(screen.as_bytes()).and_then(|()| out.flush());
    written.map_err(|cause| Error::system("write", "table", cause))
}

/// Returns the columns and rows of standard output if it is a terminal that reports its size.
pub(crate) fn size_of_stdout() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0)?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Formats a screen, starting at the top left corner. Each line is cut before the right edge, where it would wrap, and
/// cleared to its end; finally the rest of the screen is cleared.
fn screen(table: &str, sort: Column, (columns, rows): (usize, usize)) -> String {
    let cut = |line: &str| line.chars().take(columns.max(2) - 1).collect::<String>();
    let lines: Vec<String> = table.lines().take(rows.max(2) - 1).map(cut).collect();
    let keys = cut(&format!("by {}; s: sort by the next column, q: quit", sort.name()));
    format!("\x1b[H{}\x1b[K\n\x1b[J{keys}", lines.join("\x1b[K\n"))
}

fn sorted(rates: &mut [Rates], by: Column) {
    let waited = |rates: &Rates| rates.now.pressure.map_or(0.0, |of| of.iter().sum());
    // Unknown figures sort last.
    let known = |figure: Option<f64>| figure.unwrap_or(-1.0);
    rates.sort_by(|one, other| match by {
        Column::Cpu => known(other.cpus).total_cmp(&known(one.cpus)),
        Column::Memory => other.now.memory.cmp(&one.now.memory),
        Column::Io => known(other.io).total_cmp(&known(one.io)),
        Column::Pressure => waited(other).total_cmp(&waited(one)),
        Column::Name => one.now.group.cmp(&other.now.group),
    });
}

fn table(rates: &[Rates]) -> Table {
    let waits = |of: &Rates, at: usize| known(of.now.pressure, |all| format!("{:.1} %", all[at]));
    Table::of(
        rates,
        &[
            ("group", &|of| of.now.group.clone()),
            ("processes", &|of| of.now.processes.to_string()),
            ("CPUs", &|of| known(of.cpus, |cpus| format!("{cpus:.2}"))),
            ("held back", &|of| known(of.throttled, |share| format!("{:.0} %", share * 100.0))),
            ("memory", &|of| known(of.now.memory, size)),
            ("limit", &|of| known(of.now.memory_limit, size)),
            ("I/O a second", &|of| known(of.io, |bytes| size(bytes as u64))),
            ("CPU waits", &|of| waits(of, 0)),
            ("memory", &|of| waits(of, 1)),
            ("I/O", &|of| waits(of, 2)),
        ],
    )
}

/// The event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Due,
    Key(u8),
    Other,
}

/// Samples in regular intervals.
struct Ticks {
    interval: Duration,
    /// The time of the next sample; `None` if it is too late for the clock.
    due: Option<Instant>,
}

impl Ticks {
    fn new(interval: Duration) -> Self {
        Self { interval, due: Instant::now().checked_add(interval) }
    }

    /// Waits for the time of the next sample, or for a key.
    fn wait(&mut self, keys: bool) -> Result<Event, Error> {
        let stdin = io::stdin();
        let mut fds: Vec<PollFd<'_>> =
            keys.then(|| PollFd::new(&stdin, PollFlags::IN)).into_iter().collect();
        let left = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => return Ok(Event::Other),
            Err(errno) => return Err(Error::system("poll", "", errno)),
            Ok(0) => {
                let next = self.due.and_then(|due| due.checked_add(self.interval));
                // After a sample that took longer than the interval, the next one is due at once.
                self.due = next.map(|next| next.max(Instant::now()));
                return Ok(Event::Due);
            }
            Ok(_) => {}
        }
        let mut byte = [0; 1];
        match rustix::io::read(&stdin, &mut byte) {
            Ok(1) => Ok(Event::Key(byte[0])),
            _ => Ok(Event::Other),
        }
    }
}

/// Puts the terminal into a mode in which each key press is delivered at once; restores the terminal when dropped.
struct Keys {
    before: Termios,
}

impl Keys {
    fn take() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw).ok()?;
        let _ = io::stdout().write_all(b"\x1b[2J\x1b[?25l");
        Some(Self { before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = io::stdout().write_all(b"\x1b[?25h\n");
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(group: &str, cpu_ns: u64, memory: u64) -> Usage {
        let (cpu_ns, memory) = (Some(cpu_ns), Some(memory));
        Usage { group: group.to_owned(), cpu_ns, memory, ..Usage::default() }
    }

    #[test]
    fn between_two_looks() {
        let (before, mut now) = (usage("a", 1_000_000_000, 5), usage("a", 2_000_000_000, 9));
        let mut before = before;
        (before.read, before.written) = (Some(0), Some(0));
        (now.read, now.written) = (Some(4096), Some(0));
        let rates = rate(&now, Some(&before), Duration::from_secs(2));
        assert_eq!((rates.cpus, rates.io, rates.throttled), (Some(0.5), Some(2048.0), None));
        assert_eq!(rate(&now, None, Duration::ZERO).cpus, Some(0.0));
        let text = table(&[rates]).to_string();
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["a", "0", "0.50", "-", "9", "-", "2K", "-", "-", "-"]);
    }

    #[test]
    fn sorted_by_columns() {
        let second = Duration::from_secs(1);
        let mut all = [usage("b", 1, 9), usage("a", 5, 3)]
            .map(|now| rate(&now, Some(&usage("", 0, 0)), second));
        let names = |all: &[Rates]| all.iter().map(|r| r.now.group.clone()).collect::<String>();
        sorted(&mut all, Column::Cpu);
        assert_eq!(names(&all), "ab");
        sorted(&mut all, Column::Memory);
        assert_eq!(names(&all), "ba");
        sorted(&mut all, Column::Name);
        assert_eq!(names(&all), "ab");
        assert_eq!(Column::Name.next(), Column::Cpu);
    }

    #[test]
    fn on_a_small_terminal() {
        let table = "group  CPUs\nabcdefghijklmnop\nü\nlast\n";
        let text = screen(table, Column::Cpu, (9, 4));
        assert_eq!(text, "\x1b[Hgroup  C\x1b[K\nabcdefgh\x1b[K\nü\x1b[K\n\x1b[Jby CPU t");
        assert!(screen(table, Column::Io, (1, 1)).ends_with("g\x1b[K\n\x1b[Jb"));
    }

    #[test]
    fn lines_of_csv() {
        let line = csv(Duration::from_millis(1500), &usage("a,\"b", 7, 8));
        assert_eq!(line, "1.500,\"a,\"\"b\",0,,7,,,8,,,,,,,\n");
    }
}
