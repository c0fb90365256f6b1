//! Seccomp listeners: an agent outside answers the container's system calls.

use dayfly_tests::agent::Agent;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;
use sys::Errno;
use sys::unotify::Answer;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(the_agent_refuses),
    case!(the_agent_lets_pass),
    case!(the_agent_answers_itself),
    case!(message_of_create),
    case!(message_of_run),
    case!(message_of_exec),
    case!(calls_of_the_runtime_itself),
    case!(no_agent),
    case!(no_agent_for_exec),
    case!(agent_gone),
    case!(listener_path_missing),
    case!(listener_path_without_notify),
    case!(calls_that_cannot_ask),
    case!(wait_killable),
    case!(wait_killable_without_listener).unlike_runc(),
    case!(hooks_get_no_descriptor),
    case!(start_container_hooks_ask),
    case!(same_profile_twice),
    case!(in_a_user_namespace),
    case!(killed_while_it_asks),
];

/// Returns a profile in which the calls `names` are answered through `socket`, and everything else is allowed.
pub fn profile(socket: &str, names: &[&str]) -> Value {
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "listenerPath": socket,
        "listenerMetadata": "some \"opaque\" text",
        "syscalls": [{ "names": names, "action": "SCMP_ACT_NOTIFY" }],
    })
}

const MKDIR: [&str; 2] = ["mkdir", "mkdirat"];

/// Returns a bundle whose container's mkdir calls are answered by `agent`.
fn asking<'a>(bed: &'a Bed, agent: &Agent) -> Bundle<'a> {
    bed.bundle().set("/linux/seccomp", profile(agent.path(), &MKDIR))
}

fn refusing(bed: &Bed) -> Agent {
    Agent::new(&bed.dir, |_| Answer::Fail(Errno::NOMEDIUM))
}

fn the_agent_refuses(bed: &Bed) {
    let agent = refusing(bed);
    for no_new_privileges in [true, false] {
        for uid in [0, 1000] {
            let c = asking(bed, &agent)
                .set("/process/noNewPrivileges", json!(no_new_privileges))
                .set("/process/user", json!({ "uid": uid, "gid": uid }))
                .sh("mkdir /tmp/d; touch /tmp/f && echo fine; grep Seccomp: /proc/self/status")
                .make();
            let outcome = c.run().ok();
            assert_eq!(outcome.stdout, "fine\nSeccomp:\t2\n");
            assert!(outcome.stderr.contains("No medium found"), "{outcome}");
        }
    }
}

fn the_agent_lets_pass(bed: &Bed) {
    let agent = Agent::new(&bed.dir, |_| Answer::Continue);
    let outcome = asking(bed, &agent).sh("mkdir /tmp/d && ls /tmp").make().run().ok();
    assert_eq!(outcome.stdout, "d\n");
}

fn the_agent_answers_itself(bed: &Bed) {
    let agent = Agent::new(&bed.dir, |_| Answer::Return(0));
    let outcome = asking(bed, &agent).sh("mkdir /tmp/d && ls /tmp; echo end").make().run().ok();
    assert_eq!(outcome.stdout, "end\n", "nobody made it");
}

fn message_of_create(bed: &Bed) {
    let agent = refusing(bed);
    let c = asking(bed, &agent)
        .set("/annotations", json!({ "org.example.colour": "blue" }))
        .sh("mkdir /tmp/d 2>&1; exit 3")
        .make();
    let created = c.create().ok();
    // The agent gets the container's state before the start.
    let message = agent.message();
    let pid = c.pid();
    let expected = json!({
        "ociVersion": message["ociVersion"],
        "fds": ["seccompFd"],
        "pid": pid,
        "metadata": "some \"opaque\" text",
        "state": {
            "ociVersion": message["ociVersion"],
            "id": c.id,
            "status": "creating",
            "pid": pid,
            "bundle": c.bundle.to_str().expect("path"),
            "annotations": message["state"]["annotations"],
        },
    });
    assert_eq!(message, expected);
    assert_eq!(message["ociVersion"], c.state()["ociVersion"]);
    assert_eq!(message["state"]["annotations"]["org.example.colour"], "blue");
    assert_eq!(c.status(), "created");
    c.start().ok();
    created.wait_output("No medium found");
    c.wait_status("stopped");
    assert!(!agent.has_message(), "one listener, one message");
}

