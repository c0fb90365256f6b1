//! Tests of the registry of papers, and of the content of the page.

use super::kept::Kept;
use super::page::{Page, Section};
use super::paper::{Experiment, Part, Way};
use super::verdict::{Kind, Rule};
use super::{Report, chosen, list, parts, written};
use crate::circumstances::Circumstances;
use crate::options::{Command as Commands, Options};
use crate::stand::Entrant;
use clap::Parser;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

fn report(words: &[&str]) -> Report {
    let line = ["bench", "report"].into_iter().chain(words.iter().copied());
    let options = Options::try_parse_from(line).expect("options");
    let Commands::Report(report) = options.command else { panic!("not report") };
    report
}

fn find(name: &str) -> (&'static Part, &'static Experiment) {
    experiments().find(|(part, _)| part.name == name).expect("part")
}

fn experiments() -> impl Iterator<Item = (&'static Part, &'static Experiment)> {
    parts().filter_map(|(_, part)| match &part.way {
        Way::Experiment(experiment) => Some((part, experiment)),
        Way::Guest(_) | Way::Nothing(_) => None,
    })
}

#[test]
fn names_are_unique_and_fit_for_files() {
    let mut names = BTreeSet::new();
    for (_, part) in parts() {
        assert!(names.insert(&part.name), "{} twice", part.name);
        assert!(part.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        assert!(part.place.starts_with(char::is_uppercase), "{}", part.place);
        assert!(part.about.ends_with('.'), "{}", part.name);
    }
}

#[test]
fn every_experiment_takes_its_words() {
    let more = ["--view", "v2", "--no-device-rules", "--runtime", "/bin/sh"];
    for words in [&more[..], &[&more[..], &["--quick"]].concat(), &["--quick"]] {
        let options = report(words);
        for (part, experiment) in experiments().filter(|(_, it)| it.is_bench()) {
            let words = experiment.words(&part.name, &options, &host());
            let line = words.iter().map(String::as_str).chain(experiment.as_json().iter().copied());
            if let Err(error) = Options::try_parse_from(line) {
                panic!("{words:?}: {error}");
            }
        }
    }
}

#[test]
fn a_report_is_within_its_time() {
    let sum = |quick| experiments().map(|(_, experiment)| experiment.seconds(quick)).sum::<u64>();
    assert!(sum(true) <= 600, "{}", sum(true));
    assert!(sum(false) <= 3600, "{}", sum(false));
}

/// A rule that names no line would never apply, and a part whose rules all have conditions would have no verdict.
#[test]
fn rules_judge_every_published_result() {
    let has_line = |part: &str, what: &str| {
        parts().any(|(_, of)| of.name == part && of.lines.iter().any(|line| line.what == what))
    };
    for (paper, part) in parts().filter(|(paper, _)| paper.by != "Not published elsewhere") {
        let last = part.rules.last().unwrap_or_else(|| panic!("{}: no rule", part.name));
        assert!(
            last.conditions.is_empty() && last.lacks.is_empty(),
            "{}: the last rule",
            part.name
        );
        assert!([Kind::NotHere, Kind::Unpublished].contains(&last.is), "{}", part.name);
        for name in part.rules.iter().flat_map(Rule::names) {
            let (what, _) =
                name.split_once(" @ ").unwrap_or_else(|| panic!("{}: {name}", part.name));
            let elsewhere = what.split_once(": ").is_some_and(|(part, what)| has_line(part, what));
            assert!(
                elsewhere || has_line(&part.name, what),
                "{}, {}: {what}",
                paper.title,
                part.name
            );
        }
        for rule in &part.rules {
            assert!(rule.why.trim_end().ends_with('.'), "{}: {}", part.name, rule.why);
        }
    }
}

/// The page in docs/report is what this program makes of its report.json: no verdict is of other figures.
#[test]
fn the_page_in_docs_is_what_follows_from_its_figures() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report");
    let new = std::env::temp_dir().join(format!("bench-docs-{}", std::process::id()));
    std::fs::create_dir(&new).expect("mkdir");
    written::read(&docs.join("report.json"), &new).expect("read").write(&new).expect("written");
    let mut size = 0;
    for entry in std::fs::read_dir(&new).expect("read").flatten() {
        let [here, there] = [entry.path(), docs.join(entry.file_name())]
            .map(|path| std::fs::read_to_string(path).unwrap_or_default());
        assert!(here == there, "{}: see \"report --from\"", entry.path().display());
        size += here.len();
    }
    let count = |path: &Path| std::fs::read_dir(path).expect("read").count();
    assert_eq!(count(&new), count(&docs), "other files in docs/report");
    assert!(size <= 1_500_000, "{size} bytes");
    std::fs::remove_dir_all(&new).expect("remove");
}

