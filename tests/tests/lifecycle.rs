//! create, start, state, kill, delete: their order, and each case in which they are refused.

use dayfly_tests::bed::Bed;
use dayfly_tests::container::STATE_FIELDS;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, leak, wait};
use serde_json::json;
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(whole_life),
    case!(state_of_each_step),
    case!(state_fields),
    case!(create_does_not_run_the_program),
    case!(duplicate_id),
    case!(unknown_id),
    case!(empty_id),
    case!(invalid_ids),
    case!(valid_ids),
    case!(start_twice),
    case!(start_stopped),
    case!(start_unknown_program),
    case!(delete_created),
    case!(delete_running_refused),
    case!(delete_force_running),
    case!(delete_force_unknown),
    case!(delete_force_forgets_a_half_made_record),
    case!(kill_created),
    case!(signals_end_a_created_one),
    case!(kill_stopped),
    case!(kill_unknown_signal),
    case!(kill_signal_names),
    case!(kill_default_is_term),
    case!(kill_all_of_host_pid),
    case!(kill_without_pid_namespace),
    case!(kill_stopped_without_pid_namespace),
    case!(missing_config),
    case!(broken_config),
    case!(missing_rootfs),
    case!(wrong_argument_counts),
    case!(options_after_the_id),
    case!(unknown_command),
    case!(root_slash_refused),
    case!(failed_create_leaves_nothing),
    case!(pid_file),
];

fn whole_life(bed: &Bed) {
    let c = bed.bundle().sh("echo alive; exit 3").make();
    let created = c.create().ok();
    assert_eq!(created.stdout, "");
    assert_eq!(created.stderr, "");
    assert_eq!(c.start().ok().stderr, "");
    c.wait_status("stopped");
    assert_eq!(created.output(), "alive\n");
    assert_eq!(c.delete().ok().stderr, "");
    assert!(!c.exists());
}

fn state_of_each_step(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    assert_eq!(c.status(), "created");
    let pid = c.pid();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    c.start().ok();
    assert_eq!(c.status(), "running");
    assert_eq!(c.pid(), pid, "start must not change the pid");
    c.kill("KILL").ok();
    c.wait_status("stopped");
    assert_eq!(c.state()["pid"], 0);
    c.delete().ok();
}

fn state_fields(bed: &Bed) {
    let c = bed.bundle().set("/annotations", json!({ "org.example.colour": "blue" })).make();
    c.create().ok();
    let state = c.state();
    let keys: Vec<&String> = state.as_object().expect("object").keys().collect();
    let mut keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, STATE_FIELDS);
    assert_eq!(state["ociVersion"], "1.3.0", "the version the runtime implements");
    assert_eq!(state["id"], c.id.as_str());
    assert_eq!(state["bundle"], c.bundle.to_str().expect("path"));
    assert_eq!(state["rootfs"], c.bundle.join("rootfs").to_str().expect("path"));
    assert_eq!(state["annotations"], json!({ "org.example.colour": "blue" }));
    assert_eq!(state["owner"], "");
    let created = state["created"].as_str().expect("created");
    assert!(created.len() > 20 && created.starts_with("20") && created.ends_with('Z'), "{created}");
}

fn create_does_not_run_the_program(bed: &Bed) {
    let c = bed.bundle().sh("touch /ran").make();
    c.create().ok();
    // There is no event to wait for, because the program must not run.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!c.bundle.join("rootfs/ran").exists());
    c.start().ok();
    c.wait_status("stopped");
    assert!(c.bundle.join("rootfs/ran").exists());
}

fn duplicate_id(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    c.create().fails("container with given ID already exists");
    c.run().fails("container with given ID already exists");
    assert_eq!(c.status(), "created", "the first one is untouched");
    c.start().ok();
    assert_eq!(c.status(), "running");
}

fn unknown_id(bed: &Bed) {
    for verb in ["state", "start", "delete", "pause", "resume", "ps", "update"] {
        bed.call(&[verb, "nobody"]).run().fails("container does not exist");
    }
    bed.call(&["kill", "nobody", "KILL"]).run().fails("container does not exist");
    bed.call(&["events", "--stats", "nobody"]).run().fails("container does not exist");
    bed.call(&["exec", "nobody", "true"])
        .run()
        .fails_as(255, "exec failed: container does not exist");
}

