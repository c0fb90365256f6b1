//! The output of commands: columns, keys and their order.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::STATE_FIELDS;
use dayfly_tests::runner::Case;
use serde_json::Value;
use std::fs;
use std::time::{Duration, SystemTime};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(list_table),
    case!(list_json),
    case!(list_quiet),
    case!(list_empty),
    case!(list_unknown_root),
    case!(list_unknown_format),
    case!(list_skips_what_is_no_container),
    case!(list_across_damaged_records),
    case!(list_after_death),
    case!(state_layout),
    case!(version),
    case!(help),
    case!(features),
    case!(spec_makes_a_config_that_runs),
    case!(spec_rootless),
    case!(spec_refuses_to_overwrite),
    case!(equals_and_single_dash_options),
];

fn list_table(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = bed.call(&["list"]).run().ok();
    let lines = outcome.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    );
    let row: Vec<&str> = lines[1].split_whitespace().collect();
    let created = c.state()["created"].as_str().expect("created").to_owned();
    let (pid, bundle) = (c.pid().to_string(), c.bundle.to_string_lossy().into_owned());
    assert_eq!(row, [c.id.as_str(), &pid, "running", &bundle, &created, "root"]);
    // Columns are aligned: at least 12 characters wide, three spaces apart.
    for (title, value) in [("PID", pid.as_str()), ("STATUS", "running"), ("OWNER", "root")] {
        assert_eq!(
            lines[0].find(title),
            lines[1].find(&format!(" {value} ")).map(|at| at + 1).or(lines[1].rfind(value))
        );
    }
    assert_eq!(lines[0].find("PID").map(|at| at >= 12), Some(true));
}

fn list_json(bed: &Bed) {
    let c = bed.bundle().set("/annotations", serde_json::json!({ "k": "v" })).make().detached();
    let outcome = bed.call(&["list", "--format", "json"]).run().ok();
    assert!(outcome.stdout.ends_with("]\n"));
    let list: Vec<Value> = serde_json::from_str(&outcome.stdout).expect("array");
    assert_eq!(list.len(), 1);
    let keys: Vec<&str> = list[0].as_object().expect("object").keys().map(String::as_str).collect();
    assert_eq!(keys, STATE_FIELDS);
    assert_eq!(list[0]["id"], c.id.as_str());
    assert_eq!(list[0]["owner"], "root");
    assert_eq!(list[0]["pid"], c.pid());
    // The order is fixed, because scripts that parse the text rely on it.
    let order = [
        "ociVersion",
        "id",
        "pid",
        "status",
        "bundle",
        "rootfs",
        "created",
        "annotations",
        "owner",
    ];
    let at: Vec<_> = order.iter().map(|key| outcome.stdout.find(&format!("\"{key}\":"))).collect();
    assert!(at.is_sorted() && at.iter().all(Option::is_some), "{outcome}");
}

fn list_quiet(bed: &Bed) {
    let mut ids: Vec<String> = (0..3).map(|_| bed.bundle().make().detached().id).collect();
    ids.sort();
    let outcome = bed.call(&["list", "-q"]).run().ok();
    let mut lines = outcome.lines();
    lines.sort_unstable();
    assert_eq!(lines, ids);
    assert_eq!(bed.call(&["list", "--quiet"]).run().ok().lines().len(), 3);
}

fn list_empty(bed: &Bed) {
    fs::create_dir_all(bed.root()).expect("make root");
    let table = bed.call(&["list"]).run().ok();
    assert_eq!(table.lines().len(), 1);
    assert_eq!(bed.call(&["list", "-f", "json"]).run().ok().stdout, "null\n");
    assert_eq!(bed.call(&["list", "-q"]).run().ok().stdout, "");
}

fn list_unknown_root(bed: &Bed) {
    bed.call(&["list"]).run().fails("no such file or directory");
}

