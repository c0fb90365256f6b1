//! Every failure ends with the same message on standard error and in the JSON log, printed once, with runc's exit
//! status, and leaves nothing behind.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::mounted::Mounted;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::view::View;
use dayfly_tests::{case, cgroups, program};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub mod caller;
pub mod limits;
pub mod matched;
pub mod state;
pub mod words;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(config_that_is_no_json).unlike_runc(),
    case!(config_that_cannot_be_read).unlike_runc(),
    case!(values_that_do_not_exist).unlike_runc(),
    case!(values_out_of_range).unlike_runc(),
    case!(ids_too_long).unlike_runc(),
    case!(root_filesystem).unlike_runc(),
    case!(program).unlike_runc(),
    case!(program_of_exec).unlike_runc(),
    case!(process_file_of_exec).unlike_runc(),
    case!(mounts_that_fail).unlike_runc(),
    case!(paths_too_long).unlike_runc(),
    case!(arguments_too_long).unlike_runc(),
    case!(ten_thousand_variables),
    case!(thousand_mounts),
    case!(sockets_and_files_of_the_caller).unlike_runc(),
    case!(no_permission).unlike_runc(),
    case!(full_disk_elsewhere).unlike_runc(),
    case!(no_room_for_cgroups).on(&[View::V2]).unlike_runc(),
    case!(cgroup_in_use).unlike_runc(),
    case!(frozen_cgroup).unlike_runc(),
];

/// Asserts that `create`, `run` and `run --detach` of the bundle fail with the same message and leave nothing.
#[track_caller]
fn refused(bundle: Bundle<'_>, text: &str) {
    let c = bundle.make();
    for (verb, flags) in [("create", &[][..]), ("run", &[]), ("run", &["--detach"])] {
        let _ = c.bundle_call(verb, flags).run().fails_once(1, text);
        c.assert_gone(text);
    }
}

fn set<'a>(bed: &'a Bed, pointer: &str, value: Value) -> Bundle<'a> {
    bed.bundle().set(pointer, value)
}

fn config_that_is_no_json(bed: &Bed) {
    let c = bed.bundle().make();
    let texts: &[(&[u8], &str)] = &[
        (b"", "at line 1 column 0"),
        (b"{", "at line 1 column 1"),
        (b"{\n  \"process\": {\n    !\n", "process: key must be a string at line 3 column 5"),
        (b"{\"root\":\n{\"path\": tru}}", "root.path: "),
        (b"{\"hostname\": \"a\nb\"}", "control character"),
        (b"{\"hostname\": \"\xff\"}", "hostname: invalid UTF-8 at line 1 column 15"),
        (b"{\"process\": {\"user\": {\"uid\": -1}}}", "process.user.uid: invalid value"),
        (b"{\"process\": 7}", "process: invalid type"),
        (b"null", "at line 1 column 4"),
        (b"{}\n\nmore", "trailing characters at line 3 column 1"),
        (
            b"{\"ociVersion\": \"1.2.0\", \"root\": {\"path\": \"rootfs\"},\n\"linux\": {\"seccomp\": {\"defaultAction\": }}}",
            "linux.seccomp.defaultAction: expected value at line 2 column 40",
        ),
    ];
    for (text, message) in texts {
        fs::write(c.bundle.join("config.json"), text).expect("write config");
        let outcome = c.create().fails_once(1, message);
        let config = c.bundle.join("config.json");
        assert!(outcome.stderr.contains(&*config.to_string_lossy()), "{outcome}");
        assert!(outcome.stderr.contains(" at line "), "{outcome}");
        c.assert_gone(message);
    }
    // The nesting is deeper than a parser should recurse.
    fs::write(c.bundle.join("config.json"), "[".repeat(100_000)).expect("write config");
    let _ = c.run().fails_once(1, "at line 1 column ");
    fs::write(c.bundle.join("config.json"), "{\"annotations\":".repeat(10_000)).expect("write");
    let _ = c.run().fails_once(1, "at line 1 column ");
}

