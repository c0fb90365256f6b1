//! The workload of an instance: a stand-in for a database under load.
//!
//! A transaction reads and writes 16 (`--touched`) random words of a thread's memory, or reads as many pages of its file, which the kernel
//! caches as memory permits. Every thread performs one transaction after the other. Ten times per second, the instance
//! prints the number of transactions, the 99th percentile of their times, and its CPU time. It waits for a line on standard input
//! before it begins, and exits at the end of standard input.

use crate::harness::*;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The workload of an instance: `work`.
#[derive(Debug, Args)]
pub struct Work {
    /// Threads
    #[arg(long)]
    pub threads: usize,
    /// Memory to work on, in MiB
    #[arg(long)]
    pub memory: usize,
    /// Words or pages that a transaction touches
    #[arg(long, default_value_t = TOUCHED)]
    pub touched: usize,
    /// Create this file and read its pages, which the kernel caches, instead of using memory
    #[arg(long)]
    pub file: Option<PathBuf>,
}

/// The name of the command, which `--help` does not list.
pub const NAME: &str = "work";

/// The number of words or pages that a short transaction touches: about a microsecond's work.
pub const TOUCHED: usize = 16;
/// The size of a page.
const PAGE: usize = 4096;
/// The interval of reports.
const TICK: Duration = Duration::from_millis(100);
/// Times are counted in logarithmic classes. This is the number of classes per doubling of the time.
const FINE: u64 = 8;
/// The number of time classes. The last class begins at about 4 minutes.
const CLASSES: usize = 8 * 38;

/// The number of words in a page.
const WORDS: usize = PAGE / size_of::<u64>();

/// The pages of a thread.
enum Pages {
    /// Memory that only this thread uses: threads writing to the same words would contend for cache lines.
    Memory(Vec<u64>),
    /// A file with this number of pages.
    File(File, usize),
}

/// The number of transactions of a thread in each class of duration since the last report.
type Classes = Vec<AtomicU64>;

fn classes() -> Classes {
    (0..CLASSES).map(|_| AtomicU64::new(0)).collect()
}

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
    let done: Vec<Classes> = (0..options.threads).map(|_| classes()).collect();
    let stop = AtomicBool::new(false);
    say("ready")?;
    let mut line = String::new();
    let input = Path::new("standard input");
    std::io::stdin().lock().read_line(&mut line).map_err(Error::at("read", input))?;
    thread::scope(|scope| {
        for ((number, done), pages) in done.iter().enumerate().zip(pages) {
            let stop = &stop;
            scope.spawn(move || work(pages, (number as u64 + 1, options.touched), done, stop));
        }
        scope.spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            stop.store(true, Relaxed);
        });
        let mut due = Instant::now();
        while !stop.load(Relaxed) {
            due += TICK;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let told = tell(&done);
            if told.is_err() {
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

fn work(mut pages: Pages, (seed, touched): (u64, usize), done: &Classes, stop: &AtomicBool) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut page = [0; PAGE];
    while !stop.load(Relaxed) {
        let start = Instant::now();
        for _ in 0..touched {
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match &mut pages {
                Pages::Memory(words) => {
                    let at = random as usize % words.len();
                    words[at] = words[at].wrapping_add(random);
                }
                Pages::File(file, count) => {
                    let at = random as usize % *count * PAGE;
                    let _ = file.read_at(black_box(&mut page), at as u64);
                }
            }
        }
        done[class(start.elapsed())].fetch_add(1, Relaxed);
    }
}

/// Prints the report of all threads: the time in ms, the number of transactions, the 99th percentile in µs, and the CPU
/// time of this process so far in µs.
fn tell(done: &[Classes]) -> Result<(), Error> {
    let mut classes = vec![0; CLASSES];
    for one in done {
        for (sum, class) in classes.iter_mut().zip(one) {
            *sum += class.swap(0, Relaxed);
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let count: u64 = classes.iter().sum();
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_us = cpu.tv_sec * 1_000_000 + cpu.tv_nsec / 1000;
    say(&format!("{now} {count} {:.3} {cpu_us}", p99_us(&classes, count)))
}

fn say(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(Error::at("write", Path::new("standard output")))
}

/// Returns the upper end of the class that contains the 99th percentile.
fn p99_us(classes: &[u64], count: u64) -> f64 {
    let mut left = count * 99 / 100;
    for (class, transactions) in classes.iter().enumerate() {
        if left < *transactions {
            return 2_f64.powf((class + 1) as f64 / FINE as f64) / 1e3;
        }
        left -= transactions;
    }
    0.0
}

fn class(time: Duration) -> usize {
    let ns = time.as_nanos().max(1) as f64;
    ((ns.log2() * FINE as f64) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_hundredth_is_told() {
        let mut classes = [0; CLASSES];
        classes[class(Duration::from_micros(10))] = 990;
        classes[class(Duration::from_millis(3))] = 10;
        let p99 = p99_us(&classes, 1000);
        assert!((3000.0..3300.0).contains(&p99), "{p99}");
        let p99 = p99_us(&classes, 900);
        assert!((10.0..11.0).contains(&p99), "{p99}");
        assert_eq!(p99_us(&[0; CLASSES], 0), 0.0);
        assert_eq!(class(Duration::from_secs(100_000)), CLASSES - 1);
    }
}
