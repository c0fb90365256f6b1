//! Formats figures as text.

use super::calibrate::Cost;
use super::figures::{Category, Figures, OnPath, Slow};
use crate::harness::*;

/// The maximum length of an object printed whole.
const WIDEST: usize = 44;

/// Formats a command's categories, slowest steps and critical path.
pub fn one(figures: &Figures) -> String {
    let Figures { runtime, command, wall_us: wall, .. } = figures;
    format!(
        "{runtime} {command}, {}: wall time {} ms, median {}, σ {}, p99 {}\n{}\n{}\n{}",
        counted(wall.count, "start"),
        ms(wall.mean),
        ms(wall.median),
        ms(wall.deviation),
        ms(wall.p99),
        categories(figures),
        slowest(figures),
        path(figures),
    )
}

/// Formats the categories like Table I of "Opportunities for Optimizing the Container Runtime".
fn categories(figures: &Figures) -> Table {
    let headings = [
        "category, ms",
        "mean",
        "σ",
        "p99",
        "of work",
        "steps",
        "calls",
        "critical path",
        "of wall",
        if figures.outside.is_some() { "tracing ≈" } else { "" },
    ];
    let mut table = Table::new(&headings);
    let (program, phases) = figures.phases.split_last().unzip();
    for part in phases.unwrap_or_default().iter().filter(|part| part.calls > 0.0) {
        table.row(category(part));
    }
    table.row(category(&figures.between));
    table.row(total("work of the runtime", figures.work_us, "100.0 %"));
    table.row(category(&figures.waits));
    if let Some(program) = program.filter(|program| program.calls > 0.0) {
        table.row(category(program));
    }
    let mut all = total("all processes", figures.processes_us, "");
    if let Some(outside) = &figures.outside {
        all.extend([const { String::new() }; 4]);
        all.push(ms(outside.tracing_us));
    }
    table.row(all);
    let mut wall = total("wall time", figures.wall_us, "");
    wall.extend([String::new(), String::new(), ms(figures.wall_us.mean), percent(1.0)]);
    table.row(wall);
    table
}

fn category(part: &Category) -> Vec<String> {
    let mut cells = total(&part.name, part.time_us, &part.share.map(percent).unwrap_or_default());
    let counted = part.calls > 0.0;
    cells.push(if part.steps > 0 { part.steps.to_string() } else { String::new() });
    cells.push(if counted { count(part.calls) } else { String::new() });
    cells.extend([ms(part.path_us), percent(part.path_share)]);
    cells.extend(part.tracing_us.map(ms));
    cells
}

fn total(name: &str, time: Summary, share: &str) -> Vec<String> {
    vec![name.to_owned(), ms(time.mean), ms(time.deviation), ms(time.p99), share.to_owned()]
}

fn slowest(figures: &Figures) -> Table {
    let name = |slow: &&Slow| format!("{}: {} {}", slow.row, slow.name, short(&slow.object));
    Table::of(
        &figures.slowest,
        &[
            ("slowest steps, ms", &|slow| name(slow).trim_end().to_owned()),
            ("mean", &|slow| ms(slow.time_us.mean)),
            ("p99", &|slow| ms(slow.time_us.p99)),
            ("of work", &|slow| percent(slow.share)),
            ("calls", &|slow| count(slow.calls)),
            ("category", &|slow| slow.phase.name().to_owned()),
        ],
    )
}

fn path(figures: &Figures) -> Table {
    let name = |it: &&OnPath| if it.name.is_empty() { "…" } else { &it.name }.to_owned();
    let mut table = Table::of(
        &figures.path,
        &[
            ("critical path, ms", &|it| format!("{}: {}", it.row, name(it))),
            ("mean", &|it| ms(it.mean_us)),
            ("of wall", &|it| percent(it.share)),
            ("pieces", &|it| count(it.pieces)),
            ("category", &|it| it.part.clone()),
        ],
    );
    let told: f64 = figures.path.iter().map(|on_path| on_path.share).sum();
    let rest = (1.0 - told).max(0.0);
    table.row(vec!["what is below 1 %".to_owned(), ms(rest * figures.wall_us.mean), percent(rest)]);
    table
}

/// Formats the same command by several runtimes: a row per category, a column per runtime.
pub fn side_by_side(all: &[&Figures]) -> String {
    let command = all.first().map_or("", |first| &first.command);
    let corner = format!("{command}, ms (calls)");
    let headings: Vec<&str> = std::iter::once(corner.as_str())
        .chain(all.iter().map(|figures| figures.runtime.as_str()))
        .collect();
    let mut table = Table::new(&headings);
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        table.row(std::iter::once(name.to_owned()).chain(all.iter().map(|it| cell(it))).collect());
    };
    for (at, phase) in trace::Phase::ALL.iter().enumerate() {
        if *phase != trace::Phase::Program {
            row(phase.name(), &|it| it.phases.get(at).map(with_calls).unwrap_or_default());
        }
    }
    row("between steps or calls", &|it| ms(it.between.time_us.mean));
    row("work of the runtime", &|it| ms(it.work_us.mean));
    row("waits", &|it| with_calls(&it.waits));
    row("the container's program", &|it| it.phases.last().map(with_calls).unwrap_or_default());
    row("all processes", &|it| ms(it.processes_us.mean));
    row("wall time", &|it| ms(it.wall_us.mean));
    let or_nothing = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    row("of all that, tracing ≈", &|it| {
        or_nothing(it.outside.as_ref().map(|outside| ms(outside.tracing_us)))
    });
    row("wall time untraced, median", &|it| or_nothing(it.untraced_us.map(|time| ms(time.median))));
    row("traced, times as long", &|it| or_nothing(it.times.map(|times| format!("{times:.2}"))));
    table.to_string()
}

