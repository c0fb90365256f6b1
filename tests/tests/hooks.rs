//! Hooks of all six kinds: order, the state on their standard input, failure.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(order).unlike_runc(),
    case!(order_across_create_start_delete).unlike_runc(),
    case!(state_on_stdin).unlike_runc(),
    case!(namespaces_they_run_in),
    case!(arguments_and_environment),
    case!(empty_environment),
    case!(environment_where_none_is_given),
    case!(home_where_no_environment_is_given),
    case!(start_container_under_the_filter),
    case!(start_container_under_the_engines_filter).unlike_runc(),
    case!(start_container_where_the_filter_denies_exec),
    case!(several_of_a_kind_in_order),
    case!(failing_prestart),
    case!(failing_create_runtime),
    case!(failing_create_container),
    case!(failing_start_container).unlike_runc(),
    case!(failing_start_container_says_why).unlike_runc(),
    case!(failing_poststart_ends_the_container),
    case!(that_cannot_be_executed).unlike_runc(),
    case!(failing_hooks_of_start_remove_the_container).unlike_runc(),
    case!(failing_poststop_still_deletes),
    case!(missing_program),
    case!(timeout),
    case!(timeout_of_a_hook_with_children).unlike_runc(),
    case!(program_output_is_not_the_containers),
    case!(large_state_is_read_by_nobody),
];

const KINDS: &[&str] =
    &["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// Returns a hook that runs `script`; startContainer hooks run inside the container, where `/bin/sh` is busybox's.
fn hook(script: &str) -> Value {
    json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"] })
}

/// Makes a directory that has the same path for hooks on the host and in the container.
fn journal<'a>(bed: &Bed, bundle: Bundle<'a>) -> (Bundle<'a>, std::path::PathBuf) {
    let dir = bed.dir.join("journal");
    fs::create_dir(&dir).expect("make journal");
    let path = dir.to_str().expect("path").to_owned();
    (bundle.mount("bind", &path, &path, &["bind"]), dir)
}

fn all_kinds<'a>(bed: &Bed, bundle: Bundle<'a>) -> (Bundle<'a>, std::path::PathBuf) {
    let (mut bundle, dir) = journal(bed, bundle);
    let path = dir.display();
    for kind in KINDS {
        bundle = bundle.push(
            &format!("/hooks/{kind}"),
            hook(&format!("cat >{path}/{kind}.json; echo {kind} >>{path}/order")),
        );
    }
    (bundle.sh(&format!("echo program >>{path}/order")), dir)
}

fn read(dir: &std::path::Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_default()
}

fn order(bed: &Bed) {
    let (bundle, dir) = all_kinds(bed, bed.bundle());
    bundle.make().run().ok();
    let text = read(&dir, "order");
    let mut lines: Vec<&str> = text.lines().collect();
    // poststart runs concurrently with the program.
    lines.retain(|line| *line != "program");
    assert_eq!(lines, KINDS);
    assert!(text.contains("program"));
}

fn order_across_create_start_delete(bed: &Bed) {
    let (bundle, dir) = all_kinds(bed, bed.bundle());
    let c = bundle.make();
    let lines = || {
        read(&dir, "order")
            .lines()
            .map(str::to_owned)
            .filter(|line| line != "program")
            .collect::<Vec<_>>()
    };
    c.create().ok();
    assert_eq!(lines(), KINDS[..3]);
    c.start().ok();
    c.wait_status("stopped");
    assert_eq!(lines(), KINDS[..5]);
    c.delete().ok();
    assert_eq!(lines(), KINDS);
}

