//! Templates: programs of containers that a warmed-up program has forked.

pub mod disk;
pub mod hostile;
pub mod life;
pub mod ruby;

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::kernel::version;
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use serde_json::{Value, json};
use std::fs;

use crate::userns::mapped;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(as_if_executed).needs(lacking).unlike_runc(),
    case!(as_an_ordinary_user).needs(lacking).unlike_runc(),
    case!(under_a_filter).needs(lacking).unlike_runc(),
    case!(with_limits).needs(lacking).unlike_runc(),
    case!(forked_into_the_cgroup).needs(lacking).unlike_runc(),
    case!(arguments_of_the_command_line).needs(lacking).unlike_runc(),
    case!(by_annotation).needs(lacking).unlike_runc(),
    case!(without_a_template).needs(lacking).unlike_runc(),
    case!(executed_where_it_does_not_suit).needs(lacking).unlike_runc(),
    case!(configurations_of_no_template).needs(lacking).unlike_runc(),
    case!(a_program_that_does_not_wait).needs(lacking).unlike_runc(),
];

/// The library under test.
const LIBRARY: &str = include_str!("../../lib/template/dayfly_template.py");

/// A program that warms up, and then executes its first argument as Python.
pub const PROGRAM: &str = "\
import os, signal, sys, time
warm = 'warm'
import dayfly_template
dayfly_template.wait()
exec(sys.argv[1])
";

/// Returns why templates cannot be tested here.
///
/// # Errors
/// The reason.
pub fn lacking() -> Result<(), String> {
    lacking_for("python3")
}

/// Returns why templates cannot be tested with this interpreter, whose package has the same name.
fn lacking_for(interpreter: &str) -> Result<(), String> {
    if version() < (6, 15) {
        return Err("the status of a forked program needs Linux 6.15".to_owned());
    }
    program::installed(interpreter)
}

/// Returns a bundle that runs `program` with the host's Python.
pub fn bundle<'a>(bed: &'a Bed, program: &str) -> Bundle<'a> {
    let files = [("app.py", program), ("dayfly_template.py", LIBRARY)];
    with_host_files(bed, files).args(&["/usr/bin/python3", "-B", "/app.py"])
}

