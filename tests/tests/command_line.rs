//! Command lines as users type them: names from other tools, typing errors, and a table that fits the terminal.

#[path = "command_line/tools.rs"]
mod tools;

use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, console, wait};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(what_was_meant).unlike_runc(),
    case!(json_alone_for_programs).unlike_runc(),
    case!(aliases).unlike_runc(),
    case!(several_at_once).unlike_runc(),
    case!(inspected).unlike_runc(),
    case!(statistics_of_several).unlike_runc(),
    case!(one_line_a_container).unlike_runc(),
    case!(no_format_of_that_suffix).unlike_runc(),
    case!(run_has_two_forms).unlike_runc(),
    case!(what_users_of_engines_type).unlike_runc(),
    case!(run_without_a_terminal).unlike_runc(),
    case!(who_does_not_exist).unlike_runc(),
    case!(stop_asks_first).unlike_runc(),
    case!(stop_kills_who_stays).unlike_runc(),
    case!(stop_of_a_paused_container).unlike_runc(),
    case!(stop_of_one_that_has_ended).unlike_runc(),
];

/// Asserts that a mistyped command line causes a message of two lines, and exit status 1.
fn usage_error(bed: &Bed, words: &[&str], message: &str, usage: &str) {
    let outcome = bed.call_bare(words).run().exits(1);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [first, second] = lines[..] else { panic!("not two lines: {outcome}") };
    assert_eq!(first, format!("error: {message}"), "{outcome}");
    assert!(second.starts_with(&format!("Usage: {usage}")), "{outcome}");
    assert_eq!(outcome.stdout, "", "{outcome}");
}

fn what_was_meant(bed: &Bed) {
    for (words, message, usage) in [
        (
            &["lits"][..],
            "there is no command \"lits\"; did you mean list?",
            "dayfly [global options]",
        ),
        (
            &["help", "rnu"],
            "there is no command \"rnu\"; did you mean run?",
            "dayfly [global options]",
        ),
        (
            &["run", "--detahc", "x"],
            "flag provided but not defined: -detahc; did you mean --detach?",
            "dayfly run [options] --image REF",
        ),
        (
            &["run", "--root", "/x", "x"],
            "flag provided but not defined: -root; --root comes before the command",
            "dayfly run [options] --image REF",
        ),
        (
            &["list", "-n5"],
            "flag provided but not defined: -n5; --format json prints all containers, and jq selects",
            "dayfly list [options]",
        ),
        (&["--foo", "list"], "flag provided but not defined: -foo", "dayfly [global options]"),
        (
            &["start"],
            "dayfly: \"start\" requires exactly 1 argument(s)",
            "dayfly start [options] CONTAINER",
        ),
    ] {
        usage_error(bed, words, message, usage);
    }
}

fn json_alone_for_programs(bed: &Bed) {
    let outcome = bed.call_bare(&["--log-format", "json", "state"]).run().exits(1);
    let all: Result<Vec<serde_json::Value>, _> =
        outcome.stderr.lines().map(serde_json::from_str).collect();
    assert_eq!(all.expect("JSON").len(), 1, "{outcome}");
}

fn aliases(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    for words in [&["ls", "-q"][..], &["list", "-q"]] {
        assert_eq!(bed.call(words).run().ok().stdout, format!("{}\n", c.id), "{words:?}");
    }
    assert!(bed.call(&["ps"]).run().ok().stdout.starts_with("ID"));
    assert!(bed.call(&["ps", &c.id]).run().ok().stdout.contains("sleep"));
    for words in [&["ps", "-aq"][..], &["ps", "-q", "-a"], &["ls", "-aq"]] {
        assert_eq!(bed.call(words).run().ok().stdout, format!("{}\n", c.id), "{words:?}");
    }
    assert!(bed.call(&["top", &c.id]).run().ok().stdout.contains("sleep"));
    let printed = |word| bed.call_bare(&[word]).run().ok().stdout;
    assert_eq!(printed("version"), printed("--version"));
}

