//! The workload of an instance: a stand-in for a database under load.
//!
//! A transaction reads and writes 16 random words of a thread's memory, or reads 16 pages of its file, which the kernel
//! caches as memory permits. Every thread performs one transaction after the other. Ten times per second, the instance
//! prints the number of transactions, and the 99th percentile of their times. It waits for a line on standard input
//! before it begins, and exits at the end of standard input.

use crate::Error;
use clap::Args;
use hdrhistogram::Histogram;
use measure::random::Random;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The workload of an instance: `work`.
#[derive(Debug, Args)]
pub struct Work {
    /// Threads
    #[arg(long)]
    pub threads: usize,
    /// Memory to work on, in MiB
    #[arg(long)]
    pub memory: usize,
    /// Create this file and read its pages, which the kernel caches, instead of using memory
    #[arg(long)]
    pub file: Option<PathBuf>,
}

/// The name of the command, which `--help` does not list.
pub const NAME: &str = "work";

/// The number of words or pages that a transaction touches.
const TOUCHED: usize = 16;
/// The size of a page.
const PAGE: usize = 4096;
/// The number of exact digits of transaction times.
const DIGITS: u8 = 2;
/// The interval of reports.
const TICK: Duration = Duration::from_millis(100);
/// The number of words in a page.
const WORDS: usize = PAGE / size_of::<u64>();

/// The pages of a thread.
enum Pages {
    /// Memory that only this thread uses: threads writing to the same words would contend for cache lines.
    Memory(Vec<u64>),
    /// A file with this number of pages.
    File(File, usize),
}

/// The times of a thread's transactions since the last report, in nanoseconds.
type Done = Mutex<Histogram<u64>>;

/// Executes the command.
///
/// # Errors
/// A file that can't be made; memory or a file that can't be read or written.
pub fn command(options: &Work) -> Result<(), Error> {
    let count = options.memory * (1 << 20) / PAGE;
    let each = (count / options.threads.max(1)).max(1);
    let pages = (0..options.threads).map(|_| match &options.file {
        // The values are not zero, because pages of zeros would not be allocated.
        None => Ok(Pages::Memory((1..=(each * WORDS) as u64).collect())),
        Some(path) => {
            let file = fill(path, each).map_err(Error::at("write", path))?;
            Ok(Pages::File(file, each))
        }
    });
    let pages: Vec<Pages> = pages.collect::<Result<_, Error>>()?;
    let none = || Histogram::new(DIGITS).map_err(|error| Error::Unfit(error.to_string()));
    let done = (0..options.threads).map(|_| none().map(Mutex::new));
    let done: Vec<Done> = done.collect::<Result<_, _>>()?;
    let mut all = none()?;
    let stop = AtomicBool::new(false);
    say("ready")?;
    let mut line = String::new();
    let input = Path::new("standard input");
    std::io::stdin().lock().read_line(&mut line).map_err(Error::at("read", input))?;
    thread::scope(|scope| {
        for ((number, done), pages) in done.iter().enumerate().zip(pages) {
            let stop = &stop;
            scope.spawn(move || work(pages, number as u64 + 1, done, stop));
        }
        scope.spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            stop.store(true, Relaxed);
        });
        let mut due = Instant::now();
        while !stop.load(Relaxed) {
            due += TICK;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if tell(&done, &mut all).is_err() {
                stop.store(true, Relaxed);
            }
        }
    });
    Ok(())
}

/// Makes a file whose pages are cached and clean, so that they can be reclaimed without being written.
fn fill(path: &Path, pages: usize) -> std::io::Result<File> {
    let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
    // The file vanishes with this process.
    std::fs::remove_file(path)?;
    let page = [0x5a; PAGE];
    for _ in 0..pages {
        file.write_all(&page)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn work(mut pages: Pages, seed: u64, done: &Done, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut page = [0; PAGE];
    while !stop.load(Relaxed) {
        let start = Instant::now();
        for _ in 0..TOUCHED {
            match &mut pages {
                Pages::Memory(words) => {
                    let at = random.below(words.len());
                    words[at] = words[at].wrapping_add(seed);
                }
                Pages::File(file, count) => {
                    let at = random.below(*count) * PAGE;
                    let _ = file.read_at(black_box(&mut page), at as u64);
                }
            }
        }
        let ns = start.elapsed().as_nanos().max(1) as u64;
        done.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(ns);
    }
}

/// Prints the report of all threads: the time in ms, the number of transactions, and the 99th percentile in µs.
fn tell(done: &[Done], all: &mut Histogram<u64>) -> Result<(), Error> {
    all.reset();
    for one in done {
        let mut one = one.lock().unwrap_or_else(PoisonError::into_inner);
        // Both have the same number of digits.
        let _ = all.add(&*one);
        one.reset();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let p99_us = all.value_at_quantile(0.99) as f64 / 1e3;
    say(&format!("{now} {} {p99_us:.3}", all.len()))
}

fn say(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(Error::at("write", Path::new("standard output")))
}