fn empty_id(bed: &Bed) {
    bed.call(&["state", ""]).run().fails("container id cannot be empty");
    bed.call(&["exec", "", "true"]).run().fails_as(255, "container id cannot be empty");
}

fn invalid_ids(bed: &Bed) {
    let bundle = bed.bundle().make().bundle;
    let bundle = bundle.to_str().expect("path");
    for id in ["a/b", "../x", "..", ".", "a b", "tab\tid", "ümlaut", "x/../y", "semi;colon"] {
        bed.call(&["create", "--bundle", bundle, id]).run().fails("invalid container ID format");
        bed.call(&["state", id]).run().fails("invalid container ID format");
    }
}

fn valid_ids(bed: &Bed) {
    for suffix in ["_under", "+plus", ".dot", "-dash", "UPPER9"] {
        let id = format!("{}{suffix}", bed.id());
        let c = bed.bundle().args(&["/bin/true"]).make_as(&id);
        c.run().ok();
    }
}

fn start_twice(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    c.start().ok();
    c.start().fails("cannot start an already running container");
}

fn start_stopped(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.start().fails("cannot start a container that has stopped");
}

fn start_unknown_program(bed: &Bed) {
    let c = bed.bundle().args(&["/no/such/program"]).make();
    c.create().fails("no such file or directory");
    assert!(!c.exists());
    let c = bed.bundle().args(&["nothing-on-the-path"]).make();
    c.create().fails("executable file not found in $PATH");
    let c = bed.bundle().args(&["/etc/passwd"]).make();
    c.create().fails("permission denied");
}

fn delete_created(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    c.delete().ok();
    assert!(!c.exists());
}

fn delete_running_refused(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.delete().fails(&format!("cannot delete container {} that is not stopped: running", c.id));
    assert_eq!(c.status(), "running");
}

fn delete_force_running(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.delete_force().ok();
    c.id_call("state", &[], &[]).run().fails("container does not exist");
}

fn delete_force_unknown(bed: &Bed) {
    bed.call(&["delete", "--force", "nobody"]).run().ok();
    bed.call(&["delete", "-f", "nobody"]).run().ok();
}

fn delete_force_forgets_a_half_made_record(bed: &Bed) {
    let record = bed.root().join("half-made");
    fs::create_dir_all(&record).expect("make record");
    bed.call(&["delete", "--force", "half-made"]).run().ok();
    assert!(!record.exists());
}

fn kill_created(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    c.kill("KILL").ok();
    c.wait_status("stopped");
    c.delete().ok();
}

/// Signals that terminate programs also terminate the init of a created container, as with runc; other signals have no
/// effect on it.
fn signals_end_a_created_one(bed: &Bed) {
    for signal in ["TERM", "INT", "HUP", "QUIT", "ABRT"] {
        let c = bed.bundle().make();
        c.create().ok();
        for other in ["USR1", "WINCH", "CONT"] {
            c.kill(other).ok();
        }
        assert_eq!(c.status(), "created");
        c.kill(signal).ok();
        c.wait_status("stopped");
        c.start().fails("cannot start a container that has stopped");
        c.delete().ok();
    }
    // The program has default signal dispositions.
    let c = bed.bundle().args(&["/bin/sleep", "1000"]).make();
    c.create().ok();
    c.start().ok();
    c.kill("TERM").ok();
    c.id_call("kill", &[], &["0"]).run().ok();
    assert_eq!(c.status(), "running");
}

fn kill_stopped(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.kill("KILL").fails("container not running");
    c.kill("0").fails("container not running");
}

fn kill_unknown_signal(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for signal in ["SIGNOPE", "NOPE", "KILLS", "9x"] {
        c.kill(signal).fails(&format!("unknown signal \"{signal}\""));
    }
    assert_eq!(c.status(), "running");
}

fn kill_signal_names(bed: &Bed) {
    let script = "trap 'echo got' USR1 USR2 HUP; echo ready; while :; do sleep 0.02; done";
    let c = bed.bundle().sh(script).make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("ready");
    for (count, signal) in ["USR1", "SIGUSR2", "1", "usr1", "sighup"].iter().enumerate() {
        c.kill(signal).ok();
        run.wait_output(&"got\n".repeat(count + 1));
    }
}