fn several_at_once(bed: &Bed) {
    let make =
        || bed.bundle().sh("trap 'exit 0' TERM; while :; do sleep 0.05; done").make().detached();
    let all = [make(), make(), make()];
    let ids = all.each_ref().map(|c| c.id.as_str());
    all.iter().for_each(|c| wait::until_true("the trap to be set", || catches(c, 15)));
    bed.call(&["kill", "-s", "TERM", ids[0], ids[1]]).run().ok();
    all[..2].iter().for_each(|c| c.wait_status("stopped"));
    bed.call(&["stop", ids[1], ids[2]]).run().ok();
    all[2].wait_status("stopped");
    let outcome = bed.call(&["rm", "nobody", ids[0], "no-one", ids[1]]).run().exits(1);
    assert!(outcome.stderr.contains("warning: container does not exist: nobody\n"), "{outcome}");
    assert!(outcome.stderr.contains("error: container does not exist: no-one\n"), "{outcome}");
    assert!(!all[0].exists() && !all[1].exists() && all[2].exists());
    // runc's commands take one.
    let outcome = bed.call(&["delete", ids[2], "other"]).run().exits(1);
    assert!(outcome.stderr.contains("\"delete\" requires exactly 1 argument(s)"), "{outcome}");
    bed.call(&["rm", "-fv", ids[2]]).run().ok();
    assert!(!all[2].exists());
}

fn inspected(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).set("/process/env", json!(["PATH=/bin", "A=1"]));
    let c = c.mount("tmpfs", "memory", "/tmp", &["size=1m"]).make().detached();
    let seen = |words: &[&str]| {
        let outcome = bed.call(&[&["inspect"], words].concat()).run().ok();
        serde_json::from_str::<serde_json::Value>(&outcome.stdout).expect("JSON")
    };
    let mut first = seen(&[&c.id])[0].take();
    assert_eq!(first["process"]["env"][1], "A=1");
    let mounts = first["mounts"].as_array().expect("mounts");
    let on_tmp = mounts.iter().find(|mount| mount["destination"] == "/tmp").expect("a mount");
    assert_eq!((&on_tmp["type"], &on_tmp["source"]), (&json!("tmpfs"), &json!("memory")));
    for key in ["process", "limits", "mounts", "started"] {
        first.as_object_mut().expect("object").remove(key).expect(key);
    }
    first["owner"].take();
    let mut state = c.state();
    state["owner"].take();
    assert_eq!(first, state, "the rest is the state");
    c.kill("KILL").ok();
    c.wait_status("stopped");
    let both = seen(&[&c.id, &c.id]);
    assert_eq!((&both[1]["status"], &both[1]["mounts"]), (&json!("stopped"), &json!([])));
}

fn statistics_of_several(bed: &Bed) {
    let busy = bed.bundle().sh("while :; do :; done").make().detached();
    let idle = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let text = bed.call(&["stats", "--no-stream"]).run().ok().stdout;
    let row = |id: &str| {
        let line = text.lines().find(|line| line.starts_with(id)).expect("a row");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let percent = |id: &str| row(id)[1].trim_end_matches('%').parse::<f64>().expect("a number");
    // Only a host with the controller counts CPU time per cgroup; cgroup v2 always does.
    if bed.view == dayfly_tests::view::View::V2
        || std::path::Path::new("/sys/fs/cgroup/cpuacct").exists()
    {
        assert!(percent(&busy.id) > percent(&idle.id), "{text}");
    }
    assert_eq!(text.lines().count(), 3, "{text}");
    busy.kill("KILL").ok();
    busy.wait_status("stopped");
    let text = bed.call(&["stats", "--no-stream"]).run().ok().stdout;
    assert!(!text.contains(&busy.id) && text.contains(&idle.id), "{text}");
    let _ = bed.call(&["stats", &busy.id]).run().fails_once(1, "is not running");
    // Without the option, a table each second until the end of the last container.
    let stats = bed.call(&["stats", &idle.id]).spawn();
    std::thread::sleep(Duration::from_millis(1500));
    idle.kill("KILL").ok();
    let text = stats.wait().ok().stdout;
    assert!(text.matches("CONTAINER").count() >= 3, "{text}");
}

/// Returns the output of `dayfly ARGS…` on a terminal with this many columns.
fn on_a_terminal(bed: &Bed, columns: u16, args: &[&str]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("openpt");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).expect("window size");
    let name = ptsname(&master, Vec::new()).expect("ptsname");
    let slave = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("open terminal");
    let mut command = Command::new(bed.runtime());
    command.arg("--root").arg(bed.root()).args(args);
    command.stdin(Stdio::null()).stdout(slave).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("execute");
    // `command` holds a copy of the slave, which must be closed before the master can be read to its end.
    drop(command);
    let text = console::read_all(master);
    assert!(child.wait().expect("wait").success());
    text.replace("\r\n", "\n")
}