fn message_of_run(bed: &Bed) {
    let agent = refusing(bed);
    let c = asking(bed, &agent).make().detached();
    let message = agent.message();
    assert_eq!(message["state"]["status"], "creating");
    assert_eq!((&message["pid"], &message["state"]["pid"]), (&json!(c.pid()), &json!(c.pid())));
}

fn message_of_exec(bed: &Bed) {
    let agent = refusing(bed);
    let c = asking(bed, &agent).make().detached();
    let first = agent.message();
    let outcome = c.sh("mkdir /tmp/d").exits(1);
    assert!(outcome.stderr.contains("No medium found"), "{outcome}");
    let _ = agent.message();

    let file = bed.dir.join("pid");
    c.exec_with(&["-d", "--pid-file", file.to_str().expect("path")], &["sleep", "1000"]).ok();
    let message = agent.message();
    let pid: i32 = fs::read_to_string(file).expect("pid file").parse().expect("pid");
    assert_eq!(message["pid"], pid);
    assert_eq!(message["state"]["status"], "running");
    assert_eq!(message["state"]["pid"], c.pid());
    assert_eq!(message["metadata"], first["metadata"]);
    for key in ["id", "bundle", "ociVersion"] {
        assert_eq!(message["state"][key], first["state"][key], "{key}");
    }
}

/// The filter may apply to calls that init makes before it executes the program; the agent must have the listener by
/// then.
fn calls_of_the_runtime_itself(bed: &Bed) {
    let names = [
        "execve",
        "execveat",
        "openat",
        "open",
        "read",
        "close",
        "fcntl",
        "accept4",
        "recvfrom",
        "sendto",
        "sendmsg",
        "shutdown",
        "capset",
        "close_range",
    ];
    for no_new_privileges in [true, false] {
        let agent = Agent::new(&bed.dir, |_| Answer::Continue);
        let bundle = || {
            bed.bundle()
                .set("/linux/seccomp", profile(agent.path(), &names))
                .set("/process/noNewPrivileges", json!(no_new_privileges))
        };
        assert_eq!(bundle().sh("echo alive").make().run().ok().stdout, "alive\n");
        let c = bundle().sh("exit 3").make();
        c.create().ok();
        assert_eq!(c.status(), "created");
        c.start().ok();
        c.wait_status("stopped");
        let c = bundle().make().detached();
        assert_eq!(c.sh("echo alive").ok().stdout, "alive\n");
        fs::remove_file(agent.path()).expect("remove socket");
    }
}

fn no_agent(bed: &Bed) {
    let bundle = || bed.bundle().set("/linux/seccomp", profile("/no/such/agent", &MKDIR));
    let c = bundle().make();
    let what = "failed to connect with seccomp agent specified in the seccomp profile";
    let outcome = c.create().fails(what);
    assert!(outcome.stderr.contains("no such file or directory"), "{outcome}");
    assert!(!c.exists());
    c.run().fails(what);
    c.run_with(&["--detach"]).fails(what);
    assert!(!c.exists());
    // Nothing listens on the socket.
    let dead = bed.dir.join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).expect("bind"));
    let c =
        bed.bundle().set("/linux/seccomp", profile(dead.to_str().expect("path"), &MKDIR)).make();
    let outcome = c.create().fails(what);
    assert!(outcome.stderr.contains("connection refused"), "{outcome}");
}

fn no_agent_for_exec(bed: &Bed) {
    let agent = refusing(bed);
    let c = asking(bed, &agent).make().detached();
    fs::remove_file(agent.path()).expect("remove socket");
    c.exec(&["true"]).fails_as(255, "failed to connect with seccomp agent");
    assert_eq!(c.status(), "running");
}

fn agent_gone(bed: &Bed) {
    let agent = Agent::short_lived(&bed.dir);
    let outcome = asking(bed, &agent).sh("sleep 0.1; mkdir /tmp/d").make().run().exits(1);
    assert!(outcome.stderr.contains("Function not implemented"), "{outcome}");
    // While init waits for `start`, it has no copy of the listener either.
    let c = asking(bed, &agent).sh("mkdir /tmp/d 2>&1; exit 3").make();
    let created = c.create().ok();
    let _ = (agent.message(), agent.message());
    c.start().ok();
    created.wait_output("Function not implemented");
}