fn config_that_cannot_be_read(bed: &Bed) {
    let c = bed.bundle().make();
    let config = c.bundle.join("config.json");
    fs::remove_file(&config).expect("remove");
    let _ = c.create().fails_once(1, "JSON specification file");
    fs::create_dir(&config).expect("make directory");
    let _ = c.create().fails_once(1, "is a directory");
    fs::remove_dir(&config).expect("remove");
    std::os::unix::fs::symlink("config.json", &config).expect("link");
    let _ = c.create().fails_once(1, "too many levels of symbolic links");
    let _ = c.create_with(&["--config", "/dev/null/x"]).fails_once(1, "not a directory");
    // /dev/zero never ends.
    let _ = c.create_with(&["--config", "/dev/zero"]).fails_once(1, "file too large");
    let _ = bed.call(&["create", "-b", "/no/such", &c.id]).run().fails_once(1, "chdir /no/such");
    c.assert_gone("config");
}

fn values_that_do_not_exist(bed: &Bed) {
    let rlimit = json!([{ "type": "RLIMIT_NOPE", "soft": 1, "hard": 1 }]);
    let device = json!([{ "path": "/dev/x", "type": "q", "major": 1, "minor": 3 }]);
    let rule = json!([{ "allow": true, "type": "q", "access": "rwm" }]);
    let access = json!([{ "allow": true, "type": "c", "access": "z" }]);
    let filter = |action: &str| json!({ "defaultAction": action });
    let call = |action: &str, op: &str| {
        json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{ "names": ["mkdir"], "action": action,
                "args": [{ "index": 0, "value": 1, "op": op }] }] })
    };
    let arch = json!({ "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_NOPE"] });
    for (pointer, value, text) in [
        ("/ociVersion", json!("9.9.9"), "9.9.9"),
        ("/ociVersion", json!("one"), "one"),
        ("/linux/namespaces", json!([{ "type": "net" }]), "namespace \"net\" does not exist"),
        ("/process/rlimits", rlimit, "RLIMIT_NOPE"),
        ("/linux/rootfsPropagation", json!("wild"), "wild"),
        ("/linux/devices", device, "linux.devices[0]"),
        ("/linux/resources/devices", rule, "linux.resources.devices[0]"),
        ("/linux/resources/devices", access, "unknown device access \"z\""),
        ("/linux/seccomp", filter("SCMP_ACT_NOPE"), "SCMP_ACT_NOPE"),
        ("/linux/seccomp", call("SCMP_ACT_NOPE", "SCMP_CMP_EQ"), "SCMP_ACT_NOPE"),
        ("/linux/seccomp", call("SCMP_ACT_ERRNO", "SCMP_CMP_NOPE"), "SCMP_CMP_NOPE"),
        ("/linux/seccomp", arch, "SCMP_ARCH_NOPE"),
        ("/process/scheduler", json!({ "policy": "SCHED_NOPE" }), "SCHED_NOPE"),
        ("/process/ioPriority", json!({ "class": "IOPRIO_CLASS_NOPE" }), "IOPRIO_CLASS_NOPE"),
        ("/linux/personality", json!({ "domain": "NOPE" }), "NOPE"),
        ("/linux/sysctl", json!({ "kernel.nope": "1" }), "kernel.nope"),
        ("/linux/sysctl", json!({ "net.ipv4.nope": "1" }), "no such file or directory"),
        ("/linux/memoryPolicy", json!({ "mode": "MPOL_NOPE" }), "MPOL_NOPE"),
    ] {
        refused(set(bed, pointer, value), text);
    }
    // runc omits unknown capabilities with a warning; dayfly must do so too.
    let caps = json!({ "bounding": ["CAP_NOPE"] });
    let c = set(bed, "/process/capabilities", caps).args(&["/bin/true"]).make();
    let outcome = c.run();
    assert!(outcome.code() == 0 || outcome.stderr.contains("CAP_NOPE"), "{outcome}");
}

fn values_out_of_range(bed: &Bed) {
    let limit = json!([{ "type": "RLIMIT_NOFILE", "soft": 2, "hard": 1 }]);
    for (pointer, value, text) in [
        ("/process/args", json!([]), "args"),
        ("/process/args", json!(["a\0b"]), "process.args"),
        ("/process/env", json!(["A=\0"]), "process.env"),
        ("/process/cwd", json!("relative"), "Cwd must be an absolute path"),
        ("/process/cwd", json!(""), "Cwd property must not be empty"),
        ("/process/user/umask", json!(0o7777), "umask"),
        ("/process/oomScoreAdj", json!(1001), "oom"),
        ("/process/rlimits", limit, "RLIMIT_NOFILE"),
        ("/hostname", json!("x".repeat(65)), "sethostname"),
        ("/domainname", json!("x".repeat(65)), "setdomainname"),
        ("/root/path", json!(""), "root"),
        ("/linux/resources/unified", json!({ "../escape": "1" }), "unified"),
        ("/linux/cgroupsPath", json!("a\0b"), "cgroupsPath"),
    ] {
        refused(set(bed, pointer, value), text);
    }
}