fn one_line_a_container(bed: &Bed) {
    let image = "registry.example/a/long/name/of/an/image:latest";
    let bundle = bed.bundle().sh("sleep 1000 # and-a-long-command-line-behind-it");
    let bundle = bundle.set("/annotations", json!({ "org.opencontainers.image.ref.name": image }));
    let c = bundle.make().detached();
    // The command is the container's, whatever becomes of its bundle.
    fs::remove_file(c.bundle.join("config.json")).expect("remove");
    for columns in [80, 100, 200] {
        let text = on_a_terminal(bed, columns, &["list"]);
        let lines: Vec<&str> = text.lines().collect();
        let [title, line] = lines[..] else { panic!("not two lines: {text}") };
        let titles: Vec<&str> = title.split_whitespace().collect();
        assert_eq!(titles, ["ID", "PID", "STATUS", "CREATED", "IMAGE", "COMMAND"]);
        assert!(line.starts_with(&c.id) && line.contains("running"), "{text}");
        assert!(line.chars().count() <= usize::from(columns), "{text}");
        assert_eq!(line.contains(image) && line.ends_with("behind-it"), columns == 200, "{text}");
    }
    let whole = on_a_terminal(bed, 80, &["list", "--no-trunc"]);
    assert_eq!(whole, bed.call(&["list"]).run().ok().stdout);
}

fn no_format_of_that_suffix(bed: &Bed) {
    let c = bed.bundle().args(&["true"]).make();
    let file = bed.dir.join("start.sgv");
    let outcome = c.run_with(&["--trace", file.to_str().expect("path")]).exits(1);
    assert!(outcome.stderr.contains("there is no format .sgv"), "{outcome}");
    assert!(!file.exists() && !c.exists());
}

fn run_has_two_forms(bed: &Bed) {
    let run = bed.call_bare(&["run", "--help"]).run().ok().stdout;
    let forms = ["dayfly run [options] CONTAINER\n", "dayfly run [options] --image REF [COMMAND]"];
    assert!(forms.iter().all(|form| run.contains(form)), "{run}");
}

/// Command lines of Podman and Docker that dayfly does not accept. The error names dayfly's own form, or reports that
/// dayfly lacks the feature. No advice overwrites, ends or removes something.
fn what_users_of_engines_type(bed: &Bed) {
    let usage = "dayfly run [options] --image REF";
    for (words, message) in [
        (
            &["run", "alpine", "sh"][..],
            "dayfly: \"run\" requires exactly 1 argument(s); did you mean dayfly run --image alpine?",
        ),
        (
            &["run", "-P", "--image", "web"],
            "flag provided but not defined: -P; run -p PORT:PORT publishes a port, as root with CNI plugins; --network host shares all",
        ),
        (
            &["run", "--pull=always", "--image", "web"],
            "flag provided but not defined: -pull; \"dayfly image pull\" gets an image",
        ),
        (
            &["run", "--pid-fiel", "env", "--image", "web"],
            "flag provided but not defined: -pid-fiel",
        ),
    ] {
        usage_error(bed, words, message, usage);
    }
    for words in [&["delet", "web"][..], &["rmm", "web"], &["stopp", "web"], &["updaet", "web"]] {
        let message = format!("there is no command {:?}", words[0]);
        usage_error(bed, words, &message, "dayfly [global options]");
    }
    // With an option for bundles, the error reports that config.json is missing.
    let hint = "did you mean dayfly run --image alpine?";
    let _ = bed.call(&["run", "alpine"]).run().fails_once(1, hint);
    let place = bed.dir.to_str().expect("path");
    let outcome = bed.call(&["run", "--bundle", place, "alpine"]).run().exits(1);
    assert!(outcome.stderr.ends_with("config.json not found\n"), "{outcome}");
}