#[test]
fn verdicts_follow_figures() {
    let with = |runc: f64| {
        let row = |runtime: &str, us: f64| json!({ "runtime": runtime, "latencies_us": [us * 0.98, us, us * 1.02, us, us, us] });
        let result = json!({ "rows": [row("dayfly", 5000.0), row("runc", runc)] });
        page(vec![section("spaced", Some(Kept { result, ..done() }))])
    };
    let [html, markdown, json] = with(70_000.0);
    assert!(markdown.contains("**Direction only**: runc's mean is 70.0 ms"), "{markdown}");
    assert!(
        markdown.contains("Of 1 published results: **0 reproduced, 1 direction only, 0"),
        "{markdown}"
    );
    assert!(markdown.contains("](#spaced) (direction only)") && html.contains("<strong>Direction"));
    assert!(json.contains("\"is\": \"direction\""), "{json}");
    let [_, markdown, _] = with(5100.0);
    assert!(markdown.contains("**Contradicted**: dayfly's mean is 5.00 ms"), "{markdown}");
}

#[test]
fn no_number_of_documents_is_shown() {
    for (_, part) in parts() {
        let words = [&part.place, &part.about].into_iter();
        let words = words.chain(part.lines.iter().map(|it| &it.what));
        for text in words {
            assert!(!text.contains("seed"), "{text}");
        }
    }
}

#[test]
fn rounds_can_be_set() {
    let options = report(&["--quick", "--rounds", "3", "--view", "v1"]);
    let words = |name: &str| find(name).1.words(name, &options, &host()).join(" ");
    assert!(words("spaced").contains("--count 3 --view v1"), "{}", words("spaced"));
    assert!(words("categories").contains("-n 3"));
    // `burst` has both options, and `--rounds` is the one that sets the number of rounds.
    assert!(words("burst").contains("--count 24 --rounds 3"), "{}", words("burst"));
    assert_eq!(words("moves"), "host check");
}

#[test]
fn peers_are_named_to_those_who_must_be_told() {
    let mut host = host();
    for name in ["dayfly", "runc"] {
        host.runtimes.push(Entrant::named(name).runtime);
    }
    let words = |name: &str, options| find(name).1.words(name, options, &host).join(" ");
    let none = report(&[]);
    assert!(words("categories", &none).contains("--runtime dayfly --runtime runc"));
    assert!(!words("spaced", &none).contains("--runtime"));
    let two = report(&["--runtime", "/a", "--runtime", "/b"]);
    assert!(words("categories", &two).contains("--runtime /a --runtime /b"));
    assert!(words("ablation", &two).contains("--runtime /a --svg"), "{}", words("ablation", &two));
}

#[test]
fn many_names_stand_below_each_other() {
    let row = |name: &str| json!({ "runtime": name, "ratio": { "value": 1.5, "low": 1.25, "high": 1.75 } });
    let rows: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(row).to_vec();
    let kept = Kept { result: json!({ "costs": rows }), ..done() };
    let [_, markdown, _] = page(vec![section("ablation", Some(kept))]);
    // Nothing of it is published, so there is no column for it.
    assert!(markdown.contains("| | here | |"), "{markdown}");
    assert!(markdown.contains(", f | 1.50 [1.25 1.75] | × |"), "{markdown}");
}