fn ids_too_long(bed: &Bed) {
    let bundle = bed.bundle().make().bundle;
    let id = "x".repeat(300);
    for verb in ["create", "run"] {
        let call = bed.call(&[verb, "--bundle", &bundle.to_string_lossy(), &id]);
        let _ = call.run().fails_once(1, "file name too long");
    }
    for verb in ["state", "start", "delete"] {
        let _ = bed.call(&[verb, &id]).run().fails_once(1, "");
    }
}

fn root_filesystem(bed: &Bed) {
    refused(set(bed, "/root/path", json!("nowhere")), "no such file or directory");
    let missing = bed.bundle().set("/root/path", json!("nowhere"));
    let text = format!("error preparing rootfs {:?}: ", missing.rootfs().with_file_name("nowhere"));
    refused(missing, &text);
    refused(set(bed, "/root/path", json!("config.json")), "not a directory");
    refused(bed.bundle().unset("/root"), "root");
    refused(bed.bundle().unset("/process"), "process");
    let bundle = bed.bundle();
    fs::remove_dir_all(bundle.rootfs()).expect("remove");
    std::os::unix::fs::symlink("rootfs", bundle.rootfs()).expect("link");
    refused(bundle, "invalid rootfs: not a directory, or a symlink");
}

/// Programs that can't be executed, and the text from which engines derive the status 127 or 126.
const PROGRAMS: &[(&str, &str)] = &[
    ("/no/such", "no such file or directory"),
    ("nowhere-on-the-path", "executable file not found in $PATH"),
    ("/etc/passwd", "permission denied"),
    ("/etc", "is a directory"),
    ("/etc/passwd/x", "not a directory"),
    ("/loop", "too many levels of symbolic links"),
    ("/text", "exec /text: exec format error"),
    (
        "/script",
        "exec /script: no such file or directory: its interpreter /no/such/interpreter is not in the container",
    ),
    ("/linked", ": its interpreter /lib64/ld-linux-x86-64.so.2 is not in the container"),
];

fn with_programs(bed: &Bed) -> Bundle<'_> {
    let bundle = bed.bundle();
    for (name, text) in [("text", "no program\n"), ("script", "#!/no/such/interpreter\n")] {
        program::write(&bundle.rootfs().join(name), text);
    }
    fs::copy("/bin/ls", bundle.rootfs().join("linked")).expect("copy");
    std::os::unix::fs::symlink("loop", bundle.rootfs().join("loop")).expect("link");
    bundle
}

fn program(bed: &Bed) {
    for (program, text) in PROGRAMS {
        let c = with_programs(bed).args(&[program]).make();
        let created = c.create();
        let code = if created.code() == 0 { 255 } else { 1 };
        // `start` reports the errors that only execve(2) detects.
        match created.code() {
            0 => {
                let _ = c.start().fails_once(1, text);
                c.delete().ok();
            }
            _ => drop(created.fails_once(1, text)),
        }
        c.assert_gone(program);
        // In the foreground, the status of a program that execve(2) refuses is that of runc's init.
        for (flags, code) in [(&[][..], code), (&["--detach"], 1)] {
            let _ = c.run_with(flags).fails_once(code, text);
            c.assert_gone(program);
        }
    }
    refused(bed.bundle().args(&[""]), "");
    refused(set(bed, "/process/cwd", json!("/etc/passwd")), "not a directory");
    // The container's user can't read the root filesystem.
    let bundle = bed.bundle().set("/process/user", json!({ "uid": 1000, "gid": 1000 }));
    fs::set_permissions(bundle.rootfs(), fs::Permissions::from_mode(0o700)).expect("chmod");
    refused(bundle.unset("/process/capabilities"), "permission denied");
}

