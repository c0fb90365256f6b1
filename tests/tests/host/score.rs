//! `dayfly host score`: the document for schedulers, and invalid curves.

use super::tool;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(score_for_schedulers).needs(tool).unlike_runc().alone(),
    case!(score_of_recorded_curves).needs(tool).unlike_runc(),
    case!(score_bad_input).needs(tool).unlike_runc(),
];

fn score(bed: &Bed, arguments: &[&str]) -> Value {
    let outcome = bed.call_bare(&[&["host", "score"][..], arguments].concat()).run().ok();
    assert_eq!(outcome.stderr, "", "{outcome}");
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// Returns the documented score: 100 × log₂(1 + carried) ÷ log₂(65).
fn score_of(carried: f64) -> f64 {
    (100.0 * (1.0 + carried).log2() / 65f64.log2()).clamp(0.0, 100.0)
}

fn score_for_schedulers(bed: &Bed) {
    let report = score(bed, &["--quick", "--busy"]);
    assert_eq!((&report["version"], &report["source"]), (&json!(1), &json!("measured quickly")));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {report}"));
    // The score can be computed from the curve in the same document, by the documented formula.
    let points = report["curve"]["points"].as_array().expect("points");
    let done = |point: &Value| number(&point["per_second"]);
    let most = points.iter().map(done).fold(0.0, f64::max);
    let kept = done(points.last().expect("a point")) / most;
    assert!((number(&report["kept"]) - kept).abs() < 1e-6, "{report}");
    let best = points.iter().skip_while(|point| done(point) < most);
    let widest = best.take_while(|point| done(point) >= most * 0.9).last().expect("a point");
    let carried = (number(&widest["threads"]) * kept).max(1.0);
    assert!((number(&report["carried"]) - carried).abs() < 1e-6, "{report}");
    assert!((number(&report["score"]) - score_of(carried)).abs() <= 0.5001, "{report}");
    assert_eq!(
        (&report["curve"]["work"], &report["curve"]["placement"]),
        (&json!("mounts"), &json!("all CPUs"))
    );
    assert!(points.iter().all(|point| number(&point["turn_us"]) > 0.0), "{report}");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!((1..=cpus as u64).contains(&report["width"].as_u64().expect("width")), "{report}");
    // The properties that a scheduler filters by are at their documented places.
    assert_eq!(report["verdicts"]["cgroup.mode"]["data"]["mode"], bed.view.name());
    assert_eq!(report["verdicts"]["machine.numa"]["data"]["nodes"], report["machine"]["nodes"]);
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("CPUs");
    assert_eq!(report["machine"]["online"], online.trim());
    for figure in ["cpus", "cores", "sockets", "nodes", "l3_groups"] {
        assert!(report["machine"][figure].as_u64().is_some_and(|count| count > 0), "{report}");
    }
    assert!(report["verdicts"].get("measured.net").is_none(), "quick, and yet measured: {report}");
    assert!(report["formula"].as_str().is_some_and(|text| text.contains("log2(1 + 64)")));
}

/// Makes curves of a host with two CPUs, for one thread and for two.
fn curves(bed: &Bed, name: &str, one: f64, two: f64) -> String {
    let points = json!([{"threads": 1, "turn_us": one}, {"threads": 2, "turn_us": two}]);
    let curve = json!({"work": "mounts", "placement": "all CPUs", "cpus": "0-1", "points": points});
    let file = bed.dir.join(name);
    fs::write(&file, json!({"curves": [curve]}).to_string()).expect("write");
    file.to_str().expect("path").to_owned()
}

fn score_of_recorded_curves(bed: &Bed) {
    // `host score` reads the output of `host locks`.
    let file = bed.dir.join("locks.json");
    let call = ["host", "locks", "--time", "10", "--work", "mounts,lock", "--format", "json"];
    let written = bed.call_bare(&call).run().ok().stdout;
    fs::write(&file, &written).expect("write");
    let report = score(bed, &["--quick", "--locks", file.to_str().expect("path")]);
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(report["source"], "file");
    assert_eq!(
        report["curves"].as_array().map(Vec::len),
        written["curves"].as_array().map(Vec::len)
    );
    assert_eq!(report["width"], written["advice"][0]["starts"]);

    // Of two other hosts, given by their files, the one that slows down has the lower score.
    let root = bed.dir.join("sysroot");
    for (file, text) in [
        ("proc/sys/kernel/osrelease", "6.17.0\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("parent")).expect("make");
        fs::write(path, text).expect("write");
    }
    let root = root.to_str().expect("path");
    let of = |one: f64, two: f64| {
        let file = curves(bed, "two.json", one, two);
        score(bed, &["--locks", &file, "--sysroot", root])
    };
    let (flat, slow) = (of(10.0, 10.0), of(10.0, 80.0));
    assert_eq!(
        (&flat["machine"]["cpus"], &flat["machine"]["release"]),
        (&json!(2), &json!("6.17.0"))
    );
    let expected = [score_of(2.0).round(), score_of(1.0).round()];
    assert_eq!([flat["score"].as_f64(), slow["score"].as_f64()], expected.map(Some), "{flat}");
    assert_eq!((flat["kept"].as_f64(), slow["kept"].as_f64()), (Some(1.0), Some(0.25)));
    // The score of a host whose kernel can't start containers is 0, however flat its curve is.
    let release = bed.dir.join("sysroot/proc/sys/kernel/osrelease");
    fs::write(release, "5.10.0\n").expect("write");
    let broken = of(10.0, 10.0);
    assert_eq!((&broken["score"], &broken["verdict"]), (&json!(0), &json!("error")), "{broken}");
    assert_eq!(broken["kept"], 1.0);
}

fn score_bad_input(bed: &Bed) {
    let file = bed.dir.join("bad.json");
    let path = file.to_str().expect("path");
    let point = |threads: usize, us: &str| format!("{{\"threads\": {threads}, \"turn_us\": {us}}}");
    let curve = |work: &str, placement: &str, cpus: &str, points: &str| {
        format!(
            "{{\"curves\": [{{\"work\": \"{work}\", \"placement\": \"{placement}\", \"cpus\": \"{cpus}\", \
             \"points\": [{points}]}}]}}"
        )
    };
    let one = point(1, "1.5");
    for (text, said) in [
        (String::new(), "EOF while parsing"),
        ("[]".to_owned(), "invalid"),
        ("{\"curves\": []}".to_owned(), "no curve of \"all CPUs\""),
        (curve("sleep", "all CPUs", "0", &one), "\"sleep\" is none of lock, mounts"),
        (curve("lock", "moon", "0", &one), "\"moon\" is none of all CPUs"),
        (curve("lock", "all CPUs", "3-1", &one), "\"3-1\" is not a list of CPUs"),
        (curve("lock", "all CPUs", "0", &point(2, "1.5")), "2 threads, after 0, on 1 CPUs"),
        (curve("lock", "all CPUs", "0", &format!("{one}, {one}")), "1 threads, after 1, on 1 CPUs"),
        (curve("lock", "all CPUs", "0", &point(1, "0")), "a turn of 0 µs"),
        (curve("lock", "all CPUs", "0", &point(1, "-1e3")), "a turn of -1000 µs"),
        (curve("lock", "all CPUs", "0-1", &one), "no point with as many threads as CPUs, 2"),
        (curve("lock", "all CPUs", "60000", &one), "of which 60000 are not online here"),
        (curve("lock", "one node", "0", &one), "no curve of \"all CPUs\""),
        (" ".repeat(5 << 20), "longer than 4194304 bytes"),
    ] {
        fs::write(&file, text).expect("write");
        let call = ["host", "score", "--quick", "--locks", path];
        let outcome = bed.call_bare(&call).run().exits(1);
        assert!(outcome.stderr.contains(said) && outcome.stdout.is_empty(), "{said}: {outcome}");
    }
    for (arguments, code, said) in [
        (&["--sysroot", "/"][..], 1, "--locks <FILE>"),
        (&["--locks", "/nowhere"], 1, "open /nowhere: no such file or directory"),
        (&["--locks", "/dev"], 1, "read /dev: is a directory"),
        (&["--locks", "/dev/zero"], 1, "longer than 4194304 bytes"),
    ] {
        let call = bed.call_bare(&[&["host", "score"][..], arguments].concat());
        let outcome = call.run().exits(code);
        assert!(outcome.stderr.contains(said) && outcome.stdout.is_empty(), "{outcome}");
    }
}