/// Describes the cost of tracing. It is not subtracted from any figure.
pub fn costs(all: &[Figures], cost: Option<Cost>) -> String {
    let mut text = String::new();
    for figures in all {
        let (Some(untraced), Some(times)) = (figures.untraced_us, figures.times) else { continue };
        let (name, command) = (&figures.runtime, &figures.command);
        let (traced, untraced) = (ms(figures.wall_us.median), ms(untraced.median));
        let _ = match figures.times_95 {
            None => write!(
                text,
                "{name} {command} takes {traced} ms traced and {untraced} ms untraced: too few starts for a ratio"
            ),
            Some(interval) => write!(
                text,
                "{name} {command} takes {times:.2} ({}) times as long as untraced: {traced} ms, {untraced} ms",
                shown(interval)
            ),
        };
        if let Some(outside) = &figures.outside {
            let held = ms(outside.held_us);
            let _ = write!(text, "; {:.0} stops, held for {held} ms", outside.stops);
        }
        text.push('\n');
    }
    if let Some(cost) = cost {
        let _ = writeln!(
            text,
            "Followed by ptrace, a system call that does nothing takes {:.2} µs longer, {:.2} µs of it \
             within what is shown\nas the call's own time, the rest between calls. Nothing has been \
             taken off the figures: \"tracing ≈\" is what of\nthem that makes, by the number of calls. \
             What a container's init does once its `create` has returned,\nand a program once \
             executed, is not followed.",
            cost.call_us, cost.within_us,
        );
    }
    text
}

/// Formats the confidence interval of the ratio of the traced to the untraced time, and what the interval shows.
fn shown(times: Estimate) -> String {
    let shown = if times.high < 1.0 {
        ": a trace saves no time, so the load of this host has changed; repeat it on an idle host"
    } else if times.differs_from(1.0) {
        ""
    } else {
        ": no difference shown"
    };
    format!("95 %: {:.2} to {:.2}{shown}", times.low, times.high)
}

fn with_calls(part: &Category) -> String {
    if part.calls == 0.0 {
        return "-".to_owned();
    }
    format!("{} ({})", ms(part.time_us.mean), count(part.calls))
}

/// Formats the average number of times that something happens in a start.
fn count(calls: f64) -> String {
    if calls < 1.0 { format!("{calls:.1}") } else { format!("{calls:.0}") }
}

fn ms(us: f64) -> String {
    format!("{:.3}", us / 1e3)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Shortens a long object to its end, the more informative part of a path.
fn short(object: &str) -> String {
    let length = object.chars().count();
    if length <= WIDEST {
        return object.to_owned();
    }
    let end: String = object.chars().skip(length - WIDEST + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::figures;
    use super::*;

    #[test]
    fn runtimes_stand_side_by_side() {
        let (one, other) = (figures("dayfly"), figures("runc"));
        let text = side_by_side(&[&one, &other]);
        assert!(super::one(&one).contains("\nslowest steps, ms"), "{}", super::one(&one));
        let heading = text.lines().next().unwrap_or_default();
        assert!(heading.contains("dayfly") && heading.ends_with("runc"), "{text}");
        let lines = ["mounts ", "work of the runtime ", "waits ", "wall time ", "traced, times"];
        for line in lines {
            assert!(text.lines().any(|it| it.starts_with(line)), "{line}: {text}");
        }
        let widths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }

    #[test]
    fn a_trace_saves_no_time() {
        let told = |low, high| shown(Estimate { value: 1.0, low, high });
        assert_eq!(told(1.01, 1.04), "95 %: 1.01 to 1.04");
        assert_eq!(told(0.97, 1.04), "95 %: 0.97 to 1.04: no difference shown");
        assert!(told(0.26, 0.88).contains("repeat it on an idle host"), "{}", told(0.26, 0.88));
        let few = costs(&[figures("dayfly")], None);
        assert!(few.contains("untraced: too few starts for a ratio"), "{few}");
        assert!(!few.contains("times as long"), "{few}");
    }

    #[test]
    fn long_objects_keep_their_end() {
        let long = format!("/{}/config.json", "x".repeat(100));
        assert_eq!(short(&long).chars().count(), WIDEST);
        assert!(short(&long).ends_with("config.json"));
    }
}
