//! Runs cases in parallel and counts them.
//!
//! The standard test harness can neither skip with a reason at run time nor omit cases that do not apply to the current
//! view, so the suite has its own.

use crate::bed::Bed;
use crate::cgroups;
use crate::ended;
use crate::leak;
use crate::rootfs;
use crate::running;
use crate::subject::Subject;
use crate::view::View;
use std::cell::RefCell;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// One test.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    body: fn(&Bed),
    views: &'static [View],
    need: Option<fn() -> Result<(), String>>,
    alone: bool,
    unlike_runc: bool,
    when: fn() -> bool,
    undefended: Option<&'static str>,
}

impl Case {
    /// Returns a case for every view; use [`case!`](crate::case).
    #[must_use]
    pub const fn new(name: &'static str, body: fn(&Bed)) -> Self {
        Self {
            name,
            body,
            views: &[View::Hybrid, View::V1, View::V2],
            need: None,
            alone: false,
            unlike_runc: false,
            when: || true,
            undefended: None,
        }
    }

    /// Limits the case to these views.
    #[must_use]
    pub const fn on(mut self, views: &'static [View]) -> Self {
        self.views = views;
        self
    }

    /// Limits the case to hosts where `when` returns true.
    #[must_use]
    pub const fn when(mut self, when: fn() -> bool) -> Self {
        self.when = when;
        self
    }

    /// Skips the case if `need` returns a reason.
    #[must_use]
    pub const fn needs(mut self, need: fn() -> Result<(), String>) -> Self {
        self.need = Some(need);
        self
    }

    /// Leaves the case out when the suite tests runc. Such a case checks behaviour that the specification requires or
    /// that dayfly adds, and that runc 1.5.1 lacks.
    #[must_use]
    pub const fn unlike_runc(mut self) -> Self {
        self.unlike_runc = true;
        self
    }

    /// Runs the case with the build that `DAYFLY_UNDEFENDED_BUILD` names, and with the defences `names` switched off
    /// (separated by commas; may be empty). Without such a build, the case is skipped.
    #[must_use]
    pub const fn undefended(mut self, names: &'static str) -> Self {
        self.undefended = Some(names);
        self
    }

    /// Runs the case while no other case runs.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }
}

/// A [`Case`] named after its function.
#[macro_export]
macro_rules! case {
    ($function:ident) => {
        $crate::runner::Case::new(stringify!($function), $function)
    };
}

enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