fn kill_default_is_term(bed: &Bed) {
    let c = bed
        .bundle()
        .sh("trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
        .make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("ready");
    c.id_call("kill", &[], &[]).run().ok();
    run.wait_output("term");
    c.wait_status("stopped");
}

fn kill_all_of_host_pid(bed: &Bed) {
    let c = bed
        .bundle()
        .without_namespace("pid")
        .sh("sleep 1001 & sleep 1002 & echo ready; wait")
        .make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("ready");
    c.id_call("kill", &["--all"], &["KILL"]).run().ok();
    c.wait_status("stopped");
    c.delete().ok();
}

/// Without a PID namespace of the container's own, init's death does not end the other processes: `kill` sends SIGKILL
/// to each of them, and other signals to init only.
fn kill_without_pid_namespace(bed: &Bed) {
    let script = "sleep 1001 & trap 'echo got' TERM; echo ready; while :; do sleep 0.02; done";
    for joined in [false, true] {
        let bundle = bed.bundle().sh(script);
        let bundle = match joined {
            false => bundle.without_namespace("pid"),
            true => bundle.join_namespace("pid", "/proc/self/ns/pid"),
        };
        let c = bundle.make();
        let run = c.run_with(&["--detach"]).ok();
        run.wait_output("ready");
        c.kill("TERM").ok();
        run.wait_output("got");
        let others = || leak::processes(std::slice::from_ref(&c.id)).len();
        assert!(others() >= 2, "the shell and its child live");
        c.kill("KILL").ok();
        c.wait_status("stopped");
        wait::until_true("all processes to be gone", || others() == 0);
        c.delete().ok();
    }
}

fn kill_stopped_without_pid_namespace(bed: &Bed) {
    let c = bed.bundle().without_namespace("pid").args(&["/bin/true"]).make().detached();
    c.wait_status("stopped");
    c.kill("TERM").fails("container not running");
    // As with runc, `kill` succeeds: it kills all processes that are left in the container's cgroup, even if there are
    // none.
    c.kill("KILL").ok();
}

fn missing_config(bed: &Bed) {
    let c = bed.bundle().make();
    fs::remove_file(c.bundle.join("config.json")).expect("remove config");
    c.create().fails("config.json not found");
    bed.call(&["create", "--bundle", "/no/such/bundle", &c.id]).run().fails("/no/such/bundle");
}

fn broken_config(bed: &Bed) {
    let c = bed.bundle().make();
    for text in ["{", "[]", "{\"process\": 7}", "null", ""] {
        fs::write(c.bundle.join("config.json"), text).expect("write config");
        let outcome = c.create();
        assert_eq!(outcome.code(), 1, "{text:?}: {outcome}");
        assert!(!outcome.stderr.is_empty());
    }
}

fn missing_rootfs(bed: &Bed) {
    let c = bed.bundle().set("/root/path", json!("nowhere")).make();
    c.create().fails("no such file or directory");
    assert!(!c.exists());
}

fn wrong_argument_counts(bed: &Bed) {
    for verb in ["create", "run", "start", "state", "delete", "pause", "resume"] {
        bed.call(&[verb]).run().fails(&format!("\"{verb}\" requires exactly 1 argument(s)"));
    }
    bed.call(&["exec"]).run().fails("\"exec\" requires a minimum of 1 argument(s)");
    bed.call(&["kill"]).run().fails("\"kill\" requires a minimum of 1 argument(s)");
    bed.call(&["list", "extra"]).run().fails("\"list\" requires exactly 0 argument(s)");
}

fn options_after_the_id(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("delete", &[], &["--force"]).run().ok();
    assert!(!c.exists());
}

fn unknown_command(bed: &Bed) {
    assert_ne!(bed.call(&["no-such-command"]).run().code(), 0);
    assert_ne!(bed.call(&["state", "--no-such-option", "x"]).run().code(), 0);
}

fn root_slash_refused(bed: &Bed) {
    bed.call_bare(&["--root", "/", "list"]).run().exits(1);
}

fn failed_create_leaves_nothing(bed: &Bed) {
    let c = bed.bundle().mount("bind", "/no/such/source", "/mnt", &["bind"]).make();
    c.create().fails("no such file or directory");
    assert!(!bed.root().join(&c.id).exists());
}

fn pid_file(bed: &Bed) {
    let c = bed.bundle().make();
    let file = bed.dir.join("pid");
    c.create_with(&["--pid-file", file.to_str().expect("path")]).ok();
    assert_eq!(fs::read_to_string(&file).expect("pid file"), c.pid().to_string());
}
