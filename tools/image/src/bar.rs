//! The progress of an import: a bar on stderr.

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
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
    /// Shows a bar for `all` bytes, and draws it again at regular intervals; returns `None` if none is to be shown.
    pub fn show(self, title: String, all: u64) -> Option<ProgressBar> {
        if self == Self::Never || self == Self::Auto && !std::io::stderr().is_terminal() {
            return None;
        }
        let style = "{msg} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        let style = ProgressStyle::with_template(style);
        let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_message(title);
        bar.enable_steady_tick(STEP);
        Some(bar)
    }
}