fn program_of_exec(bed: &Bed) {
    let c = with_programs(bed).make().detached();
    for (program, text) in PROGRAMS {
        for flags in [&[][..], &["--detach"]] {
            let _ = c.exec_with(flags, &[program]).fails_once(255, text);
        }
    }
    let _ = c.exec_with(&["--cwd", "/no/such"], &["true"]).fails_once(255, "no such file");
    let _ = c.exec_with(&["--user", "nobody-here"], &["true"]).fails_once(255, "nobody-here");
    let _ = c.exec(&[]).fails_once(255, "args");
    assert_eq!(c.status(), "running");
}

fn process_file_of_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let file = bed.dir.join("process.json");
    let path = file.to_str().expect("path");
    let _ = c.exec_with(&["--process", path], &[]).fails_once(255, "no such file or directory");
    let _ = c.exec_with(&["--process", "/dev/zero"], &[]).fails_once(255, "file too large");
    for (text, message) in [
        ("{\"args\": [1]}", "args[0]: invalid type"),
        ("{\n\"args\": [", "at line 2 column "),
        ("{}", ""),
        ("{\"args\": [\"true\"], \"cwd\": \"relative\"}", "Cwd must be an absolute path"),
    ] {
        fs::write(&file, text).expect("write");
        let _ = c.exec_with(&["--process", path], &[]).fails_once(255, message);
    }
    assert_eq!(c.status(), "running");
}

fn mounts_that_fail(bed: &Bed) {
    let mount = |kind: &str, source: &str, target: &str, options: &[&str]| {
        bed.bundle().mount(kind, source, target, options)
    };
    refused(mount("nopefs", "none", "/mnt", &[]), "no such device");
    refused(mount("tmpfs", "none", "/mnt", &["nope=1"]), "invalid argument");
    refused(mount("tmpfs", "none", "/mnt", &["size=lots"]), "invalid argument");
    refused(mount("bind", "/no/such", "/mnt", &["bind"]), "no such file or directory");
    refused(mount("bind", "/etc", "/etc/passwd", &["bind"]), "/etc/passwd");
    refused(mount("bind", "/etc/passwd", "/etc", &["bind"]), "/etc");
    refused(mount("bind", "/etc", "/etc/passwd/x", &["bind"]), "not a directory");
    refused(mount("overlay", "none", "/mnt", &["lowerdir=/no/such:/nor/such"]), "/mnt");
    refused(mount("tmpfs", "none", "", &[]), "destination");
    // The error names source and destination, as runc's does, whichever system call the kernel refuses.
    for (source, target, options) in [
        ("/no/such", "/mnt", &["bind"][..]),
        ("/etc", "/etc/passwd", &["bind"]),
        ("/etc/passwd", "/etc", &["rbind", "ro"]),
        ("/etc", "/etc/passwd/x", &["bind"]),
    ] {
        let text = format!("error mounting {source:?} to rootfs at {target:?}: ");
        refused(mount("bind", source, target, options), &text);
    }
    let text = "error mounting \"none\" to rootfs at \"/mnt\": mount tmpfs on /mnt";
    refused(mount("tmpfs", "none", "/mnt", &["nope=1"]), text);
}

fn paths_too_long(bed: &Bed) {
    let long = format!("/{}", "x".repeat(300));
    let longer = format!("/{}", "directory/".repeat(500));
    // The kernel limits the length of names in cgroup file systems.
    refused(set(bed, "/linux/cgroupsPath", json!(longer)), "file name too long");
    for path in [&long, &longer] {
        refused(set(bed, "/root/path", json!(path)), "file name too long");
        refused(bed.bundle().mount("tmpfs", "none", path, &[]), "file name too long");
        refused(bed.bundle().mount("bind", path, "/mnt", &["bind"]), "file name too long");
        refused(bed.bundle().args(&[path]), "file name too long");
        refused(set(bed, "/process/cwd", json!(path)), "file name too long");
        refused(bed.bundle().join_namespace("ipc", path), "file name too long");
        let c = bed.bundle().make();
        let text = "file name too long";
        let _ = bed.call(&["create", "--bundle", path, &c.id]).run().fails_once(1, text);
        let _ = c.create_with(&["--config", path]).fails_once(1, text);
        let _ = c.create_with(&["--pid-file", path]).fails_once(1, text);
        let _ = c.create_with(&["--pidfd-socket", path]).fails_once(1, "");
        c.assert_gone(path);
        let root = bed.call_bare(&["--root", path, "list"]).run().exits(1);
        assert!(root.stderr.contains(text), "{root}");
    }
}

