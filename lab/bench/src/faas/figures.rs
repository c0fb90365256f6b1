//! Results of `faas` as tables, CSV and pictures.

use super::schedule::Workload;
use super::{Arrivals, Faas, Part, Policy, Row};
use crate::harness::*;
use crate::results::{chart, judged, lines_of};

/// Formats the functions, then a table per policy.
pub(super) fn text(
    rows: &[Row],
    parts: &[Part<'_>],
    workload: &Workload,
    options: &Faas,
) -> String {
    let how = match options.arrivals {
        Arrivals::Even => "evenly spread",
        Arrivals::Random => "by chance",
    };
    let mut text = format!(
        "{} invocations within {:?}, {how}, due whether or not earlier ones are done; replays: {}\n",
        workload.invocations.len(),
        workload.duration,
        options.rounds,
    );
    let table = Table::of(
        &workload.functions,
        &[
            ("function", &|it| it.name.clone()),
            ("invocations", &|it| it.invocations.to_string()),
            ("every, ms", &|it| it.every_ms.map_or_else(dash, |ms| format!("{ms:.0}"))),
            ("takes, ms", &|it| format!("{:.0}", it.takes_ms)),
        ],
    );
    let _ = writeln!(text, "{table}");
    let first = rows.first().map_or("", |row| &row.runtime);
    for &policy in &options.policy {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.policy == policy).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "{}\n{}", about(policy, options), of_policy(&rows, first));
        }
        if !rows.is_empty() && SHOWN.contains(&workload.functions.len()) {
            let _ = writeln!(text, "{}", by_function(parts, policy));
        }
    }
    let mut ways: Vec<&str> = rows.iter().filter_map(|row| Some(row.memory_by?.name())).collect();
    ways.dedup();
    let _ = writeln!(
        text,
        "A latency is from when an invocation was due until its own code had begun. A cold one had to wait for a \
         container's start. Of containers: how many were started, were there at most at a time, and had work at most at a \
         time after 30 % of it. MiB·s: containers' memory, {}, times their time from start to end.",
        if ways.is_empty() { "which could not be told" } else { ways[0] },
    );
    for row in rows.iter().filter(|row| row.failed > 0) {
        let reason = row.reason.as_deref().unwrap_or_default();
        let (runtime, policy) = (&row.runtime, row.policy.name());
        let _ = writeln!(text, "{runtime}, {policy}: {} failed: {reason}", row.failed);
    }
    text
}

/// The report shows the costs of each function only if the number of functions is in this range.
const SHOWN: std::ops::RangeInclusive<usize> = 2..=10;

/// Formats a figure of times in microseconds as milliseconds.
fn ms(us: &[f64], figure: fn(&Summary) -> f64) -> String {
    Summary::of(us).map_or_else(dash, |all| format!("{:.2}", figure(&all) / 1e3))
}

fn mib_s(sum: Option<f64>) -> String {
    sum.map_or_else(dash, |sum| format!("{sum:.2}"))
}

