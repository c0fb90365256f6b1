//! `--log`, `--log-format` and `--debug`: where engines read errors.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::Value;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(json_error),
    case!(json_error_of_init),
    case!(log_is_appended),
    case!(text_error),
    case!(no_log_without_error),
    case!(unknown_format),
    case!(unwritable_log),
    case!(escapes),
    case!(stderr_alone),
    case!(debug),
];

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

fn json_error(bed: &Bed) {
    let log = bed.dir.join("log");
    let path = log.to_str().expect("path");
    let root = bed.root();
    let outcome = bed
        .call_bare(&[
            "--root",
            root.to_str().expect("path"),
            "--log",
            path,
            "--log-format",
            "json",
            "state",
            "nobody",
        ])
        .run()
        .exits(1);
    assert!(outcome.stderr.contains("container does not exist"), "{outcome}");
    let entries = lines(&log);
    assert_eq!(entries.len(), 1);
    let keys: Vec<&String> = entries[0].as_object().expect("object").keys().collect();
    assert_eq!(keys, ["level", "msg", "time"]);
    assert_eq!(entries[0]["level"], "error");
    assert_eq!(entries[0]["msg"], "container does not exist: nobody");
    let time = entries[0]["time"].as_str().expect("time");
    assert!(time.len() >= 20 && time.as_bytes()[10] == b'T', "RFC 3339: {time}");
}

fn json_error_of_init(bed: &Bed) {
    // An error in init is logged in the same place as others, and only once.
    let c = bed.bundle().mount("bind", "/no/such/source", "/mnt", &["bind"]).make();
    let outcome = c.create().fails("no such file or directory");
    assert!(outcome.stderr.lines().count() <= 3, "{outcome}");
}

fn log_is_appended(bed: &Bed) {
    let log = bed.dir.join("log");
    fs::write(&log, "").expect("write");
    for _ in 0..3 {
        let _ = bed
            .call_bare(&[
                "--log",
                log.to_str().expect("path"),
                "--log-format",
                "json",
                "state",
                "nobody",
            ])
            .run()
            .exits(1);
    }
    assert_eq!(lines(&log).len(), 3);
}

fn text_error(bed: &Bed) {
    let log = bed.dir.join("log");
    let _ =
        bed.call_bare(&["--log", log.to_str().expect("path"), "state", "nobody"]).run().exits(1);
    let text = fs::read_to_string(&log).expect("log");
    assert!(
        text.contains("level=error") && text.contains("msg=\"container does not exist: nobody\""),
        "{text}"
    );
    assert!(text.starts_with("time=\""), "{text}");
}

fn no_log_without_error(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let log = bed.dir.join("quiet");
    let bundle = c.bundle.to_string_lossy();
    let root = bed.root();
    let _ = bed
        .call_bare(&[
            "--root",
            root.to_str().expect("path"),
            "--log",
            log.to_str().expect("path"),
            "--log-format",
            "json",
            "run",
            "-b",
            &bundle,
            &c.id,
        ])
        .run()
        .ok();
    assert_eq!(fs::read_to_string(&log).unwrap_or_default(), "");
}

fn unknown_format(bed: &Bed) {
    let outcome = bed.call_bare(&["--log-format", "xml", "list"]).run();
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(outcome.stderr.contains("invalid log-format: xml"), "{outcome}");
}

fn unwritable_log(bed: &Bed) {
    let outcome = bed.call_bare(&["--log", "/no/such/dir/log", "list"]).run();
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(outcome.stderr.contains("no such file or directory"), "{outcome}");
}

fn escapes(bed: &Bed) {
    let c = bed.bundle().args(&["/no \"such\"\nfile\t\\x"]).make();
    c.create().fails("no such file or directory");
}

fn stderr_alone(bed: &Bed) {
    let outcome = bed.call_bare(&["state", "nobody"]).run().exits(1);
    assert!(outcome.stderr.contains("container does not exist"), "{outcome}");
    assert_eq!(outcome.stdout, "");
}

fn debug(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let bundle = c.bundle.to_string_lossy();
    bed.call(&["--debug", "run", "-b", &bundle, &c.id]).run().ok();
}