/// A container with a terminal requires that the command has a terminal.
fn run_without_a_terminal(bed: &Bed) {
    let c = bed.bundle().set("/process/terminal", json!(true)).args(&["true"]).make();
    let root = bed.root();
    let [runtime, root, bundle] =
        [bed.runtime(), &root, &c.bundle].map(|path| path.to_string_lossy());
    let words = ["--wait", &*runtime, "--root", &*root, "run", "--bundle", &*bundle, &*c.id];
    let outcome = bed.program("setsid", &words).run().exits(1);
    let hint = "this command has no terminal; set process.terminal to false in config.json\n";
    assert!(outcome.stderr.contains("open /dev/tty: "), "{outcome}");
    assert!(outcome.stderr.ends_with(hint), "{outcome}");
    assert!(!c.exists());
}

/// Every command with an id reports a missing container.
fn who_does_not_exist(bed: &Bed) {
    let text = "container does not exist: nobody";
    for verb in [
        "state", "start", "delete", "pause", "resume", "ps", "update", "kill", "stop", "inspect",
        "events",
    ] {
        let _ = bed.call(&[verb, "nobody"]).run().fails_once(1, text);
    }
    bed.call(&["exec", "nobody", "true"]).run().fails_as(255, text);
}

/// Returns whether the container's program handles a signal.
fn catches(c: &Container<'_>, signal: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", c.state()["pid"])).expect("status");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("SigCgt");
    u64::from_str_radix(caught.trim(), 16).expect("mask") & (1 << (signal - 1)) != 0
}

fn stop_asks_first(bed: &Bed) {
    let c = bed.bundle().sh("trap 'exit 0' TERM; while :; do sleep 0.05; done").make().detached();
    wait::until_true("the trap to be set", || catches(&c, 15));
    let since = Instant::now();
    c.id_call("stop", &[], &[]).run().ok();
    assert!(since.elapsed() < Duration::from_secs(9), "{:?}", since.elapsed());
    assert_eq!(c.state()["status"], "stopped");
    let signal = json!({ "org.opencontainers.image.stopSignal": "SIGUSR1" });
    let script = "trap '' TERM; trap 'exit 0' USR1; while :; do sleep 0.05; done";
    let c = bed.bundle().sh(script).set("/annotations", signal).make().detached();
    wait::until_true("the trap to be set", || catches(&c, 10));
    let since = Instant::now();
    c.id_call("stop", &[], &["--time", "20s"]).run().ok();
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    assert_eq!(c.state()["status"], "stopped");
}

fn stop_kills_who_stays(bed: &Bed) {
    // PID 1 of a namespace receives only signals that it handles.
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    let since = Instant::now();
    c.id_call("stop", &["-t", "300ms"], &[]).run().ok();
    assert!(since.elapsed() >= Duration::from_millis(300), "{:?}", since.elapsed());
    assert_eq!(c.state()["status"], "stopped");
}

fn stop_of_a_paused_container(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    c.id_call("stop", &["-t", "soon"], &[]).run().fails("--time soon: must be a time such as 10s");
    assert_eq!(c.state()["status"], "paused");
    c.id_call("stop", &["-t", "0"], &[]).run().ok();
    assert_eq!(c.state()["status"], "stopped");
}

fn stop_of_one_that_has_ended(bed: &Bed) {
    let c = bed.bundle().args(&["sleep", "1000"]).make().detached();
    c.id_call("kill", &[], &["KILL"]).run().ok();
    c.id_call("stop", &[], &[]).run().ok();
    c.id_call("stop", &[], &[]).run().ok();
    bed.call(&["stop", "nobody"]).run().fails("container does not exist");
}
