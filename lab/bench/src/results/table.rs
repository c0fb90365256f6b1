//! Formats tables.

use super::Row;
use crate::accounting;
use crate::figures::dash;
use crate::start::Weighed;
use measure::bootstrap::Estimate;
use report::Table;

/// Formats the CPU time, page faults and context switches of every step for which they are known, if there are any.
pub fn resources(rows: &[Row]) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.cpu_us > 0.0).collect();
    let is_split = rows.first()?.user_us.is_some();
    let split = |us: Option<f64>| us.map_or_else(dash, |us| format!("{:.2}", us / 1e3));
    let table = Table::of(
        rows,
        &[
            ("median", &|row| title(&row.step, row.pause_ms)),
            ("", &|row| row.runtime.clone()),
            ("CPU ms", &|row| format!("{:.2}", row.cpu_us / 1e3)),
            ("user", &|row| split(row.user_us)),
            ("system", &|row| split(row.system_us)),
            ("page faults", &|row| format!("{:.0}", row.faults)),
            ("switches", &|row| format!("{:.0}", row.switches)),
        ],
    );
    Some(table.left(&[0, 1]).to_string() + accounting::note(is_split))
}

/// Formats the counts: a row for each step and runtime.
pub fn weights(weighed: &[Weighed]) -> String {
    let mut table =
        Table::new(&["followed", "runtime", "system calls", "instructions", "peak MiB"]);
    for of in weighed {
        let mut cells = vec![of.step.to_owned(), of.runtime.clone()];
        match of.weight {
            Some(weight) => cells.extend([
                format!("{:.0}", weight.system_calls),
                weight.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}")),
                format!("{:.2}", weight.peak_kib / 1024.0),
            ]),
            None => cells.push("can't be followed".to_owned()),
        }
        table.row(cells);
    }
    table.to_string()
}

/// Formats a difference of times in microseconds, and its interval.
pub(crate) fn difference(us: Option<Estimate>) -> [String; 2] {
    let Some(us) = us else { return ["too few rounds".to_owned(), String::new()] };
    let interval = format!("[{:.0} {:.0}]", us.low, us.high);
    match us.differs_from(0.0) {
        true => [format!("{:.0}", us.value), interval],
        false => ["nothing shown".to_owned(), interval],
    }
}

/// Formats a ratio and its interval. If the interval includes 1, a text replaces the ratio.
pub(crate) fn judged(ratio: Estimate) -> [String; 2] {
    let interval = format!("[{:.3} {:.3}]", ratio.low, ratio.high);
    if ratio.differs_from(1.0) {
        [format!("{:.3}", ratio.value), interval]
    } else {
        ["no difference shown".to_owned(), interval]
    }
}

/// Returns the title of a step at a pause.
pub(crate) fn title(step: &str, pause_ms: f64) -> String {
    if pause_ms == 0.0 {
        format!("{step}, back-to-back")
    } else {
        format!("{step}, {pause_ms} ms apart")
    }
}