/// Returns a bundle that has the host's programs and libraries, and these files.
fn with_host_files<'a>(bed: &'a Bed, files: [(&str, &str); 2]) -> Bundle<'a> {
    let bundle = mapped(bed);
    for (name, text) in files {
        fs::write(bundle.rootfs().join(name), text).expect("write file");
    }
    bundle
        .host_programs()
        .set("/process/env", json!(["PATH=/usr/bin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]))
}

/// Makes a template from a bundle, and returns its container.
pub fn template(bundle: Bundle<'_>) -> Container<'_> {
    let c = bundle.make();
    create(&c, &[]).ok();
    c
}

/// Runs `template create`.
pub fn create(c: &Container<'_>, flags: &[&str]) -> Outcome {
    let bundle = c.bundle.to_string_lossy();
    let args = [&["template", "create", "--bundle", &bundle], flags, &[c.id.as_str()]].concat();
    c.bed.call(&args).run()
}

/// Returns the call that runs Python code in a container forked by a template, and the container's id.
pub fn call(template: &Container<'_>, flags: &[&str], code: &str) -> (Call, String) {
    let id = template.bed.id();
    let head = ["run", "--template", &template.id, "--name", &id];
    (template.bed.call(&[&head[..], flags, &[code]].concat()), id)
}

/// Runs Python code in a container forked by a template.
pub fn fork(template: &Container<'_>, code: &str) -> Outcome {
    call(template, &[], code).0.run()
}

/// Returns a container with a bundle of its own, whose configuration is that of the template after `change`.
pub fn other<'a>(template: &Container<'a>, change: impl FnOnce(&mut Value)) -> Container<'a> {
    let text = fs::read(template.bundle.join("config.json")).expect("read config.json");
    let mut config: Value = serde_json::from_slice(&text).expect("parse config.json");
    change(&mut config);
    let mut bundle = template.bed.bundle();
    config["root"]["path"] = json!(template.bundle.join("rootfs"));
    // Only the template's own bundle has this path.
    if config["linux"]["cgroupsPath"] == json!(dayfly_tests::cgroups::path_of(&template.id)) {
        config["linux"].as_object_mut().expect("linux").remove("cgroupsPath");
    }
    bundle.config = config;
    bundle.make()
}

/// Prints everything in which a forked program could differ from an executed one.
const SELF: &str = "\
print(sys.argv[2:], dict(os.environ), os.getcwd(), os.getuid(), os.getgid(), os.getgroups(), warm)
for line in open('/proc/self/status'):
    if line.split(':')[0] in ('Umask', 'Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', \
        'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'SigBlk', 'SigIgn', 'SigCgt', 'Cpus_allowed', \
        'Mems_allowed', 'Threads'): print(line.strip())
print(open('/proc/self/limits').read())
print(open('/proc/self/oom_score_adj').read(), os.getpriority(os.PRIO_PROCESS, 0))
print(sorted(os.listdir('/proc/self/fd'))[:-1], os.uname().nodename, sorted(os.listdir('/proc/sys/net')))
print([line.split()[4] for line in open('/proc/self/mountinfo')])
print(open('/proc/self/cgroup').read().count('/../'), os.getsid(0) == os.getpgrp())
import threading
print(threading.main_thread().native_id == threading.get_native_id(), threading.active_count())
";

/// Verifies that a forked program prints the same as an executed one.
#[track_caller]
fn same(template: &Container<'_>, change: impl FnOnce(&mut Value) + Copy) {
    same_by(&["/usr/bin/python3", "-B", "/app.py", SELF], template, change);
}

/// The same for the program `program`, which gets two more arguments.
#[track_caller]
fn same_by(program: &[&str], template: &Container<'_>, change: impl FnOnce(&mut Value) + Copy) {
    let args = |config: &mut Value| {
        change(config);
        config["process"]["args"] = json!([program, &["an argument", "ü"]].concat());
    };
    let executed = other(template, args).run().ok();
    let forked = other(template, args).run_with(&["--template", &template.id]);
    assert_eq!(forked.ok().stdout, executed.stdout);
}

fn as_if_executed(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    same(&template, |_| {});
    same(&template, |config| {
        config["process"]["cwd"] = json!("/tmp");
        config["process"]["user"]["umask"] = json!(0o077);
        config["process"]["noNewPrivileges"] = json!(true);
        config["process"]["env"].as_array_mut().expect("env").push(json!("ONE=with = and ü"));
        config["hostname"] = json!("other");
    });
}

fn as_an_ordinary_user(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    same(&template, |config| {
        config["process"]["user"] =
            json!({ "uid": 1000, "gid": 1000, "additionalGids": [2000, 3000] });
    });
    same(&template, |config| {
        config["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
        let kill = json!(["CAP_KILL", "CAP_NET_RAW"]);
        config["process"]["capabilities"] = json!({ "bounding": kill, "effective": ["CAP_KILL"],
            "permitted": kill, "inheritable": kill, "ambient": ["CAP_NET_RAW"] });
    });
}

/// The filter forbids what the library needs before it, and what it does not need after it.
fn under_a_filter(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    for no_new_privileges in [true, false] {
        same(&template, |config| {
            config["process"]["noNewPrivileges"] = json!(no_new_privileges);
            config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW",
                "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
                "syscalls": [{ "names": ["setns", "unshare", "mount", "setresuid", "prctl", "chdir", "dup2"],
                    "action": "SCMP_ACT_ERRNO", "errnoRet": 38 }] });
        });
    }
    let filtered = other(&template, |config| {
        config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{ "names": ["getppid"], "action": "SCMP_ACT_KILL_PROCESS" }] });
        config["process"]["args"] = json!(["/usr/bin/python3", "-B", "/app.py", "os.getppid()"]);
    });
    filtered.run_with(&["--template", &template.id]).exits(128 + 31);
}

fn with_limits(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    same(&template, |config| {
        config["process"]["oomScoreAdj"] = json!(500);
        config["process"]["rlimits"] = json!([
            { "type": "RLIMIT_NOFILE", "hard": 64, "soft": 32 },
            { "type": "RLIMIT_CORE", "hard": 0, "soft": 0 },
            { "type": "RLIMIT_FSIZE", "hard": 1 << 30, "soft": 1 << 20 },
        ]);
    });
}

/// A program forked into its cgroup never waits for the kernel's lock of moves. A program in a cgroup elsewhere moves
/// there.
fn forked_into_the_cgroup(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let show = "print(open('/proc/1/cgroup').read() == open('/proc/self/cgroup').read(), flush=True); time.sleep(100)";
    for path in [None, Some(dayfly_tests::cgroups::path_of("elsewhere"))] {
        in_the_cgroup_of_init(
            &template,
            &["/usr/bin/python3", "-B", "/app.py", show],
            "True",
            path,
        );
    }
}