fn state_on_stdin(bed: &Bed) {
    let (bundle, dir) = all_kinds(bed, bed.bundle());
    let c = bundle.set("/annotations", json!({ "org.example": "yes" })).make();
    c.run().ok();
    let expected = ["created", "creating", "creating", "created", "running", "stopped"];
    for (kind, status) in KINDS.iter().zip(expected) {
        let state: Value =
            serde_json::from_str(&read(&dir, &format!("{kind}.json"))).expect("state");
        assert_eq!(state["id"], c.id.as_str(), "{kind}");
        assert_eq!(state["status"], status, "{kind}");
        assert_eq!(state["bundle"], c.bundle.to_str().expect("path"), "{kind}");
        assert_eq!(state["annotations"], json!({ "org.example": "yes" }), "{kind}");
        assert!(state["ociVersion"].is_string(), "{kind}");
        if *kind != "poststop" {
            assert!(state["pid"].as_i64().is_some_and(|pid| pid > 0), "{kind}: {state}");
        }
    }
}

fn namespaces_they_run_in(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    let path = dir.display();
    for kind in KINDS {
        bundle = bundle.push(
            &format!("/hooks/{kind}"),
            hook(&format!("readlink /proc/self/ns/mnt >{path}/{kind}; exit 0")),
        );
    }
    let c = bundle.make();
    c.create().ok();
    c.start().ok();
    let inside = fs::read_link(format!("/proc/{}/ns/mnt", c.pid()))
        .expect("namespace")
        .to_string_lossy()
        .into_owned();
    let outside =
        fs::read_link("/proc/self/ns/mnt").expect("namespace").to_string_lossy().into_owned();
    c.delete_force().ok();
    for kind in KINDS {
        let expected =
            if matches!(*kind, "createContainer" | "startContainer") { &inside } else { &outside };
        assert_eq!(read(&dir, kind).trim(), expected, "{kind}");
    }
}

fn arguments_and_environment(bed: &Bed) {
    let (bundle, dir) = journal(bed, bed.bundle());
    let out = dir.join("out");
    let script = format!("echo \"$0|$1|$COLOUR|$TERM\" >{}", out.display());
    let c = bundle
        .push("/hooks/createRuntime", json!({ "path": "/bin/sh", "args": ["sh", "-c", script, "zero", "one two"], "env": ["COLOUR=red"] }))
        .args(&["/bin/true"])
        .make();
    c.run().ok();
    assert_eq!(read(&dir, "out"), "zero|one two|red|\n");
}

/// An empty `env` means an empty environment, except for hooks in the container (as with runc).
fn empty_environment(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    for kind in KINDS {
        let script = format!("echo \"$OUTSIDE|$INSIDE\" >{}/{kind}", dir.display());
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script], "env": [] });
        bundle = bundle.push(&format!("/hooks/{kind}"), hook);
    }
    let c = bundle.push("/process/env", json!("INSIDE=there")).args(&["/bin/true"]).make();
    c.bundle_call("run", &[]).env("OUTSIDE", "here").run().ok();
    for kind in KINDS {
        let expected = if *kind == "startContainer" { "|there" } else { "|" };
        assert_eq!(read(&dir, kind).trim(), expected, "{kind}");
    }
}

/// Without `env`, createContainer hooks get an empty environment, startContainer hooks get the process's environment,
/// and all other hooks get the runtime's.
fn environment_where_none_is_given(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    for kind in KINDS {
        let script = format!("echo \"$OUTSIDE|$INSIDE\" >{}/{kind}", dir.display());
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
        bundle = bundle.push(&format!("/hooks/{kind}"), hook);
    }
    let c = bundle.push("/process/env", json!("INSIDE=there")).args(&["/bin/true"]).make();
    c.bundle_call("run", &[]).env("OUTSIDE", "here").run().ok();
    for kind in KINDS {
        let expected = match *kind {
            "createContainer" => "|",
            "startContainer" => "|there",
            _ => "here|",
        };
        assert_eq!(read(&dir, kind).trim(), expected, "{kind}");
    }
}