fn list_unknown_format(bed: &Bed) {
    let _ = bed.bundle().make().detached();
    bed.call(&["list", "--format", "yaml"]).run().fails("invalid format option");
}

fn list_skips_what_is_no_container(bed: &Bed) {
    let c = bed.bundle().make().detached();
    fs::write(bed.root().join("a-file"), "x").expect("write");
    fs::create_dir(bed.root().join("a-directory")).expect("make");
    let outcome = bed.call(&["list", "-q"]).run().ok();
    assert_eq!(outcome.stdout, format!("{}\n", c.id));
}

fn list_across_damaged_records(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let record = if bed.runtime().ends_with("runc") { "state.json" } else { "record" };
    let whole = fs::read(bed.root().join(&c.id).join(record)).expect("record");
    let contents = [&b""[..], b"x", &whole[..whole.len().min(40)], &[0xff; 300]];
    for (number, content) in contents.iter().enumerate() {
        let dir = bed.root().join(format!("damaged{number}"));
        fs::create_dir(&dir).expect("make");
        fs::write(dir.join(record), content).expect("write");
        // `list` skips a directory that was just made, because its record may not be written yet. So the directory is
        // made to look old.
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        fs::File::open(&dir).and_then(|dir| dir.set_modified(long_ago)).expect("age");
    }
    // The record is a directory, which can't be read as a file.
    fs::create_dir_all(bed.root().join("damaged4").join(record)).expect("make");
    for flags in [&["-q"][..], &[], &["--format", "json"]] {
        let outcome = bed.call(&[&["list"][..], flags].concat()).run().ok();
        assert!(outcome.stdout.contains(&c.id), "{outcome}");
        assert!(!outcome.stdout.contains("damaged"), "{outcome}");
        for number in 0..5 {
            let warning = format!("load container damaged{number}: ");
            assert!(outcome.stderr.contains(&warning), "{outcome}");
        }
    }
    for number in 0..4 {
        let id = format!("damaged{number}");
        bed.call(&["state", &id]).run().exits(1);
        bed.call(&["delete", "--force", &id]).run().ok();
        assert!(!bed.root().join(&id).exists());
    }
}

fn list_after_death(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.kill("KILL").ok();
    c.wait_status("stopped");
    let outcome = bed.call(&["list"]).run().ok();
    let row: Vec<&str> = outcome.lines()[1].split_whitespace().collect();
    assert_eq!(row[1..3], ["0", "stopped"]);
}

fn state_layout(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let outcome = c.id_call("state", &[], &[]).run().ok();
    // The output has two spaces of indentation and one key per line, and omits annotations if there are none.
    let lines = outcome.lines();
    assert_eq!((lines[0], lines[lines.len() - 1]), ("{", "}"));
    let keys: Vec<&str> = lines[1..lines.len() - 1]
        .iter()
        .filter_map(|line| line.trim_start().split('"').nth(1))
        .collect();
    assert_eq!(keys, ["ociVersion", "id", "pid", "status", "bundle", "rootfs", "created", "owner"]);
    assert!(lines[1].starts_with("  \"ociVersion\": \""));
}

fn version(bed: &Bed) {
    let outcome = bed.call_bare(&["--version"]).run().ok();
    assert!(outcome.lines()[0].contains(" version "), "{outcome}");
    assert!(outcome.lines().iter().any(|line| line.starts_with("spec: 1.")), "{outcome}");
    assert_eq!(bed.call_bare(&["-v"]).run().ok().stdout, outcome.stdout);
}

fn help(bed: &Bed) {
    let outcome = bed.call_bare(&["--help"]).run().ok();
    for verb in [
        "create", "delete", "exec", "kill", "list", "pause", "ps", "resume", "run", "spec",
        "start", "state", "update", "events", "features",
    ] {
        assert!(outcome.stdout.contains(verb), "{verb}: {outcome}");
        assert!(bed.call_bare(&[verb, "--help"]).run().ok().stdout.contains(verb));
    }
}

