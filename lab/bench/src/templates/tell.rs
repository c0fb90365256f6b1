//! Results of `templates` as tables, CSV and pictures.

use super::fork::{Fork, NAMES};
use super::{AnswerRow, BurstRow, MEASUREMENTS, MemoryRow, Results};
use crate::options::Templates;
use crate::results::{self, judged};
use measure::bootstrap::Estimate;
use measure::chart::Picture;
use measure::statistics::Summary;
use report::Table;
use report::count::counted;
use report::csv::quoted;
use std::fmt::Write;

/// The maximum accepted ratio of the time of a forked program to that of an executed one.
const BAR: f64 = 1.2;

/// Formats a table for each figure.
pub(super) fn text(results: &Results, options: &Templates) -> String {
    let first = options.ways.first().map_or("", |way| way.name());
    let mut tables = Vec::new();
    if !results.answers.is_empty() {
        tables.push(answers(&results.answers, first));
    }
    if !results.memory.is_empty() {
        tables.push(memory(&results.memory));
    }
    if !results.bursts.is_empty() {
        let count = options.count.unwrap_or(options.width);
        let bursts = counted(options.bursts, "burst");
        let title = format!("{} in flight, {bursts} of {count} requests", options.width);
        tables.push(format!("{title}\n{}", bursts_table(&results.bursts, first)));
    }
    if !results.forks.is_empty() {
        tables.extend([forks(&results.forks), steps(&results.forks)]);
    }
    tables.join("\n")
}

fn answers(rows: &[AnswerRow], first: &str) -> String {
    let ratio = format!("{first} ÷ it");
    let headings = ["ms", "p50", "95 %", "p99", "95 %", &ratio, "95 %", ""];
    let mut table = Table::new(&headings).left(&[0, 7]);
    for row in rows {
        let mut cells = vec![row.way.clone()];
        cells.extend(percentiles(row));
        cells.extend(compared(row.ratio, row.way == first));
        cells.extend(row.reason.clone());
        table.row(cells);
    }
    let rounds = rows.iter().map(|row| row.latencies_us.len()).max().unwrap_or(0);
    format!("Until the function answers, {}\n{table}", counted(rounds, "round"))
}

/// Formats the median and the 99th percentile in milliseconds, each with its interval.
fn percentiles(row: &AnswerRow) -> [String; 4] {
    let Some(all) = row.summary else { return std::array::from_fn(|_| dash()) };
    let interval = |of: Option<Estimate>| {
        of.map_or_else(String::new, |of| format!("[{:.2} {:.2}]", of.low / 1e3, of.high / 1e3))
    };
    let ms = |us: f64| format!("{:.2}", us / 1e3);
    [ms(all.median), interval(row.median_us), ms(all.p99), interval(row.p99_us)]
}