fn arguments_too_long(bed: &Bed) {
    // First, one argument is longer than the kernel's MAX_ARG_STRLEN; then there are too many arguments.
    let one = "x".repeat(128 * 1024);
    let many = vec!["x".repeat(1000); 10_000];
    for args in [json!(["/bin/true", one]), json!([vec!["/bin/true".to_owned()], many].concat())] {
        let c = set(bed, "/process/args", args.clone()).make();
        c.create().ok();
        let _ = c.start().fails_once(1, "argument list too long");
        c.delete().ok();
        let _ = c.run().fails_once(255, "argument list too long");
        c.assert_gone("arguments");
    }
    let c = bed.bundle().make().detached();
    let _ = c.exec(&["echo", &"x".repeat(128 * 1024 - 1)]).ok();
    // MAX_ARG_STRLEN applies to environment variables, too.
    let env = json!([format!("A={}", "x".repeat(128 * 1024))]);
    let _ = set(bed, "/process/env", env).make().run().fails_once(255, "argument list too long");
}

fn ten_thousand_variables(bed: &Bed) {
    let env: Vec<String> =
        (0..10_000).map(|number| format!("VARIABLE_{number}={number}")).collect();
    let c = set(bed, "/process/env", json!(env))
        .sh("/bin/busybox env | /bin/busybox grep -c ^VARIABLE_; echo $VARIABLE_9999")
        .make();
    assert_eq!(c.run().ok().stdout, "10000\n9999\n");
    let c = set(bed, "/process/env", json!(env)).make().detached();
    assert_eq!(c.sh("echo $VARIABLE_9999").ok().stdout, "9999\n");
    c.delete_force().ok();
    c.assert_gone("variables");
}

fn thousand_mounts(bed: &Bed) {
    let mut bundle = bed.bundle();
    let source = bed.dir.join("source");
    fs::create_dir(&source).expect("make");
    let source = source.to_str().expect("path").to_owned();
    for number in 0..1000 {
        bundle = match number % 2 {
            0 => bundle.mount("bind", &source, &format!("/mnt/{number}"), &["bind", "ro"]),
            _ => bundle.mount("tmpfs", "tmpfs", &format!("/mnt/{number}"), &["nosuid", "size=4k"]),
        };
    }
    let c = bundle.sh("grep -c ' /mnt/' /proc/self/mountinfo").make();
    assert_eq!(c.run().ok().stdout, "1000\n");
    c.create().ok();
    c.delete().ok();
    c.assert_gone("mounts");
}

fn sockets_and_files_of_the_caller(bed: &Bed) {
    let c = bed.bundle().make();
    let fails = |flags: &[&str], text: &str| {
        let _ = c.create_with(flags).fails_once(1, text);
        c.assert_gone(text);
        let _ = c.bundle_call("run", &[&["--detach"], flags].concat()).run().fails_once(1, text);
        c.assert_gone(text);
    };
    fails(&["--pid-file", "/no/such/pid"], "no such file or directory");
    fails(&["--pid-file", "/etc"], "/etc");
    fails(&["--pidfd-socket", "/no/such/socket"], "no such file or directory");
    fails(&["--pidfd-socket", "/etc/passwd"], "connection refused");
    fails(&["--console-socket", "/no/such/socket"], "");
    fails(&["--preserve-fds", "3"], "preserved-fd");
    let c = set(bed, "/process/terminal", json!(true)).make();
    let _ = c.create().fails_once(1, "");
    let _ = c.create_with(&["--console-socket", "/no/such"]).fails_once(1, "no such file");
    let _ = c.create_with(&["--console-socket", "/etc/passwd"]).fails_once(1, "/etc/passwd");
    c.assert_gone("console");
}