/// Formats the latencies and costs of each function.
fn by_function(parts: &[Part<'_>], policy: Policy) -> Table {
    let mut of: Vec<&Part<'_>> = parts.iter().filter(|part| part.policy == policy).collect();
    // The rows are sorted by function, so that the runtimes' rows for one function are adjacent.
    of.sort_by_key(|part| parts.iter().position(|other| other.function == part.function));
    let table = Table::of(
        of,
        &[
            ("function", &|part| part.function.to_owned()),
            ("runtime", &|part| part.runtime.to_owned()),
            ("mean, ms", &|part| ms(&part.latencies_us, |all| all.mean)),
            ("σ", &|part| ms(&part.latencies_us, |all| all.deviation)),
            ("p99", &|part| ms(&part.latencies_us, |all| all.p99)),
            ("cold, %", &|part| format!("{:.1}", part.cold_share * 100.0)),
            ("container·s", &|part| format!("{:.1}", part.cost.container_s)),
            ("MiB·s", &|part| mib_s(part.cost.memory_mib_s)),
        ],
    );
    table.left(&[0, 1])
}

fn about(policy: Policy, options: &Faas) -> String {
    let what = match policy {
        Policy::Cold => "a container for each invocation, removed after it".to_owned(),
        Policy::KeepAlive => format!("an idle container is kept for {:?}", options.keep),
        Policy::Warm => format!("{} started containers in stock", options.pool),
        Policy::Histogram => format!(
            "kept or started in advance by idle times, for {:?} while these are not known",
            options.keep
        ),
        Policy::Restored => {
            "a container for each invocation, restored from a checkpoint of the ready program".to_owned()
        }
        Policy::Template => {
            "a container for each invocation, forked by its function's template, which is kept and counted".to_owned()
        }
    };
    format!("{}: {what}", policy.name())
}

fn of_policy(rows: &[&Row], first: &str) -> Table {
    Table::of(
        rows,
        &[
            ("latency, ms", &|row| row.runtime.clone()),
            ("start, ms", &|row| format!("≥ {:.0}", row.start_ms)),
            ("p50", &|row| ms(&row.latencies_us, |all| all.median)),
            ("p90", &|row| ms(&row.latencies_us, |all| all.p90)),
            ("p99", &|row| ms(&row.latencies_us, |all| all.p99)),
            ("max", &|row| ms(&row.latencies_us, |all| all.max)),
            (&format!("{first} ÷ it"), &|row| row.ratio.map(judged).unwrap_or_default().join(" ")),
            ("cold", &|row| row.cold.to_string()),
            ("%", &|row| format!("{:.1}", row.cold_share * 100.0)),
            ("started", &|row| row.started.to_string()),
            ("at most", &|row| row.most.to_string()),
            ("at work later", &|row| row.busy_late.to_string()),
            ("container·s", &|row| format!("{:.1}", row.cost.container_s)),
            ("MiB·s", &|row| mib_s(row.cost.memory_mib_s)),
            ("failed", &|row| row.failed.to_string()),
        ],
    )
}

/// Formats every served invocation.
pub(super) fn csv(rows: &[Row], workload: &Workload) -> String {
    let lines = rows.iter().flat_map(|row| {
        row.functions.iter().enumerate().map(|(at, &function)| {
            let function = &workload.functions[function].name;
            let times = (row.due_s[at], row.latencies_us[at], row.totals_us[at]);
            (&row.runtime, row.policy.name(), function, times, row.was_cold[at])
        })
    });
    lines_of("runtime,policy,function,due_s,latency_us,total_us,cold", lines)
}

/// Draws memory against latency, each cold start over time, the distribution of cold starts, and each function's costs.
pub(super) fn pictures(rows: &[Row], parts: &[Part<'_>]) -> Vec<Picture> {
    let cold: Vec<(&Row, Vec<f64>)> = rows
        .iter()
        .filter(|row| row.policy == Policy::Cold && !row.latencies_us.is_empty())
        .map(|row| (row, row.of_cold().collect()))
        .collect();
    let first = rows.first().map(|row| row.runtime.as_str());
    let of_first = rows.iter().filter(|row| Some(row.runtime.as_str()) == first);
    let mut pictures: Vec<Picture> = of_first.filter_map(over_time).collect();
    if rows.iter().any(|row| row.policy != Policy::KeepAlive) {
        pictures.push(trade_off(rows));
    }
    if !cold.is_empty() {
        let over_time = cold.iter().flat_map(|(row, _)| {
            let both = row.due_s.iter().zip(&row.latencies_us);
            both.map(|(&due, us)| (row.runtime.clone(), (due, us / 1e3)))
        });
        let title = "Each cold start, from when it is due until the function begins";
        let axes = [Axis::linear("due, s"), Axis::logarithmic("ms")];
        pictures.push(chart(title, axes, Form::Dots, over_time));
        let samples = cold.iter().map(|(row, us)| (row.runtime.as_str(), us.as_slice()));
        pictures.push(results::distribution("Cold starts", samples));
    }
    pictures.extend(costs(parts));
    pictures
}

/// Draws the cost of each function's containers with each policy, for the first runtime. The cost is the containers'
/// memory or, if the memory is unknown, their time.
fn costs(parts: &[Part<'_>]) -> Option<Picture> {
    let first = parts.first()?.runtime;
    let of = || parts.iter().filter(|part| part.runtime == first);
    let has_memory = of().all(|part| part.cost.memory_mib_s.is_some());
    let figures = of().map(|part| {
        let memory = part.cost.memory_mib_s.filter(|_| has_memory);
        let cost = memory.unwrap_or(part.cost.container_s);
        (part.function.to_owned(), part.policy.name().to_owned(), cost)
    });
    let unit = if has_memory { "MiB·s" } else { "container·s" };
    let functions = of().map(|part| part.function).collect::<std::collections::BTreeSet<_>>();
    SHOWN
        .contains(&functions.len())
        .then(|| results::bars(&format!("What each function costs, {first}"), unit, figures))
}

/// Draws how many containers there are and are at work over time, if all are kept for one function.
fn over_time(row: &Row) -> Option<Picture> {
    (row.policy == Policy::KeepAlive && row.costs.len() == 1).then_some(())?;
    // A count lasts until the next one.
    let steps = |name: &str, of: fn(&(f64, usize, usize)) -> usize| {
        let until = row.over_time.iter().skip(1).chain(row.over_time.last()).map(|next| next.0);
        let both = row.over_time.iter().zip(until);
        let points =
            both.flat_map(|(now, until)| [(now.0, of(now) as f64), (until, of(now) as f64)]);
        points.map(|point| (name.to_owned(), point)).collect::<Vec<_>>()
    };
    let points = [steps("there", |of| of.1), steps("at work", |of| of.2)].concat();
    let title = format!("{}, starts of {:.0} ms and more", row.runtime, row.start_ms);
    let axes = [Axis::linear("s"), Axis::linear("containers")];
    Some(chart(title, axes, Form::Outlines, points))
}

/// Draws a point for each runtime with each policy: the cost and the latency. The cost is the containers' memory or, if
/// the memory is unknown for any point, their time.
fn trade_off(rows: &[Row]) -> Picture {
    let has_memory = rows.iter().all(|row| row.cost.memory_mib_s.is_some());
    let points = rows.iter().filter_map(|row| {
        let cost = row.cost.memory_mib_s.filter(|_| has_memory).unwrap_or(row.cost.container_s);
        let name = format!("{}, {}", row.runtime, row.policy.name());
        Some((name, (cost, Summary::of(&row.latencies_us)?.p99 / 1e3)))
    });
    let cost = if has_memory { "containers' memory, MiB·s" } else { "containers' time, s" };
    let axes = [Axis::linear(cost), Axis::logarithmic("latency p99, ms")];
    chart("What latency costs", axes, Form::Dots, points)
}

#[cfg(test)]
mod tests {
    use super::super::Cost;
    use super::*;

    fn row(runtime: &str, policy: Policy, memory: Option<f64>) -> Row {
        Row {
            functions: vec![0, 0],
            due_s: vec![0.0, 0.1],
            latencies_us: vec![4000.0, 900.0],
            totals_us: vec![5000.0, 1900.0],
            was_cold: vec![true, false],
            cost: Cost { container_s: 3.0, memory_mib_s: memory },
            runtime: runtime.to_owned(),
            policy,
            ..Row::default()
        }
    }

    fn points(picture: &Picture) -> Vec<(String, Vec<(f64, f64)>)> {
        let Picture::Chart(chart) = picture else { panic!("no chart") };
        chart.series.iter().map(|of| (of.name.clone(), of.points.clone())).collect()
    }

    #[test]
    fn each_runtime_and_policy_is_a_point() {
        let rows = [row("a", Policy::Cold, Some(2.0)), row("b", Policy::Warm, Some(6.0))];
        let of = points(&trade_off(&rows));
        assert_eq!((of[0].0.as_str(), of[0].1[0].0), ("a, cold", 2.0));
        assert_eq!((of[1].0.as_str(), of[1].1[0].0), ("b, warm", 6.0));
        assert!((of[0].1[0].1 - 3.969).abs() < 1e-6, "{of:?}");
        // If memory is unknown for one row, the containers' time is used for all rows.
        let rows = [row("a", Policy::Cold, None), row("b", Policy::Warm, Some(6.0))];
        assert!(points(&trade_off(&rows)).iter().all(|(_, points)| points[0].0 == 3.0));
        assert!(host::measure::chart::draw(&pictures(&rows, &[])).contains("a, cold"));
        assert!(host::measure::chart::draw(&pictures(&[], &[])).ends_with("</svg>\n"));
    }

    #[test]
    fn containers_are_counted_over_time() {
        let kept = Row {
            start_ms: 250.0,
            costs: vec![Cost::NONE],
            over_time: vec![(0.0, 1, 1), (0.5, 3, 2), (2.0, 3, 0)],
            ..row("a", Policy::KeepAlive, None)
        };
        let of = points(&over_time(&kept).expect("one function"));
        // A count lasts until the next one.
        let there = [(0.0, 1.0), (0.5, 1.0), (0.5, 3.0), (2.0, 3.0), (2.0, 3.0), (2.0, 3.0)];
        assert_eq!((of[0].0.as_str(), of[0].1.as_slice()), ("there", there.as_slice()));
        assert_eq!((of[1].0.as_str(), of[1].1[3]), ("at work", (2.0, 2.0)));
        assert!(over_time(&Row { costs: vec![Cost::NONE; 2], ..kept }).is_none(), "two functions");
    }

    #[test]
    fn functions_have_their_costs() {
        let part = |runtime, policy, function, memory_mib_s| Part {
            runtime,
            policy,
            function,
            latencies_us: vec![2000.0, 4000.0],
            cold_share: 0.5,
            cost: Cost { container_s: 1.5, memory_mib_s },
        };
        let mut parts = vec![
            part("a", Policy::Cold, "f", Some(2.0)),
            part("a", Policy::Cold, "g", Some(3.0)),
            part("b", Policy::Cold, "f", Some(4.0)),
            part("a", Policy::Warm, "f", Some(5.0)),
        ];
        let text = by_function(&parts, Policy::Cold).to_string();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["f", "a", "3.00", "1.41", "3.98", "50.0", "1.5", "2.00"], "{text}");
        assert_eq!(
            (lines[2][..2].join(" "), lines[3][..2].join(" ")),
            ("f b".into(), "g a".into())
        );
        let bars = |parts: &[Part<'_>]| match costs(parts) {
            Some(Picture::Bars(bars)) => bars,
            other => panic!("no bars: {other:?}"),
        };
        let drawn = bars(&parts);
        assert_eq!(
            (drawn.labels, drawn.y.as_str()),
            (vec!["f".to_owned(), "g".to_owned()], "MiB·s")
        );
        assert_eq!(drawn.series[0], ("cold".to_owned(), vec![Some(2.0), Some(3.0)]));
        parts[1].cost.memory_mib_s = None;
        assert_eq!(bars(&parts).series[0].1, [Some(1.5), Some(1.5)]);
        assert!(costs(&parts[..1]).is_none(), "one function");
    }
}
