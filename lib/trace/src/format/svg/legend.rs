//! The legend: colours and lines of the picture, and the time per phase.

use core::fmt::{self, Write};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::scale::Px;
use super::{MARGIN, WIDTH, colours, text};
use crate::format::text::{Share, Time};
use crate::{Account, Phase, Timeline};

/// The number of legend entries in a line.
const COLUMNS: usize = 7;

/// The vertical position of the legend, in pixels.
pub const TOP: u64 = 58;
/// The height of an entry, in pixels.
const HEIGHT: u64 = 40;

/// An entry of the legend.
pub struct Entry {
    mark: &'static str,
    fill: String,
    name: &'static str,
    value: String,
}

impl Entry {
    /// Writes the entry at the position with the index `place`.
    pub fn write(&self, out: &mut dyn Write, place: usize) -> fmt::Result {
        let Self { mark, fill, name, value } = self;
        let x = MARGIN + (place % COLUMNS) as u64 * (WIDTH - 2 * MARGIN) / COLUMNS as u64;
        let y = TOP + (place / COLUMNS) as u64 * HEIGHT;
        writeln!(out, "<g transform=\"translate({x} {y})\"><{mark} {fill}/>")?;
        text(out, (Px(240), 12), "font-size=\"12\" font-weight=\"bold\"", name)?;
        text(out, (Px(240), 26), "class=\"q\"", value)?;
        out.write_str("</g>\n")
    }
}

const SWATCH: &str = "rect width=\"16\" height=\"16\"";

/// Returns all entries.
pub fn legend(timeline: &Timeline, accounts: &[Account]) -> Vec<Entry> {
    let sums = timeline.phase_sums();
    let add = |total: u64, more: u64| total.saturating_add(more);
    let total = sums.iter().map(|sum| sum.time).fold(0, add);
    let mut entries: Vec<Entry> = Vec::new();
    let mut entry = |mark, fill: &str, name, value| {
        entries.push(Entry { mark, fill: fill.into(), name, value });
    };
    let fill = |phase| format!("fill=\"{}\"", colours(phase).0);
    for sum in sums {
        let value = format!("{}, {} %", Time(sum.time), Share(sum.time, total));
        entry(SWATCH, &fill(sum.phase), sum.phase.name(), value);
    }
    let each = || timeline.rows.iter().zip(accounts);
    let program = each().map(|(row, account)| account.work(row, Phase::Program)).fold(0, add);
    if program > 0 {
        entry(SWATCH, &fill(Phase::Program), "program", format!("{}", Time(program)));
    }
    let waited = each().map(|(row, account)| account.waited(row)).fold(0, add);
    if waited > 0 {
        entry(SWATCH, "fill=\"url(#w)\" stroke=\"#ccc\"", "waiting", format!("{}", Time(waited)));
    }
    let between = each().map(|(_, account)| account.between).fold(0, add);
    if between > 0 {
        entry(SWATCH, "class=\"l\"", "between steps", format!("{}", Time(between)));
    }
    if timeline.rows.iter().flat_map(|row| &row.spans).any(|span| span.errno != 0) {
        entry(SWATCH, "class=\"f\" fill=\"#fff\"", "failed", "the step has an error".into());
    }
    entry("path", "class=\"c\" d=\"M0 8H16\"", "critical path", "what the end waited for".into());
    entry("path", "class=\"a\" d=\"M0 8H16\"", "hand-over", "birth, or end of a wait".into());
    entries
}

/// Returns the height of a legend with this many entries.
pub fn height(entries: usize) -> u64 {
    entries.div_ceil(COLUMNS) as u64 * HEIGHT
}
