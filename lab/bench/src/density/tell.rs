//! Tables and pictures.

use super::reading::KERNEL;
use super::{BAR, Growth, Row};
use crate::harness::*;

/// Returns the outcome: the starts, what containers hold, and whether starts take longer the more containers there are.
pub(super) fn outcome(
    rows: &[Row],
    growths: &[Growth],
    ends: &[String],
    first: &str,
) -> Result<Outcome, Error> {
    let mut figures = Figures::default();
    for row in rows {
        let name = |what: &str| format!("{}, beside {}: {what}", row.network, row.count);
        figures.rounds(name("a start"), "ms", &row.runtime, row.wall_ms.iter().copied());
        figures.rounds(name("CPU time"), "ms CPU", &row.runtime, row.cpu_ms.iter().copied());
        if let Some(kib) = row.share.get("kernel") {
            figures.set(&name("kernel memory"), "KiB", &row.runtime, *kib);
        }
    }
    let mut outcome = figures.outcome(first);
    let memory = ["PSS", "private", "PSS beside"].into_iter().chain(KERNEL.map(|it| it.0));
    let memory: Vec<_> = memory.chain(["kernel", "files", "in all"]).collect();
    let objects = ["processes beside", "network namespaces", "mounts outside", "cgroups"];
    let tables = [
        starts(rows),
        shares("Memory of one idle container, KiB", rows, &memory),
        shares("What one idle container has", rows, &objects),
        verdicts(growths),
        figures.verdicts(first),
    ];
    outcome.text = tables.join("\n");
    for end in ends {
        let _ = writeln!(outcome.text, "\n{end}");
    }
    outcome.pictures = vec![
        curves("A start and removal, median", "ms", rows, |row| middle(&row.wall_ms)),
        curves("Kernel memory of an idle container", "KiB", rows, |row| {
            row.share.get("kernel").copied()
        }),
    ];
    outcome.with("rows", &rows)?.with("growth", &growths)?.with("ends", &ends)
}

fn middle(values: &[f64]) -> Option<f64> {
    Summary::of(values).map(|all| all.median)
}

fn case(row: &Row) -> String {
    format!("{}, {} of each", row.network, row.count)
}

fn starts(rows: &[Row]) -> String {
    let ms = |value: Option<f64>| value.map_or_else(dash, |value| format!("{value:.2}"));
    let count = |value: Option<f64>| value.map_or_else(dash, |value| format!("{value:.0}"));
    let interval = |of: Estimate| format!("[{:.2} {:.2}]", of.low, of.high);
    let table = Table::of(
        rows,
        &[
            ("", &|row| case(row)),
            ("", &|row| row.runtime.clone()),
            ("ms", &|row| ms(middle(&row.wall_ms))),
            ("95 %", &|row| bootstrap::middle(&row.wall_ms).map_or_else(dash, interval)),
            ("CPU ms", &|row| ms(middle(&row.cpu_ms))),
            ("system calls", &|row| count(row.weight.map(|it| it.system_calls))),
            ("instructions", &|row| count(row.weight.and_then(|it| it.instructions))),
        ],
    );
    format!("A start and removal beside idle containers, median\n{}", table.left(&[0, 1]))
}

fn shares(title: &str, rows: &[Row], names: &[&str]) -> String {
    let mut table = Table::new(&[&["", ""], names].concat());
    for row in rows {
        let number =
            |name| row.share.get(name).map_or_else(dash, |value: &f64| format!("{value:.1}"));
        let cells = names.iter().map(|name| number(*name));
        table.row([case(row), row.runtime.clone()].into_iter().chain(cells).collect());
    }
    format!("{title}\n{}", table.left(&[0, 1]))
}

fn verdicts(growths: &[Growth]) -> String {
    let ratio = |of: Estimate| format!("{:.3} [{:.3} {:.3}]", of.value, of.low, of.high);
    let table = Table::of(
        growths,
        &[
            ("", &|it| format!("{}, beside {} ÷ beside {}", it.network, it.count, it.base)),
            ("", &|it| it.runtime.clone()),
            ("time", &|it| it.wall.map_or_else(dash, ratio)),
            ("CPU time", &|it| it.cpu.map_or_else(dash, ratio)),
            (&format!("time at most {BAR} ×"), &|it| {
                it.wall.map_or_else(dash, |of| of.within(BAR).to_owned())
            }),
        ],
    );
    format!(
        "A start at the highest count, each by a ruler that is the same at all counts\n{}",
        table.left(&[0, 1])
    )
}

/// Draws a figure over the number of containers.
fn curves(title: &str, unit: &str, rows: &[Row], figure: fn(&Row) -> Option<f64>) -> Picture {
    let points = rows.iter().filter_map(|row| {
        Some((format!("{}, {}", row.runtime, row.network), (row.count as f64, figure(row)?)))
    });
    let axes = [Axis::logarithmic("idle containers of each runtime"), Axis::linear(unit)];
    results::chart(title, axes, Form::Curves, points)
}