fn compared(ratio: Option<Estimate>, is_first: bool) -> [String; 2] {
    match ratio {
        Some(ratio) => judged(ratio),
        None if is_first => Default::default(),
        None => [dash(), String::new()],
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn memory(rows: &[MemoryRow]) -> String {
    let headings = ["MiB", "idle", "private", "a running container", "private"];
    let mut table = Table::new(&headings);
    let mut made = String::new();
    for row in rows {
        let figures =
            [row.idle_pss_kib, row.idle_private_kib, row.running_pss_kib, row.running_private_kib];
        let mib = |kib: Option<f64>| kib.map_or_else(dash, |kib| format!("{:.1}", kib / 1024.0));
        table.row(std::iter::once(row.way.clone()).chain(figures.map(mib)).collect());
        if let Some(ms) = row.made_ms {
            let _ = writeln!(made, "A template was made in {ms:.0} ms, its warm-up included.");
        }
    }
    format!(
        "Memory as resident, shared pages in parts; private: changed, and used by nobody else; median of {MEASUREMENTS}\n\
         {table}{made}"
    )
}

fn bursts_table(rows: &[BurstRow], first: &str) -> Table {
    let ratio = format!("{first} ÷ it");
    let headings = [
        "",
        "answers/s",
        "95 %",
        &ratio,
        "95 %",
        "p50 ms",
        "95 %",
        "p99 ms",
        "95 %",
        &ratio,
        "95 %",
    ];
    let mut table = Table::new(&headings);
    for row in rows.iter().filter(|row| !row.rates.is_empty()) {
        let is_first = row.answers.way == first;
        let rate = Summary::of(&row.rates).map_or(f64::NAN, |rates| rates.median);
        let interval =
            row.rate.map_or_else(String::new, |rate| format!("[{:.1} {:.1}]", rate.low, rate.high));
        let mut cells = vec![row.answers.way.clone(), format!("{rate:.1}"), interval];
        cells.extend(compared(row.rate_ratio, is_first));
        cells.extend(percentiles(&row.answers));
        cells.extend(compared(row.answers.ratio, is_first));
        table.row(cells);
    }
    table
}

fn forks(rows: &[Fork]) -> String {
    let bar = format!("≤ {BAR}");
    let headings = ["ms", "median", "95 %", "p90", "it ÷ executed", "95 %", &bar, ""];
    let mut table = Table::new(&headings).left(&[0, 7]);
    for row in rows {
        let mut cells = vec![row.name.clone()];
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        cells.push(row.summary.map_or_else(dash, |all| ms(all.median)));
        cells.push(row.median_us.map_or_else(String::new, |middle| {
            format!("[{} {}]", ms(middle.low), ms(middle.high))
        }));
        cells.push(row.summary.map_or_else(dash, |all| ms(all.p90)));
        match row.ratio {
            Some(ratio) => cells.extend([
                format!("{:.3}", ratio.value),
                format!("[{:.3} {:.3}]", ratio.low, ratio.high),
                ratio.within(BAR).to_owned(),
            ]),
            None => cells.extend([""; 3].map(str::to_owned)),
        }
        cells.extend(row.reason.clone());
        table.row(cells);
    }
    let rounds = rows.iter().map(|row| row.rounds_us.len()).max().unwrap_or(0);
    format!("run of a program that ends at once, {}\n{table}", counted(rounds, "round"))
}

/// Formats the times of steps: a row for each step, a column for each program.
fn steps(rows: &[Fork]) -> String {
    let traced: Vec<&Fork> = rows.iter().filter(|row| !row.steps.is_empty()).collect();
    let column = |row: &&Fork| {
        row.touched_mib.map_or_else(|| row.name.clone(), |mib| format!("forked, {mib} MiB"))
    };
    let columns: Vec<String> =
        std::iter::once("µs".to_owned()).chain(traced.iter().map(column)).collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let of = |row: &Fork, name: &str| row.steps.iter().find(|step| step.name == name).copied();
    for name in NAMES.iter().filter(|name| traced.iter().any(|row| of(row, name).is_some())) {
        let cells = traced
            .iter()
            .map(|row| of(row, name).map_or_else(dash, |step| format!("{:.0}", step.median_us)));
        table.row(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    format!("Steps of a start, from its trace, medians\n{table}")
}

/// Formats every sample.
pub(super) fn csv(results: &Results) -> String {
    let mut text = String::from("figure,unit,way,round,value\n");
    let mut add = |figure: &str, unit: &str, way: &str, samples: &[f64]| {
        for (round, value) in samples.iter().enumerate() {
            let _ = writeln!(text, "{figure},{unit},{},{round},{value:.4}", quoted(way));
        }
    };
    for row in &results.answers {
        add("answer", "us", &row.way, &row.latencies_us);
    }
    for row in &results.memory {
        for (figure, kib) in [("idle", row.idle_pss_kib), ("running", row.running_pss_kib)] {
            add(figure, "KiB", &row.way, kib.as_slice());
        }
    }
    for row in &results.bursts {
        add("burst", "answers/s", &row.answers.way, &row.rates);
        add("answer in a burst", "us", &row.answers.way, &row.answers.latencies_us);
    }
    for row in &results.forks {
        add("run", "us", &row.name, &row.rounds_us);
    }
    text
}

/// Draws the answers' medians and distribution, memory, rates and forks.
pub(super) fn pictures(results: &Results) -> Vec<Picture> {
    let mut pictures = Vec::new();
    let bar = |way: &str, value: f64| (String::new(), way.to_owned(), value);
    if !results.answers.is_empty() {
        let samples = results.answers.iter().filter(|row| row.summary.is_some());
        let samples = samples.map(|row| (row.way.as_str(), row.latencies_us.as_slice()));
        pictures.push(results::distribution("Until the function answers", samples));
    }
    if !results.memory.is_empty() {
        let figures = results.memory.iter().flat_map(|row| {
            [("idle", row.idle_pss_kib), ("a running container", row.running_pss_kib)]
                .map(|(label, kib)| Some((label.to_owned(), row.way.clone(), kib? / 1024.0)))
        });
        pictures.push(results::bars("Memory", "MiB", figures.flatten()));
    }
    if !results.bursts.is_empty() {
        let rates = results
            .bursts
            .iter()
            .filter_map(|row| Some(bar(&row.answers.way, Summary::of(&row.rates)?.median)));
        pictures.push(results::bars("Requests in flight", "answers/s", rates));
    }
    if !results.forks.is_empty() {
        let medians =
            results.forks.iter().filter_map(|row| Some(bar(&row.name, row.summary?.median / 1e3)));
        pictures.push(results::bars("A program that ends at once", "ms, median", medians));
    }
    pictures
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::*;
    use crate::options::{Command, Options};
    use crate::stand::Entrant;
    use clap::Parser;
    use measure::bootstrap::Pairing;

    fn options() -> Templates {
        let parsed = Options::try_parse_from(["bench", "templates"]).expect("no arguments needed");
        let Command::Templates(options) = parsed.command else { panic!("not templates") };
        options
    }

    fn results() -> Results {
        let row = |way: &str, us: &[f64]| AnswerRow::of(&Entrant::named(way), us.to_vec());
        let mut lost = Entrant::named("restored");
        lost.failure = Some("no criu".to_owned());
        let mut answers = vec![
            row("cold", &[200e3; 6]),
            AnswerRow::of(&lost, Vec::new()),
            row("template", &[10e3; 6]),
        ];
        compare(answers.iter_mut(), Pairing::Paired);
        let memory = MemoryRow {
            way: "template".to_owned(),
            idle_pss_kib: Some(20480.0),
            idle_private_kib: Some(10240.0),
            running_pss_kib: Some(5120.0),
            running_private_kib: None,
            made_ms: Some(300.4),
            reason: None,
        };
        Results { answers, memory: vec![memory], ..Results::default() }
    }

    #[test]
    fn each_figure_has_a_table() {
        let text = text(&results(), &options());
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].join(" "), "Until the function answers, 6 rounds");
        assert_eq!(lines[2][..2], ["cold", "200.00"], "{text}");
        assert_eq!(lines[3], ["restored", "-", "-", "-", "-", "-", "no", "criu"], "{text}");
        assert_eq!(lines[4][7..], ["20.000", "[20.000", "20.000]"], "{text}");
        assert_eq!(lines[8], ["template", "20.0", "10.0", "5.0", "-"], "{text}");
        assert!(text.ends_with("A template was made in 300 ms, its warm-up included.\n"), "{text}");
    }

    #[test]
    fn samples_are_lines_and_pictures_are_drawn() {
        let results = results();
        let csv = csv(&results);
        assert_eq!(csv.lines().nth(1), Some("answer,us,cold,0,200000.0000"));
        assert_eq!(csv.lines().last(), Some("running,KiB,template,0,5120.0000"));
        let drawn = measure::chart::draw(&pictures(&results)).expect("drawn");
        assert!(drawn.contains("template") && drawn.contains("Memory"));
    }
}