/// startContainer hooks get the process's environment, including the user's home.
fn home_where_no_environment_is_given(bed: &Bed) {
    let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:ada:/home/ada:/bin/sh";
    for (uid, env, env_of_hook, expected) in [
        (0, json!(["PATH=/bin"]), None, "/root"),
        (1000, json!(["PATH=/bin"]), None, "/home/ada"),
        (1000, json!(["PATH=/bin", "HOME="]), None, "/home/ada"),
        (1000, json!(["PATH=/bin", "HOME=/a"]), None, "/a"),
        (1000, json!(["PATH=/bin"]), Some(json!([])), "/home/ada"),
        (1000, json!(["PATH=/bin"]), Some(json!(["A=b"])), ""),
    ] {
        let (bundle, dir) = journal(bed, bed.bundle());
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).expect("chmod");
        let script = format!("echo \"$HOME\" >{}/home", dir.display());
        let mut hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
        if let Some(env) = env_of_hook {
            hook["env"] = env;
        }
        let bundle = bundle
            .set("/process/user", json!({ "uid": uid, "gid": uid }))
            .set("/process/env", env)
            .push("/hooks/startContainer", hook)
            .args(&["/bin/true"]);
        fs::write(bundle.rootfs().join("etc/passwd"), passwd).expect("write passwd");
        bundle.make().run().ok();
        assert_eq!(read(&dir, "home").trim(), expected, "uid {uid}");
        fs::remove_dir_all(&dir).expect("remove journal");
    }
}

/// Returns a hook that tries to make a directory, and writes the result, its capabilities, no_new_privs and the seccomp
/// mode to `out`.
fn confined_hook(dir: &std::path::Path) -> Value {
    hook(&format!(
        "(mkdir /tmp/d && echo made; grep -E '^(CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' \
         /proc/self/status) >{}/out 2>&1; exit 0",
        dir.display()
    ))
}

/// As with runc and crun, startContainer hooks run under the container's seccomp filter. They have the program's
/// capabilities. Loading the filter may require CAP_SYS_ADMIN, but a hook must not keep that capability.
fn start_container_under_the_filter(bed: &Bed) {
    for no_new_privileges in [true, false] {
        for uid in [0, 1000] {
            let (bundle, dir) = journal(bed, bed.bundle());
            fs::set_permissions(&dir, Permissions::from_mode(0o777)).expect("chmod");
            let bundle = bundle
                .set("/process/noNewPrivileges", json!(no_new_privileges))
                .set("/process/user", json!({ "uid": uid, "gid": uid }))
                .set(
                    "/linux/seccomp",
                    json!({
                        "defaultAction": "SCMP_ACT_ALLOW",
                        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }],
                    }),
                )
                .push("/hooks/startContainer", confined_hook(&dir))
                .sh("grep -E '^(CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status");
            let c = bundle.make();
            let program = c.run().ok().stdout;
            let hook = read(&dir, "out");
            assert!(program.contains("Seccomp:\t2\n"), "{program}");
            let refused = "mkdir: can't create directory '/tmp/d': Operation not permitted\n";
            assert_eq!(hook, format!("{refused}{program}"), "{no_new_privileges} {uid}");
            c.create().ok();
            c.start().ok();
            c.wait_status("stopped");
            assert_eq!(read(&dir, "out"), hook);
            fs::remove_dir_all(&dir).expect("remove journal");
        }
    }
}

/// startContainer hooks run under the engines' filter, which here refuses clone3(2), memfd_create(2), poll(2), ppoll(2)
/// and waitid(2).
fn start_container_under_the_engines_filter(bed: &Bed) {
    let mut filter = dayfly_tests::profile::seccomp(dayfly_tests::bundle::CAPABILITIES);
    let refused = json!({
        "names": ["memfd_create", "clone3", "poll", "ppoll", "waitid"],
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": 38,
    });
    for rule in filter["syscalls"].as_array_mut().expect("rules") {
        rule["names"]
            .as_array_mut()
            .expect("names")
            .retain(|name| !refused["names"].as_array().expect("names").contains(name));
    }
    filter["syscalls"].as_array_mut().expect("rules").push(refused);
    let (bundle, dir) = journal(bed, bed.bundle());
    let mut slow = confined_hook(&dir);
    slow["timeout"] = json!(60);
    let bundle = bundle.set("/linux/seccomp", filter).push("/hooks/startContainer", slow);
    bundle.args(&["/bin/true"]).make().run().ok();
    let out = read(&dir, "out");
    assert!(out.starts_with("made\n") && out.ends_with("Seccomp:\t2\n"), "{out}");
}