thread_local! {
    /// The panic message of the case that runs on this thread.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the cases that the command line selects: `[--list] [--folder=NAME,…] [--except=FILTER]… [FILTER…]`, where a
/// filter is a part of `subject::case`.
pub fn main(subjects: &[Subject]) -> ExitCode {
    if let Some(code) = crate::inside::called() {
        return code;
    }
    let options: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = options.iter().filter(|option| !option.starts_with("--")).collect();
    let excepted: Vec<&str> =
        options.iter().filter_map(|option| option.strip_prefix("--except=")).collect();
    let folder = options.iter().find_map(|option| option.strip_prefix("--folder="));
    let view = match View::current() {
        Ok(view) => view,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = runtime_path();
    let peer = runtime.file_name().is_some_and(|name| name == "runc");
    let cases: Vec<(String, Case)> = subjects
        .iter()
        .filter(|subject| {
            folder.is_none_or(|folder| folder.split(',').any(|name| name == subject.folder.name()))
        })
        .flat_map(|subject| {
            subject.cases.iter().map(|case| (format!("{}::{}", subject.name(), case.name), *case))
        })
        .filter(|(name, _)| !excepted.iter().any(|filter| name.contains(filter)))
        .filter(|(name, _)| {
            filters.is_empty() || filters.iter().any(|filter| name.contains(*filter))
        })
        .filter(|(_, case)| {
            case.views.contains(&view) && (case.when)() && !(peer && case.unlike_runc)
        })
        .collect();
    if options.iter().any(|option| option == "--list") {
        cases.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Some(reason) = lacking(&runtime) {
        println!("all {} cases skipped: {reason}", cases.len());
        return report(view, 0, &[], cases.len());
    }
    let shared = std::env::temp_dir().join(format!("dayfly-tests-{}", std::process::id()));
    std::fs::create_dir_all(&shared).expect("make the run's directory");
    ended::watch(view, &shared);
    panic::set_hook(Box::new(|info| {
        MESSAGE.with(|message| *message.borrow_mut() = info.to_string());
    }));
    let start = Instant::now();
    let before = leak::Cgroups::look(view);
    let (passed, mut failed, skipped) = run_all(&cases, view, &runtime, &shared);
    let _ = panic::take_hook();
    let _ = std::fs::remove_dir_all(&shared);
    cgroups::remove_parents(view);
    let left = before.left();
    if !left.is_empty() {
        let (name, count) = ("the whole run".to_owned(), left.len());
        failed.push((name, format!("{count} cgroups left behind:\n  {}", left.join("\n  "))));
    }
    for (name, message) in &failed {
        println!("\n---- {name}\n{message}");
    }
    println!(
        "\n{} of {} in {:.1} s",
        view.name(),
        runtime.display(),
        start.elapsed().as_secs_f64()
    );
    report(view, passed, &failed, skipped)
}

fn report(view: View, passed: usize, failed: &[(String, String)], skipped: usize) -> ExitCode {
    println!("{}: {passed} passed, {} failed, {skipped} skipped", view.name(), failed.len());
    count(passed, failed.len(), skipped);
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Appends the numbers of cases to the file that `DAYFLY_TALLY` names, if it names one.
pub(crate) fn count(passed: usize, failed: usize, skipped: usize) {
    if let Some(tally) = std::env::var_os("DAYFLY_TALLY") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(tally);
        if let Ok(mut file) = file {
            let _ = writeln!(file, "{passed} {failed} {skipped}");
        }
    }
}

/// Returns the path of the runtime under test: the value of `DAYFLY`, or the release build of this workspace.
#[must_use]
pub fn runtime_path() -> PathBuf {
    std::env::var_os("DAYFLY").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/dayfly"),
        PathBuf::from,
    )
}

/// Returns the reason why no test can run here; `None` if tests can run.
#[must_use]
pub fn lacking(runtime: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("real containers need root".to_owned());
    }
    if let Err(reason) = rootfs::busybox() {
        return Some(reason);
    }
    if !runtime.exists() {
        return Some(format!("no runtime at {} (make build, or set DAYFLY)", runtime.display()));
    }
    None
}

const NO_UNDEFENDED_BUILD: &str = "DAYFLY_UNDEFENDED_BUILD names no build whose defences can be switched off \
                                   (tests/README.md)";

type Tally = (usize, Vec<(String, String)>, usize);

fn run_all(cases: &[(String, Case)], view: View, runtime: &Path, shared: &Path) -> Tally {
    let tally: Mutex<Tally> = Mutex::new((0, Vec::new(), 0));
    let work = |(name, case): &(String, Case)| {
        let start = Instant::now();
        let _running = running::begin(name);
        let verdict = run_one(case, view, runtime, shared);
        let spent = start.elapsed().as_millis();
        let mut tally = tally.lock().expect("tally");
        match verdict {
            Verdict::Passed => {
                println!("test {name} ... ok ({spent} ms)");
                tally.0 += 1;
            }
            Verdict::Skipped(reason) => {
                println!("test {name} ... skipped: {reason}");
                tally.2 += 1;
            }
            Verdict::Failed(message) => {
                println!("test {name} ... FAILED ({spent} ms)");
                tally.1.push((name.clone(), message));
            }
        }
    };
    let (alone, together): (Vec<_>, Vec<_>) = cases.iter().partition(|(_, case)| case.alone);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs() {
            scope.spawn(|| {
                while let Some(case) = together.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
    alone.into_iter().for_each(work);
    tally.into_inner().expect("tally")
}

fn jobs() -> usize {
    let cpus = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::env::var("DAYFLY_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(2 * cpus)
}

fn run_one(case: &Case, view: View, runtime: &Path, shared: &Path) -> Verdict {
    if let Some(Err(reason)) = case.need.map(|need| need()) {
        return Verdict::Skipped(reason);
    }
    let bed = match case.undefended {
        None => Bed::new(view, runtime, shared),
        Some(names) => match std::env::var_os("DAYFLY_UNDEFENDED_BUILD") {
            Some(build) => {
                Bed::new(view, Path::new(&build), shared).with_variable("DAYFLY_UNDEFENDED", names)
            }
            None => return Verdict::Skipped(NO_UNDEFENDED_BUILD.to_owned()),
        },
    };
    let result = panic::catch_unwind(AssertUnwindSafe(|| (case.body)(&bed)));
    let mut message = match result {
        Ok(()) => String::new(),
        Err(_) => MESSAGE.with(|message| message.borrow().clone()),
    };
    let left = panic::catch_unwind(AssertUnwindSafe(|| bed.finish()))
        .unwrap_or_else(|_| vec![MESSAGE.with(|message| message.borrow().clone())]);
    bed.remove(message.is_empty() && left.is_empty());
    for leak in left {
        message.push_str("\n  ");
        message.push_str(&leak);
    }
    if message.is_empty() { Verdict::Passed } else { Verdict::Failed(message) }
}
