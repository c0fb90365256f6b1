//! The progress of an import: a bar on stderr.

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(100);

/// When to show the bar. Programs of the lab show the number of finished rounds. An import also
/// shows the rate and the remaining time, so only this program uses indicatif.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bar {
    /// If stderr is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Bar {
    fn shown(self) -> bool {
        match self {
            Self::Auto => std::io::stderr().is_terminal(),
            Self::Always => true,
            Self::Never => false,
        }
    }

    /// Does `work` while showing how many of `all` bytes are `done`.
    pub fn watch<T>(self, title: &str, all: u64, done: &AtomicU64, work: impl FnOnce() -> T) -> T {
        if !self.shown() {
            return work();
        }
        let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr());
        let style = "{msg} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        bar.set_style(
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_message(title.to_owned());
        let (over, waiting) = channel::<()>();
        thread::scope(|scope| {
            let shown = &bar;
            scope.spawn(move || {
                while waiting.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                    shown.set_position(done.load(Ordering::Relaxed));
                }
                shown.finish_and_clear();
            });
            let result = work();
            drop(over);
            result
        })
    }
}