/// If the filter denies execve(2), a startContainer hook fails, and the error names the hook.
fn start_container_where_the_filter_denies_exec(bed: &Bed) {
    let filter = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["execve"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13 }],
    });
    let c = bed
        .bundle()
        .set("/linux/seccomp", filter)
        .push("/hooks/startContainer", json!({ "path": "/bin/true" }))
        .make();
    c.run().fails("startContainer hook #0: fork/exec /bin/true: permission denied");
    assert!(!c.exists());
}

fn several_of_a_kind_in_order(bed: &Bed) {
    let (mut bundle, dir) = journal(bed, bed.bundle());
    for number in 0..5 {
        bundle = bundle
            .push("/hooks/prestart", hook(&format!("echo {number} >>{}/order", dir.display())));
    }
    bundle.args(&["/bin/true"]).make().run().ok();
    assert_eq!(read(&dir, "order"), "0\n1\n2\n3\n4\n");
}

fn failing(bed: &Bed, kind: &str) {
    let c = bed.bundle().push(&format!("/hooks/{kind}"), hook("echo because >&2; exit 3")).make();
    c.create().fails("exit status 3");
    assert!(!c.exists());
}

fn failing_prestart(bed: &Bed) {
    failing(bed, "prestart");
}

fn failing_create_runtime(bed: &Bed) {
    failing(bed, "createRuntime");
}

fn failing_create_container(bed: &Bed) {
    failing(bed, "createContainer");
}

fn failing_start_container(bed: &Bed) {
    let (bundle, dir) = journal(bed, bed.bundle());
    let c = bundle
        .push("/hooks/startContainer", hook("exit 3"))
        .sh(&format!("echo ran >{}/ran", dir.display()))
        .make();
    c.create().ok();
    c.start().fails("exit status 3");
    assert!(!dir.join("ran").exists(), "the program never runs");
    assert!(!c.exists());
}

fn failing_start_container_says_why(bed: &Bed) {
    let c = bed.bundle().push("/hooks/startContainer", hook("echo because >&2; exit 3")).make();
    let text = "error running startContainer hook #0: exit status 3, output: because";
    let lacks_more = |log: String| assert!(!log.contains("canceled"), "{log}");
    lacks_more(c.run().fails_once(1, text).log());
    c.create().ok();
    lacks_more(c.start().fails_once(1, text).log());
}

/// The error has runc's words and names the hook. It does not show the exit status of a process that is internal to the
/// runtime.
fn that_cannot_be_executed(bed: &Bed) {
    let long = format!("/{}/hook", "d".repeat(200));
    for (path, reason) in [
        ("/nonexistent/hook", "no such file or directory"),
        ("/etc", "permission denied"),
        (&*long, "no such file or directory"),
    ] {
        for kind in ["prestart", "createContainer", "startContainer", "poststart"] {
            let hook = json!({ "path": path });
            let c = bed.bundle().push(&format!("/hooks/{kind}"), hook).make();
            let outcome = c.run().exits(1);
            let start = format!("error running {kind} hook #0: fork/exec {path}");
            let is_told = if path == long {
                outcome.stderr.contains(&start[..120]) && outcome.stderr.contains(reason)
            } else {
                outcome.stderr.contains(&format!("{start}: {reason}\n"))
            };
            assert!(is_told && !outcome.stderr.contains("status"), "{outcome}");
            assert!(!c.exists());
        }
    }
    // A hook that was executed is reported with its exit status, whatever the status is.
    let c = bed.bundle().push("/hooks/prestart", hook("echo because; exit 130")).make();
    c.run().fails("error running prestart hook #0: exit status 130, output: because");
    let c = bed.bundle().push("/hooks/prestart", hook("kill -SYS $$")).make();
    c.run().fails("error running prestart hook #0: signal: bad system call");
}

fn failing_poststart_ends_the_container(bed: &Bed) {
    let c = bed.bundle().push("/hooks/poststart", hook("exit 3")).make();
    c.run().fails("error running poststart hook #0: exit status 3");
    assert!(!c.exists());
}

