//! The resource usage of containers in Prometheus' text format, checked as strictly as Prometheus parses it.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(of_one_container).unlike_runc(),
    case!(of_all_that_run).unlike_runc(),
    case!(values_are_those_of_the_cgroup).unlike_runc(),
    case!(prometheus_own_parser).unlike_runc().needs(prometheus_client),
    case!(formats_that_there_are).unlike_runc(),
];

/// The name and labels of a line.
type Key = (String, BTreeMap<String, String>);

/// Parses the text, and checks its format.
///
/// # Panics
/// If the text is invalid: a name or label contains characters that are not allowed, lines of one name are not
/// together, a line has no type, or a line occurs twice.
fn parse(text: &str) -> BTreeMap<Key, f64> {
    let (mut values, mut done) = (BTreeMap::new(), BTreeSet::new());
    let (mut helped, mut typed) = (String::new(), String::new());
    assert!(text.is_empty() || text.ends_with('\n'), "no line break at its end: {text}");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && done.insert(name.to_owned()), "twice: {line}");
            name.clone_into(&mut helped);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, helped, "{line}");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            name.clone_into(&mut typed);
        } else {
            let (name, rest) = line.split_once('{').expect("labels");
            assert_eq!(name, typed, "{line}");
            assert!(is_name(name), "{line}");
            let (labels, value) = rest.rsplit_once("} ").expect("a value");
            assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{line}");
            let key = (name.to_owned(), parse_labels(labels));
            assert!(values.insert(key, value.parse().expect(line)).is_none(), "twice: {line}");
        }
    }
    values
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn parse_labels(text: &str) -> BTreeMap<String, String> {
    text.split("\",")
        .map(|label| {
            let (name, value) = label.split_once("=\"").expect("a label in quotes");
            let value = value.strip_suffix('"').unwrap_or(value);
            assert!(is_name(name) && !value.contains(['"', '\\', '\n']), "{text}");
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn scrape(bed: &Bed, words: &[&str]) -> String {
    bed.call(&[&["events", "--format", "prometheus"], words].concat()).run().ok().stdout
}

fn value(values: &BTreeMap<Key, f64>, c: &Container<'_>, name: &str) -> Option<f64> {
    let labels = BTreeMap::from([("id".to_owned(), c.id.clone())]);
    values.get(&(format!("dayfly_container_{name}"), labels)).copied()
}

fn ids(values: &BTreeMap<Key, f64>) -> BTreeSet<&str> {
    values.keys().map(|(_, labels)| labels["id"].as_str()).collect()
}

fn of_one_container(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let values = parse(&scrape(bed, &[&c.id]));
    assert_eq!(ids(&values), BTreeSet::from([c.id.as_str()]));
    assert!(
        value(&values, &c, "cpu_usage_seconds_total").is_some_and(|time| time > 0.0 && time < 60.0)
    );
    // Counters increase, and the names stay the same.
    let later = parse(&scrape(bed, &["--stats", &c.id]));
    for (key, value) in values.iter().filter(|((name, _), _)| name.ends_with("_total")) {
        assert!(later.get(key).is_some_and(|later| later >= value), "{key:?}");
    }
}

fn of_all_that_run(bed: &Bed) {
    // A state directory that the call names must exist, as for `list`.
    bed.call(&["events", "--format", "prometheus", "--all"])
        .run()
        .fails("no such file or directory");
    std::fs::create_dir(bed.root()).expect("make");
    assert_eq!(scrape(bed, &["--all"]), "", "there is none");
    let make = || bed.bundle().args(&["sleep", "1000"]).make();
    let (one, two, ended, created) =
        (make().detached(), make().detached(), make().detached(), make());
    ended.kill("KILL").ok();
    ended.wait_status("stopped");
    created.create().ok();
    let text = scrape(bed, &["--all"]);
    let values = parse(&text);
    assert_eq!(ids(&values), [&one, &two, &created].map(|c| c.id.as_str()).into());
    let lines = bed.call(&["events", "--all", "--stats"]).run().ok().stdout;
    let json =
        lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    assert_eq!(json.filter(|event| event["type"] == "stats").count(), 3, "{lines}");
    bed.call(&["events", "--all"]).run().fails("--all is only for --stats and --format prometheus");
    bed.call(&["events", "--all", "--stats", &one.id]).run().fails("--all is for all containers");
}

/// Returns whether this view has the controller.
fn has(controller: &str) -> bool {
    let all = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    all.split_whitespace().any(|name| name == controller)
        || std::path::Path::new("/sys/fs/cgroup").join(controller).is_dir()
}

fn values_are_those_of_the_cgroup(bed: &Bed) {
    let mut bundle = bed.bundle().args(&["sleep", "1000"]);
    for (controller, limit) in [("memory", 64 << 20), ("pids", 33)] {
        if has(controller) {
            let pointer = format!("/linux/resources/{controller}");
            bundle = bundle.set(&pointer, json!({ "limit": limit }));
        }
    }
    let c = bundle.make().detached();
    let values = parse(&scrape(bed, &[&c.id]));
    let event = crate::cgroups::stats(&c);
    let data = &event["data"];
    if has("memory") {
        assert_eq!(data["memory"]["usage"]["limit"], json!(64 << 20));
        assert_eq!(value(&values, &c, "memory_limit_bytes"), Some(f64::from(64 << 20)));
        let (usage, set) = ("memory_usage_bytes", "memory_working_set_bytes");
        let (usage, set) = (value(&values, &c, usage), value(&values, &c, set));
        assert!(
            usage > Some(4096.0) && set <= usage && usage < Some(f64::from(64 << 20)),
            "{usage:?}"
        );
    }
    if has("pids") {
        assert_eq!(data["pids"]["limit"], 33);
        assert_eq!(value(&values, &c, "pids_limit"), Some(33.0));
        assert_eq!(value(&values, &c, "pids"), Some(1.0));
    }
    let total = data["cpu"]["usage"]["total"].as_f64().expect("CPU time") / 1e9;
    let scraped = value(&values, &c, "cpu_usage_seconds_total").expect("CPU time");
    assert!(scraped > 0.0 && (total - scraped).abs() < 0.05, "{scraped} s, {total} s");
    let free = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let values = parse(&scrape(bed, &[&free.id]));
    assert_eq!(value(&values, &free, "memory_limit_bytes"), None, "none is set");
}

fn prometheus_client() -> Result<(), String> {
    let import = ["-c", "import prometheus_client.parser"];
    match std::process::Command::new("python3").args(import).output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("python3 has no module prometheus_client".to_owned()),
    }
}

/// Parses the text with the parser of Prometheus' Python client.
fn prometheus_own_parser(bed: &Bed) {
    const SCRIPT: &str = "import sys\n\
        from prometheus_client.parser import text_string_to_metric_families as parse\n\
        names = [family.name for family in parse(open(sys.argv[1]).read()) if family.samples]\n\
        assert len(names) > 5 and len(names) == len(set(names)), names\n";
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let path = bed.dir.join("metrics.prom");
    std::fs::write(&path, scrape(bed, &[&c.id])).expect("write");
    bed.program("python3", &["-c", SCRIPT, path.to_str().expect("path")]).run().ok();
}

fn formats_that_there_are(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let events = |format: &str| bed.call(&["events", "--stats", "-f", format, &c.id]).run();
    let _ = events("yaml").fails_once(1, "invalid format option");
    assert!(events("json").ok().stdout.starts_with("{\"type\":\"stats\""));
    bed.call(&["events"]).run().fails("\"events\" requires exactly 1 argument(s)");
}