#[test]
fn parts_are_chosen_by_name() {
    let names = |words: &[&str]| -> Vec<&str> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        chosen(&words).expect("parts").iter().map(|(_, part)| part.name.as_str()).collect()
    };
    assert_eq!(names(&["spaced", "locks"]), ["locks", "spaced"]);
    assert_eq!(names(&[]).len(), parts().count());
    let error = chosen(&["nothing".to_owned()]).expect_err("no such part");
    assert_eq!(error.to_string(), "no part nothing: --list prints all");
    let list = list(&chosen(&[]).expect("all"));
    assert!(parts().all(|(_, part)| list.contains(&part.name)));
}

fn section(name: &str, kept: Option<Kept>) -> Section {
    section_with(name, kept, None)
}

/// Returns the section of a part with this result, and this picture of its own.
fn section_with(name: &str, kept: Option<Kept>, own: Option<&str>) -> Section {
    let place = parts().find(|(_, part)| part.name == name).expect("part");
    Section::new(place, &host(), kept, own.map(str::to_owned)).expect("section")
}

fn host() -> Circumstances {
    Circumstances::take("x".to_owned(), Vec::new(), Path::new("/"))
}

fn done() -> Kept {
    let row = |runtime: &str, us: f64| json!({ "runtime": runtime, "latencies_us": vec![us; 6] });
    let record = json!({ "date": "D", "load": "L", "cgroups": "v2", "container": "C",
        "runtimes": [{ "name": "run<c", "version": "1.5" }] });
    let words = ["bench", "spaced", "--runtime", "a b=/x"];
    Kept {
        command: words.map(str::to_owned).to_vec(),
        date: String::new(),
        seconds: 3.0,
        failure: None,
        result: json!({
            "record": record,
            "failures": [{ "runtime": "youki", "reason": "it | hung" }],
            "rows": [row("dayfly", 2000.0), row("run<c", 44_000.0)],
        }),
    }
}

fn page(sections: Vec<Section>) -> [String; 3] {
    // Several cases write pages at the same time.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let place = std::env::temp_dir();
    let directory = place.join(format!("bench-page-{}-{count}", std::process::id()));
    std::fs::create_dir(&directory).expect("mkdir");
    Page::new(host(), sections).write(&directory).expect("written");
    let text = ["index.html", "report.md", "report.json"]
        .map(|name| std::fs::read_to_string(directory.join(name)).expect("read"));
    assert!(
        !std::fs::read_dir(&directory)
            .expect("read")
            .flatten()
            .any(|entry| { entry.path().extension().is_some_and(|extension| extension == "new") })
    );
    std::fs::remove_dir_all(&directory).expect("remove");
    text
}

#[test]
fn published_figures_stand_beside_measured_ones() {
    let [html, markdown, json] = page(vec![section("spaced", Some(done()))]);
    let row = "| mean | 259 ms, runc, 2022; 20 % less, runc with three changes | 2.00 [2.00 2.00] | \
               44.0 [44.0 44.0] | ms |";
    assert!(markdown.contains(row), "{markdown}");
    assert!(markdown.contains("youki is out: it \\| hung"), "{markdown}");
    assert!(markdown.contains("    dayfly bench spaced --runtime 'a b=/x'"), "{markdown}");
    assert!(markdown.contains("D, load L, cgroups v2, C. run<c: 1.5. It took 3 s."), "{markdown}");
    assert!(
        markdown.contains("![Fig. 4, Fig. 8 and Fig. 9: starts spaced 100 ms apart](spaced-1.svg)")
    );
    assert!(html.contains(">run&lt;c</th>") && html.contains("<svg"), "{html}");
    assert!(!html.contains("run<c") && !html.contains("http-equiv") && !html.contains("src="));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["sections"][0]["lines"][0]["measured"][1]["value"], 44.0);
    assert_eq!(json["sections"][0]["lines"][0]["published"][0]["text"], "259 ms");
    assert_eq!(json["sections"][0]["state"]["done"], 3.0);
}