/// Specification 1.3 (runtime.md, "Lifecycle", 7, 9, 12 and 13): a failing hook of `start` is an error, and the
/// container is removed with everything that was made for it.
fn failing_hooks_of_start_remove_the_container(bed: &Bed) {
    for kind in ["startContainer", "poststart"] {
        let (bundle, dir) = journal(bed, bed.bundle());
        let path = dir.display();
        let c = bundle
            .push(&format!("/hooks/{kind}"), hook("exit 3"))
            .push("/hooks/poststart", hook(&format!("echo late >>{path}/order")))
            .push("/hooks/poststop", hook(&format!("echo poststop >>{path}/order; exit 4")))
            .push("/hooks/poststop", hook(&format!("echo another >>{path}/order")))
            .make();
        c.create().ok();
        let outcome = c.start().fails(&format!("error running {kind} hook #0: exit status 3"));
        let warned = outcome.log().contains("error running poststop hook #0: exit status 4");
        assert!(warned, "{outcome}");
        assert_eq!(read(&dir, "order"), "poststop\nanother\n");
        c.assert_gone(kind);
        c.delete_force().ok();
        fs::remove_dir_all(&dir).expect("remove journal");
    }
}

fn failing_poststop_still_deletes(bed: &Bed) {
    let hooks = bed.bundle().push("/hooks/poststop", hook("exit 0"));
    let c = hooks.push("/hooks/poststop", hook("exit 3")).make().detached();
    let outcome = c.delete_force();
    assert!(!c.exists());
    let warned = outcome.log().contains("error running poststop hook #1: exit status 3");
    assert!(warned, "{outcome}");
}

fn missing_program(bed: &Bed) {
    let c = bed.bundle().push("/hooks/prestart", json!({ "path": "/no/such/hook" })).make();
    c.create().fails("no such file or directory");
    assert!(!c.exists());
}

fn timeout(bed: &Bed) {
    let mut slow = hook("exec sleep 1000");
    slow["timeout"] = json!(1);
    let c = bed.bundle().push("/hooks/createRuntime", slow).make();
    c.create().fails("hook ran past specified timeout of 1");
    assert!(!c.exists());
}

/// When the time is over, the children of the hook are killed, too (runc kills the hook only).
fn timeout_of_a_hook_with_children(bed: &Bed) {
    // These run on the host, where the pid has a meaning for the test.
    for kind in ["prestart", "createRuntime"] {
        let file = bed.dir.join(kind);
        let script = format!("sleep 1000 & echo $! >{}; wait", file.display());
        let mut slow = hook(&script);
        slow["timeout"] = json!(1);
        let c = bed.bundle().push(&format!("/hooks/{kind}"), slow).make();
        c.create().fails("hook ran past specified timeout of 1");
        assert!(!c.exists());
        let pid = fs::read_to_string(&file).expect("read pid");
        let stat = format!("/proc/{}/stat", pid.trim());
        // A zombie is reaped by whoever is the reaper here.
        let has_ended = || match fs::read_to_string(&stat) {
            Ok(text) => text.contains(") Z ").then_some(()),
            Err(_) => Some(()),
        };
        dayfly_tests::wait::until("the end of the hook's child", has_ended);
    }
}

fn program_output_is_not_the_containers(bed: &Bed) {
    let c = bed
        .bundle()
        .push("/hooks/prestart", hook("echo from the hook"))
        .sh("echo from the program")
        .make();
    let outcome = c.run().ok();
    assert_eq!(outcome.stdout, "from the program\n");
}

fn large_state_is_read_by_nobody(bed: &Bed) {
    // A hook that never reads its input must not block the runtime, however long the input is.
    let c = bed
        .bundle()
        .set("/annotations", json!({ "long": "x".repeat(200_000) }))
        .push("/hooks/prestart", json!({ "path": "/bin/true" }))
        .args(&["/bin/true"])
        .make();
    c.run().ok();
}