/// Verifies that a forked program is in the cgroup of init: at `path`, or by default beside that of its template.
/// `program` prints `output` if it sees the same, and does not end.
#[track_caller]
fn in_the_cgroup_of_init(
    template: &Container<'_>,
    program: &[&str],
    output: &str,
    path: Option<String>,
) {
    let is_beside = path.is_none();
    let c = other(template, |config| {
        config["linux"]["cgroupsPath"] = json!(path.unwrap_or_default());
        config["process"]["args"] = json!(program);
    });
    c.run_with(&["--detach", "--template", &template.id]).ok().wait_output(output);
    let init = fs::read_to_string(format!("/proc/{}/cgroup", c.pid())).expect("cgroup");
    let program = children(c.pid());
    let [program] = program[..] else { panic!("{program:?}") };
    let forked = fs::read_to_string(format!("/proc/{program}/cgroup")).expect("cgroup");
    assert_eq!(forked, init);
    let beside = format!("/{}.template/{}", template.id, c.id);
    assert_eq!(init.contains(&beside), is_beside, "{init}");
    c.delete_force().ok();
}

/// Returns the processes of a PID namespace besides its first process.
pub fn children(first: i32) -> Vec<i32> {
    let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let own = namespace(first);
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != first && own.is_some() && namespace(*pid) == own).collect()
}

fn arguments_of_the_command_line(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let (run, id) = call(&template, &[], "print(sys.argv[2:], warm, os.getpid() != 1)");
    assert_eq!(run.run().ok().stdout, "[] warm True\n");
    assert!(!bed.root().join(id).exists());
    let id = bed.id();
    let words =
        ["run", "--template", &template.id, "--name", &id, "print(sys.argv[2:])", "--name", "-x"];
    assert_eq!(bed.call(&words).run().ok().stdout, "['--name', '-x']\n");
    let unnamed = bed.call(&["run", "--template", &template.id, "print(1)"]).run();
    assert_eq!(unnamed.ok().stdout, "1\n");
    // A trace has the id of the container in its name, and not the first argument of the program.
    let traces = bed.dir.join("traces");
    fs::create_dir(&traces).expect("mkdir");
    let pattern = traces.join("%i.jsonl");
    let pattern = pattern.to_str().expect("path");
    let traced = ["run", "--trace", pattern, "--template", &template.id, "--name", &id, "print(1)"];
    bed.call(&traced).run().ok();
    let names = fs::read_dir(&traces).expect("traces").flatten().map(|entry| entry.file_name());
    assert_eq!(names.collect::<Vec<_>>(), [format!("{id}.jsonl").as_str()]);
}

/// An annotation counts only for containers that the template is for: users who can set the one may not be able to set
/// the other.
fn by_annotation(bed: &Bed) {
    let template = bundle(bed, PROGRAM).make();
    create(&template, &["--for", "tenant=one"]).ok();
    for (tenant, output) in [("two", "1\n"), ("one", "2\n")] {
        let c = other(&template, |config| {
            config["annotations"] = json!({ "run.dayfly.template": template.id, "tenant": tenant });
            config["process"]["args"] =
                json!(["/usr/bin/python3", "-B", "/app.py", "print(os.getpid())"]);
        });
        let outcome = c.run().ok();
        assert_eq!(outcome.stdout, output, "{outcome}");
        assert_eq!(outcome.log().contains("is not for this container"), tenant == "two");
    }
    let c = other(&template, |config| {
        config["annotations"] = json!({ "run.dayfly.template": template.id, "tenant": "one" });
        config["process"]["args"] =
            json!(["/usr/bin/python3", "-B", "/app.py", "print(os.getpid()); time.sleep(100)"]);
    });
    c.create().ok();
    assert_eq!(c.status(), "created");
    assert_eq!(c.state()["annotations"]["run.dayfly.template"], json!(template.id));
    c.start().ok();
    assert_eq!(c.status(), "running");
}

/// The same program works without a template.
fn without_a_template(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = other(&template, |config| {
        config["process"]["args"] =
            json!(["/usr/bin/python3", "-B", "/app.py", "print(os.getpid())"]);
    });
    assert_eq!(c.run().ok().stdout, "1\n");
    let gone = c.run_with(&["--template", "absent"]).ok();
    assert_eq!(gone.stdout, "1\n");
    let warning = "template absent does not exist: the program is executed instead";
    assert!(gone.log().contains(warning), "{gone}");
    let container = other(&template, |_| {}).detached();
    let wrong = c.run_with(&["--template", &container.id]).ok();
    assert!(wrong.log().contains("is a container, but no template"), "{wrong}");
}