#[test]
fn what_is_missing_is_told() {
    let failed = Kept { failure: Some("no <cgroup>".to_owned()), ..done() };
    let all = ["spaced", "hardware"].map(|name| section(name, None));
    let [html, markdown, _] = page(all.into_iter().chain([section("run", Some(failed))]).collect());
    assert!(markdown.contains("0 of 2 experiments are done."), "{markdown}");
    assert!(markdown.contains("Not measured yet: `dayfly bench report --only spaced`"));
    assert!(markdown.contains("Not measured here: "));
    assert!(markdown.contains("It failed: no <cgroup>") && html.contains("no &lt;cgroup&gt;"));
    assert!(!markdown.contains(".svg"), "{markdown}");
    // The command of this result is that of another experiment.
    let [_, markdown, _] = page(vec![section("run", Some(done()))]);
    assert!(markdown.contains("> The experiment has been changed since"), "{markdown}");
    assert!(!markdown.contains("> Without limits"), "{markdown}");
    let [_, markdown, _] = page(vec![section("bulk-podman", Some(done()))]);
    assert!(markdown.contains("> Without limits: the cgroups of this view"), "{markdown}");
}

#[test]
fn results_of_a_guest_are_shown() {
    let directory = std::env::temp_dir().join(format!("bench-guest-{}", std::process::id()));
    let guest = directory.join("guest");
    std::fs::create_dir_all(&guest).expect("mkdir");
    let section = || {
        let place = parts().find(|(_, part)| part.name == "favordynmods-guest").expect("part");
        Section::of(&directory, place, &host()).expect("section")
    };
    let [_, markdown, _] = page(vec![section()]);
    let script = "scripts/bed guest-favordynmods bench DIR/guest";
    assert!(markdown.contains("Not measured here: ") && markdown.contains(script), "{markdown}");
    let row = |state: &str, us: f64, ratio: serde_json::Value| {
        json!({ "step": "run by crun", "runtime": state,
        "rounds_us": vec![us; 6], "ratio": ratio })
    };
    let ratio = json!({ "value": 1.5, "low": 1.25, "high": 1.75 });
    let rows = [row("off", 9000.0, json!(null)), row("on", 6000.0, ratio)];
    let result = json!({ "record": { "date": "D", "load": "L", "cgroups": "v2", "container": "C" }, "rows": rows });
    std::fs::write(guest.join("favordynmods.json"), result.to_string()).expect("write");
    std::fs::write(guest.join("favordynmods.svg"), "<svg>bars</svg>").expect("write");
    let section = section();
    assert!(section.measured.drawn.iter().all(|drawn| drawn.contains("crun: a start")), "bars");
    let [_, markdown, json] = page(vec![section]);
    assert!(markdown.contains("| a start by crun |  | 9.00 [9.00 9.00] | 6.00 [6.00 6.00] | ms |"));
    assert!(markdown.contains("1.50 [1.25 1.75]"), "{markdown}");
    assert!(markdown.contains(&format!("\n    {script}\n")), "{markdown}");
    assert!(markdown.contains("D, load L, cgroups v2, C") && !markdown.contains("It took"));
    assert!(json.contains("favordynmods-guest-1.svg"));
    std::fs::remove_dir_all(&directory).expect("remove");
}

#[test]
fn missing_figures_have_their_words() {
    let rows = json!([{ "width": 1.0, "runtime": "dayfly", "start_s": vec![0.014_701; 6] }]);
    let kept = Kept { result: json!({ "rows": rows }), ..done() };
    let [html, markdown, json] = page(vec![section("bulk", Some(kept))]);
    let row = "| to start all, one after the other |  | 0.0147 [0.0147 0.0147] | s |";
    assert!(markdown.contains(row), "{markdown}");
    assert!(html.contains("0.0147 <small>[0.0147 0.0147]</small>"), "{html}");
    // A published figure is shown even without a measured figure; a line that has neither is in a
    // note.
    assert!(markdown.contains("podman 5.4.0, crun 1.23.1 | not measured by this command | |"));
    assert!(html.contains(">not measured by this command</td>"));
    let note = "Not measured by this command on this host: to start all, 16 at a time";
    assert!(html.contains(note) && markdown.contains(note), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["sections"][0]["unmeasured"][0], "to start all, 16 at a time");
}