fn features(bed: &Bed) {
    let outcome = bed.call_bare(&["features"]).run().ok();
    let features: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(features["ociVersionMin"], "1.0.0");
    assert!(features["ociVersionMax"].as_str().is_some_and(|version| version.starts_with("1.")));
    let has = |pointer: &str, name: &str| {
        features
            .pointer(pointer)
            .and_then(Value::as_array)
            .is_some_and(|list| list.iter().any(|item| item == name))
    };
    assert!(has("/hooks", "createRuntime") && has("/hooks", "poststop"), "{features}");
    assert!(
        has("/mountOptions", "rbind")
            && has("/mountOptions", "ro")
            && has("/mountOptions", "tmpcopyup")
    );
    assert!(has("/linux/namespaces", "user") && has("/linux/namespaces", "cgroup"));
    assert!(has("/linux/capabilities", "CAP_SYS_ADMIN"));
    // The annotations that engines must not take over from images.
    assert!(has("/potentiallyUnsafeConfigAnnotations", "org.systemd.property."));
    assert!(has("/potentiallyUnsafeConfigAnnotations", "org.criu.config"));
    if features["annotations"]["org.dayfly.version"].is_string() {
        assert!(has("/potentiallyUnsafeConfigAnnotations", "run.dayfly."));
    }
    assert_eq!(features["linux"]["cgroup"]["v1"], true);
    assert_eq!(features["linux"]["cgroup"]["v2"], true);
    assert_eq!(features["linux"]["seccomp"]["enabled"], true);
    assert!(has("/linux/seccomp/actions", "SCMP_ACT_ERRNO"));
    assert!(features["linux"]["apparmor"]["enabled"].is_boolean());
    assert!(features["linux"]["selinux"]["enabled"].is_boolean());
    assert!(features["linux"]["mountExtensions"]["idmap"]["enabled"].is_boolean());
}

fn spec_makes_a_config_that_runs(bed: &Bed) {
    let bundle = bed.bundle();
    bed.call(&["spec", "--bundle", bundle.dir.to_str().expect("path")]).run().ok();
    let path = bundle.dir.join("config.json");
    let mut config: Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("read")).expect("JSON");
    assert_eq!(config["process"]["terminal"], true);
    assert_eq!(config["process"]["args"], serde_json::json!(["sh"]));
    assert_eq!(config["root"], serde_json::json!({ "path": "rootfs", "readonly": true }));
    config["process"]["terminal"] = false.into();
    config["process"]["args"] = serde_json::json!(["sh", "-c", "echo it runs"]);
    let dir = bundle.dir.clone();
    let mut bundle = bundle;
    bundle.config = config;
    let c = bundle.make();
    assert_eq!(c.bundle, dir);
    assert_eq!(c.run().ok().stdout, "it runs\n");
}

fn spec_rootless(bed: &Bed) {
    bed.call(&["spec", "--rootless"]).dir(&bed.dir).run().ok();
    let config: Value =
        serde_json::from_str(&fs::read_to_string(bed.dir.join("config.json")).expect("read"))
            .expect("JSON");
    assert!(
        config["linux"]["namespaces"]
            .as_array()
            .expect("list")
            .iter()
            .any(|namespace| namespace["type"] == "user")
    );
    assert_eq!(config["linux"]["uidMappings"][0]["size"], 1);
}

fn spec_refuses_to_overwrite(bed: &Bed) {
    bed.call(&["spec"]).dir(&bed.dir).run().ok();
    bed.call(&["spec"]).dir(&bed.dir).run().fails("File config.json exists. Remove it first");
}

fn equals_and_single_dash_options(bed: &Bed) {
    let c = bed.bundle().make();
    let bundle = format!("--bundle={}", c.bundle.display());
    bed.call(&["create", &bundle, &c.id]).run().ok();
    bed.call(&["list", "--format=json"]).run().ok();
    bed.call(&["delete", "--force=true", &c.id]).run().ok();
}