fn listener_path_missing(bed: &Bed) {
    for path in [json!(""), Value::Null] {
        let c = bed
            .bundle()
            .set("/linux/seccomp", profile("", &MKDIR))
            .set("/linux/seccomp/listenerPath", path)
            .make();
        c.create().fails("seccomp listenerPath is not set");
        assert!(!c.exists());
    }
}

fn listener_path_without_notify(bed: &Bed) {
    let mut filter = profile("/no/such/agent", &MKDIR);
    filter["syscalls"][0]["action"] = json!("SCMP_ACT_ERRNO");
    bed.bundle().set("/linux/seccomp", filter).args(&["/bin/true"]).make().run().ok();
}

fn calls_that_cannot_ask(bed: &Bed) {
    let agent = refusing(bed);
    let filter = profile(agent.path(), &["read", "write"]);
    let c = bed.bundle().set("/linux/seccomp", filter).make();
    c.create().fails("SCMP_ACT_NOTIFY cannot be used for the write syscall");
    let mut filter = profile(agent.path(), &MKDIR);
    filter["defaultAction"] = json!("SCMP_ACT_NOTIFY");
    let c = bed.bundle().set("/linux/seccomp", filter).make();
    c.create().fails("SCMP_ACT_NOTIFY cannot be used as default action");
    assert!(!c.exists() && !agent.has_message());
}

fn wait_killable(bed: &Bed) {
    let agent = refusing(bed);
    let mut filter = profile(agent.path(), &MKDIR);
    filter["flags"] = json!(["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]);
    let c = bed.bundle().set("/linux/seccomp", filter).sh("mkdir /tmp/d").make();
    let outcome = c.run().exits(1);
    assert!(outcome.stderr.contains("No medium found"), "{outcome}");
}

fn wait_killable_without_listener(bed: &Bed) {
    let filter = json!({
        "defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"],
    });
    let c = bed.bundle().set("/linux/seccomp", filter).make();
    c.create().fails("needs a rule with SCMP_ACT_NOTIFY");
}

fn hooks_get_no_descriptor(bed: &Bed) {
    let agent = refusing(bed);
    // 3 is the directory that ls itself opens.
    let hook = json!({
        "path": "/bin/sh",
        "args": ["sh", "-c", "test \"$(ls /proc/self/fd | tr '\\n' ' ')\" = '0 1 2 3 '"],
    });
    let bundle = || asking(bed, &agent).set("/hooks/startContainer", json!([hook])).sh("exit 4");
    bundle().make().run().exits(4);
    let c = bundle().make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
}

/// startContainer hooks run under the filter, as does the program.
fn start_container_hooks_ask(bed: &Bed) {
    let agent = refusing(bed);
    for no_new_privileges in [true, false] {
        let hook = json!({
            "path": "/bin/sh",
            "args": ["sh", "-c", "mkdir /tmp/d 2>/tmp/said; cat /tmp/said >&2; exit 3"],
        });
        let c = asking(bed, &agent)
            .set("/process/noNewPrivileges", json!(no_new_privileges))
            .set("/hooks/startContainer", json!([hook]))
            .make();
        c.run().fails("No medium found");
    }
}

fn same_profile_twice(bed: &Bed) {
    // The second and third containers find the filter in the cache.
    let agent = refusing(bed);
    for _ in 0..3 {
        let outcome = asking(bed, &agent).sh("mkdir /tmp/d").make().run().exits(1);
        assert!(outcome.stderr.contains("No medium found"), "{outcome}");
        assert_eq!(agent.message()["metadata"], "some \"opaque\" text");
    }
}

fn in_a_user_namespace(bed: &Bed) {
    let agent = refusing(bed);
    let c = crate::userns::mapped(bed)
        .set("/linux/seccomp", profile(agent.path(), &MKDIR))
        .make()
        .detached();
    assert_eq!(agent.message()["pid"], c.pid());
    let outcome = c.sh("mkdir /tmp/d").exits(1);
    assert!(outcome.stderr.contains("No medium found"), "{outcome}");
}

/// A container can be removed while it waits for an answer from its agent.
fn killed_while_it_asks(bed: &Bed) {
    let agent = Agent::new(&bed.dir, |_| {
        std::thread::sleep(std::time::Duration::from_secs(3600));
        Answer::Continue
    });
    let c = asking(bed, &agent).sh("echo asking; mkdir /tmp/d").make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("asking");
    c.delete_force().ok();
    assert!(!c.exists());
}