fn no_permission(bed: &Bed) {
    // The command runs as a user that has neither a state root nor a cgroup of its own.
    let c = bed.bundle().make();
    fs::set_permissions(&bed.dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    let runtime = bed.dir.join("runtime");
    program::copy(bed.runtime(), &runtime);
    let as_user = |root: &Path, verb: &str| -> Outcome {
        let bundle = c.bundle.to_string_lossy();
        let (root, runtime) = (root.to_string_lossy(), runtime.to_string_lossy());
        let log = bed.dir.join("user.log");
        let _ = fs::remove_file(&log);
        fs::write(&log, "").expect("write");
        fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).expect("chmod");
        let user = ["--reuid=4711", "--regid=4711", "--clear-groups", &runtime, "--root", &root];
        let logged = ["--log", log.to_str().expect("path"), "--log-format", "json"];
        let verb = match verb {
            "create" => vec!["create", "--bundle", &*bundle, &*c.id],
            verb => vec![verb, &*c.id],
        };
        let outcome = bed.program("setpriv", &[&user[..], &logged, &verb].concat()).run();
        outcome.with_log(&log)
    };
    let closed = bed.dir.join("closed");
    fs::create_dir(&closed).expect("make");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("chmod");
    for verb in ["create", "state", "delete", "start"] {
        let _ = as_user(&closed, verb).fails_once(1, "permission denied");
        let _ = as_user(&closed.join("below"), verb).fails_once(1, "permission denied");
    }
    let open = bed.dir.join("open");
    fs::create_dir(&open).expect("make");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("chmod");
    let _ = as_user(&open, "create").fails_once(1, "");
    assert!(fs::read_dir(&open).expect("read").next().is_none());
    c.assert_gone("user");
}

fn full_disk_elsewhere(bed: &Bed) {
    let full = Mounted::tmpfs(&bed.dir.join("full"), "size=16k");
    full.fill();
    let path = |name: &str| full.path().join(name).to_string_lossy().into_owned();
    let c = bed.bundle().make();
    let _ = c.create_with(&["--pid-file", &path("pid")]).fails_once(1, "no space left on device");
    assert!(!full.path().join("pid").exists());
    c.assert_gone("pid file");
    // There is no space for mount points, or for copies.
    drop(full);
    let bundle = bed.bundle();
    fs::rename(bundle.rootfs(), bundle.dir.join("kept")).expect("rename");
    let small = Mounted::tmpfs(&bundle.rootfs(), "nr_inodes=2");
    let c = bundle.make();
    for verb in ["create", "run"] {
        let _ = c.bundle_call(verb, &[]).run().fails_once(1, "no space left on device");
    }
    drop(small);
    c.assert_gone("full root");
    let bundle = bed.bundle();
    fs::write(bundle.rootfs().join("mnt/large"), vec![b'x'; 100_000]).expect("write");
    let options = ["tmpcopyup", "size=4k"];
    refused(bundle.mount("tmpfs", "tmpfs", "/mnt", &options), "no space left on device");
}

fn no_room_for_cgroups(bed: &Bed) {
    let id = bed.id();
    let parent = cgroups::dir(bed.view, "", &cgroups::path_of(&id));
    fs::create_dir_all(&parent).expect("make");
    fs::write(parent.join("cgroup.max.descendants"), "0").expect("limit");
    let path = format!("{}/below", cgroups::path_of(&id));
    refused(set(bed, "/linux/cgroupsPath", json!(path)), "resource temporarily unavailable");
    fs::remove_dir(&parent).expect("remove");
}

fn cgroup_in_use(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let path = cgroups::path_of(&first.id);
    refused(
        set(bed, "/linux/cgroupsPath", json!(path)),
        "container's cgroup is not empty: 1 process",
    );
    assert_eq!(first.status(), "running");
}

fn frozen_cgroup(bed: &Bed) {
    let id = bed.id();
    let dir = cgroups::dir(bed.view, "freezer", &cgroups::path_of(&id));
    fs::create_dir_all(&dir).expect("make");
    let (file, word) = match bed.view {
        View::V2 => ("cgroup.freeze", "1"),
        View::V1 | View::Hybrid => ("freezer.state", "FROZEN"),
    };
    fs::write(dir.join(file), word).expect("freeze");
    let bundle = set(bed, "/linux/cgroupsPath", json!(cgroups::path_of(&id)));
    refused(bundle, "container's cgroup unexpectedly frozen");
    fs::remove_dir(&dir).expect("remove");
}