#[test]
fn readers_find_their_way() {
    let [html, markdown, _] = page(vec![section("spaced", Some(done()))]);
    for link in ["href=\"#paper-1\"", "id=\"paper-1\"", "href=\"#spaced\"", "<a id=\"spaced\">"] {
        assert!(html.contains(link), "{link}");
    }
    assert!(html.contains("prefers-color-scheme:dark") && html.contains("@media print"));
    let titles: Vec<_> =
        html.lines().filter(|line| line.starts_with("<text") && line.contains("\"18\"")).collect();
    assert!(!titles.is_empty());
    assert!(titles.iter().all(|line| line.starts_with("<text x=\"8\"")), "{titles:?}");
    assert!(markdown.contains("starts spaced 100 ms apart](#spaced) (not"), "{markdown}");
    assert!(markdown.contains("<a id=\"spaced\"></a>\n"), "{markdown}");
}

#[test]
fn sentences_and_bars_come_first() {
    let row =
        |name: &str, us: f64| json!({ "runtime": name, "step": "begin", "rounds_us": vec![us; 6] });
    let rows = vec![row("dayfly", 2000.0), row("crun", 10_000.0), row("runc", 31_000.0)];
    let record = json!({ "cgroups": "v2", "container": "profile seccomp" });
    let kept = Kept { result: json!({ "record": record, "rows": rows }), ..done() };
    let [html, markdown, _] = page(vec![section("systemd", Some(kept))]);
    let sentence = "- A container's program begins 2.00 ms after the command, with \
                    crun 10.0 ms and with runc 31.0 ms (cgroup v2, cgroupfs driver).";
    assert!(markdown.contains(sentence) && markdown.contains("](first-1.svg)"), "{markdown}");
    assert!(html.find("× dayfly").expect("bars") < html.find("Contents").expect("contents"));
    assert!(html.contains(">15.5</text>"), "{html}");
}

#[test]
fn a_page_is_made_again_from_its_json() {
    let place = std::env::temp_dir().join(format!("bench-again-{}", std::process::id()));
    let (first, second) = (place.join("1"), place.join("2"));
    for directory in [&place, &first, &second] {
        std::fs::create_dir(directory).expect("mkdir");
    }
    let section = section_with;
    let without = |name: &str| json!({ "runtime": name, "ratio": { "value": 1.5, "low": 1.25, "high": 1.75 } });
    let rows: Vec<_> = ["a", "b", "c", "d", "e", "f, g"].map(without).to_vec();
    let many = Kept { result: json!({ "costs": rows }), date: "D2".to_owned(), ..done() };
    let failed = Kept { failure: Some("no".to_owned()), ..done() };
    let sections = parts().map(|(_, part)| match part.name.as_str() {
        "spaced" => section(&part.name, Some(done()), Some("<svg>its own</svg>")),
        "ablation" => section(&part.name, Some(many.clone()), Some("<svg>another</svg>")),
        "run" => section(&part.name, Some(failed.clone()), None),
        name => section(name, None, None),
    });
    Page::new(host(), sections.collect()).write(&first).expect("written");
    let page = written::read(&first.join("report.json"), &second).expect("read");
    page.write(&second).expect("written");
    let names = |directory: &Path| -> BTreeSet<_> {
        let entries = std::fs::read_dir(directory).expect("read").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("text")).collect()
    };
    assert_eq!(names(&first), names(&second));
    assert!(names(&first).contains("spaced-1.svg") && names(&first).contains("ablation-1.svg"));
    for name in names(&first) {
        let [one, other] = [&first, &second]
            .map(|directory| std::fs::read_to_string(directory.join(&name)).expect("read"));
        assert_eq!(one, other, "{name}");
    }
    // Figures without a matching line on the page cause an error; they are not dropped.
    let text = std::fs::read_to_string(first.join("report.json")).expect("read");
    let other = first.join("other.json");
    std::fs::write(&other, text.replace("\"standard deviation\"", "\"x\"")).expect("write");
    let error = written::read(&other, &second).expect_err("no place").to_string();
    assert!(error.contains("spaced: no line \"x\": written by another version"), "{error}");
    std::fs::remove_dir_all(&place).expect("remove");
}