fn executed_where_it_does_not_suit(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let code = json!(["/usr/bin/python3", "-B", "/app.py", "print(os.getpid())"]);
    type Change = fn(&mut Value);
    let unsuitable: [(&str, Change); 8] = [
        ("maps other ids than this container", |config| {
            config["linux"]["gidMappings"][0]["size"] = json!(65_535);
        }),
        ("cannot fork a program with an I/O priority", |config| {
            config["process"]["ioPriority"] =
                json!({ "class": "IOPRIO_CLASS_IDLE", "priority": 0 });
        }),
        ("needs a new user namespace for each container", |config| {
            let namespaces = config["linux"]["namespaces"].as_array_mut().expect("namespaces");
            namespaces.retain(|namespace| namespace["type"] != "user");
            config["linux"]["uidMappings"] = json!([]);
            config["linux"]["gidMappings"] = json!([]);
        }),
        ("cannot fork a program with hooks inside the container", |config| {
            config["hooks"]["startContainer"] = json!([{ "path": "/bin/true" }]);
        }),
        ("cannot fork a program with CAP_SYS_ADMIN", |config| {
            config["process"]["capabilities"]["bounding"] = json!(["CAP_SYS_ADMIN"]);
        }),
        ("cannot fork a program with CAP_SYS_ADMIN", |config| {
            config["process"].as_object_mut().expect("process").remove("capabilities");
        }),
        ("whose seccomp filter has a listener", |config| {
            config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW",
                "listenerPath": "/nowhere",
                "syscalls": [{ "names": ["getppid"], "action": "SCMP_ACT_NOTIFY" }] });
        }),
        // The library refuses: only its own program is warm.
        ("refused: the program is /usr/bin/python3 -B /bin/none.py", |config| {
            config["process"]["args"] = json!(["/usr/bin/python3", "-B", "/bin/none.py"]);
        }),
    ];
    for (reason, change) in unsuitable {
        let c = other(&template, |config| {
            config["process"]["args"] = code.clone();
            change(config);
        });
        let outcome = c.run_with(&["--template", &template.id]);
        assert!(outcome.log().contains(reason), "{reason}: {outcome}");
        if outcome.code() == 0 {
            assert_eq!(outcome.stdout, "1\n", "{outcome}");
        }
    }
    let c = other(&template, |config| config["process"]["args"] = code.clone());
    let outcome = c.run_with(&["--preserve-fds", "1", "--template", &template.id]);
    assert!(outcome.log().contains("with descriptors of the caller"), "{outcome}");
}

fn configurations_of_no_template(bed: &Bed) {
    type Change = fn(Bundle<'_>) -> Bundle<'_>;
    let refused: [(&str, Change); 6] = [
        ("do not include the host's root", |bundle| {
            bundle.set("/linux/gidMappings", json!([{ "containerID": 0, "hostID": 0, "size": 1 }]))
        }),
        ("a template has neither an AppArmor profile", |bundle| {
            bundle.set("/process/apparmorProfile", json!("unconfined"))
        }),
        ("a template needs a new user namespace", |bundle| {
            let bundle = bundle.without_namespace("user");
            bundle.unset("/linux/uidMappings").unset("/linux/gidMappings")
        }),
        ("a template needs a new pid namespace", |bundle| bundle.without_namespace("pid")),
        ("a template has no terminal", |bundle| bundle.set("/process/terminal", json!(true))),
        ("executable file not found", |bundle| bundle.args(&["none"])),
    ];
    for (reason, change) in refused {
        let c = change(bundle(bed, PROGRAM)).make();
        create(&c, &[]).fails(reason);
        c.assert_gone(reason);
    }
    let c = bundle(bed, PROGRAM).make();
    bed.call(&["template", "rm", &c.id]).run().fails("template does not exist");
    bed.call(&["template", "make", &c.id]).run().fails("unknown action \"make\"");
}

fn a_program_that_does_not_wait(bed: &Bed) {
    let ended = bundle(bed, "import sys; sys.exit(3)").make();
    create(&ended, &[]).fails("ended before it waited for requests");
    ended.assert_gone("a program that has ended");
    let silent = bundle(bed, "import time; time.sleep(100)").make();
    create(&silent, &["--ready-within", "300ms"]).fails("did not wait for requests within");
    silent.assert_gone("a program that does not wait");
    let threads = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n\
        import dayfly_template\ndayfly_template.wait()";
    let threaded = bundle(bed, threads).make();
    create(&threaded, &[]).fails("ended before it waited for requests");
}
