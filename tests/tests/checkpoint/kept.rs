//! The state of a container that a restore preserves.

use super::{COUNTER, Saved, WRITER, places};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::console::FdSocket;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::{program, wait};
use rustix::fd::AsFd;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(filters).needs(criu::lacking).unlike_runc(),
    case!(masks).needs(criu::lacking).unlike_runc(),
    case!(rights_and_limits).needs(criu::lacking).unlike_runc(),
    case!(rights_of_another_user)
        .needs(|| criu::lacking().and_then(|()| may_use_resources()))
        .unlike_runc(),
    case!(bind_mounts).needs(criu::lacking).unlike_runc(),
    case!(joined_namespaces).needs(criu::lacking).unlike_runc(),
    case!(terminals).needs(criu::lacking).unlike_runc(),
    case!(hooks).needs(criu::lacking).unlike_runc(),
    case!(locks_of_files).needs(perl).unlike_runc(),
    case!(connections).needs(perl).unlike_runc(),
    case!(connections_of_a_copy_are_closed).needs(perl).unlike_runc(),
    case!(network_is_locked_for_connections_only).needs(criu::lacking).unlike_runc(),
    case!(sockets_that_lead_outside).needs(perl).unlike_runc(),
    case!(read_only_root).needs(criu::lacking).unlike_runc(),
];

fn filters(bed: &Bed) {
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95 }],
    });
    let saved = Saved::running(bed.bundle().set("/linux/seccomp", profile).sh(COUNTER));
    saved.counts();
    saved.cycle();
    saved.counts();
    for process in ["1", "self"] {
        let status = saved.c.sh(&format!("grep Seccomp: /proc/{process}/status")).ok().stdout;
        assert_eq!(status.trim(), "Seccomp:\t2", "{process}");
    }
    let refused = saved.c.sh("mkdir /made");
    assert!(refused.stderr.contains("not supported"), "{refused}");
}

/// The program that is saved and restored checks the masked files itself. A mask of a file accepts what is written to it,
/// /proc/keys does not.
pub(super) fn masks(bed: &Bed) {
    let script = "exec </dev/null >/dev/null 2>&1; while :; do { \
                  cat /proc/keys /proc/kcore | wc -c; echo x >/proc/keys && echo written; \
                  ls /proc/acpi /sys/firmware | grep -vc :; \
                  echo 1 >/proc/sys/kernel/pid_max || echo read-only; } >/seen.new 2>/dev/null; \
                  mv /seen.new /seen; usleep 20000; done";
    let bundle = bed
        .bundle()
        .set(
            "/linux/maskedPaths",
            json!(["/proc/keys", "/proc/kcore", "/proc/acpi", "/sys/firmware"]),
        )
        .set("/linux/readonlyPaths", json!(["/proc/sys", "/proc/bus"]))
        .sh(script);
    let saved = Saved::running(bundle);
    let file = saved.c.bundle.join("rootfs/seen");
    let seen = || {
        let _ = fs::remove_file(&file);
        wait::until("it to look", || fs::read_to_string(&file).ok())
    };
    let before = seen();
    let mounts = saved.c.sh("cat /proc/1/mountinfo").ok().stdout;
    saved.cycle();
    assert_eq!(seen(), before);
    assert_eq!(before, "0\nwritten\n1\nread-only\n");
    let after = saved.c.sh("cat /proc/1/mountinfo").ok().stdout;
    assert_eq!(places(&after), places(&mounts));
    // The mask is a separate mount, through which the file can't be changed.
    saved.c.sh("chmod 600 /proc/keys").exits(1);
    let mode = fs::metadata("/dev/null").map(|stat| std::os::unix::fs::MetadataExt::mode(&stat));
    assert_eq!(mode.expect("stat") & 0o777, 0o666);
}

fn rights_and_limits(bed: &Bed) {
    kept_rights(bed, json!({ "uid": 0, "gid": 0, "additionalGids": [1002] }));
}

fn rights_of_another_user(bed: &Bed) {
    kept_rights(bed, json!({ "uid": 1000, "gid": 1001, "additionalGids": [1002] }));
}

/// Checks for CAP_SYS_RESOURCE. criu needs this capability to read the limits of another user's process with
/// prlimit(2). criu's server of lazy pages needs it to make a pipe larger than the limit for unprivileged users.
pub(super) fn may_use_resources() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|held| u64::from_str_radix(held.trim(), 16).ok()).unwrap_or(0);
    match held & 1 << 24 {
        0 => Err("criu needs CAP_SYS_RESOURCE for this".to_owned()),
        _ => Ok(()),
    }
}

fn kept_rights(bed: &Bed, user: Value) {
    let script = format!("ulimit -n 512; umask 027; {COUNTER}");
    let mut bundle = bed.bundle();
    // cgroup v2 may lack the controller.
    if bed.view.has_v1() {
        bundle = bundle.set("/linux/resources/pids", json!({ "limit": 77 }));
    }
    let bundle = bundle
        .set("/process/user", user)
        .set("/process/noNewPrivileges", json!(true))
        .set("/process/oomScoreAdj", json!(321))
        .sh(&script);
    fs::set_permissions(bundle.rootfs(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("chmod");
    let saved = Saved::running(bundle);
    saved.counts();
    let look = || {
        let pid = saved.c.pid();
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).expect("read");
        let wanted = ["Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Umask:"];
        let status = read("status");
        let lines = status.lines().filter(|line| wanted.iter().any(|word| line.starts_with(word)));
        let mut seen: Vec<String> = lines.map(str::to_owned).collect();
        seen.push(read("oom_score_adj"));
        seen.push(read("limits"));
        if bed.view.has_v1() {
            seen.push(saved.c.cgroup_read("pids", "pids.max"));
        }
        seen
    };
    let before = look();
    saved.cycle();
    saved.counts();
    assert_eq!(look(), before);
    assert!(!bed.view.has_v1() || before.contains(&"77".to_owned()), "{before:?}");
}

pub(super) fn bind_mounts(bed: &Bed) {
    let make = |name: &str| {
        let dir = bed.dir.join(name);
        fs::create_dir(&dir).expect("mkdir");
        dir
    };
    let (data, fixed) = (make("data"), make("fixed"));
    let file = bed.dir.join("file");
    fs::write(&file, "of the host\n").expect("write");
    fs::write(fixed.join("there"), "x").expect("write");
    let text = |path: &std::path::Path| path.to_str().expect("path").to_owned();
    let bundle = bed
        .bundle()
        .mount("bind", &text(&data), "/data", &["rbind", "rw"])
        .mount("bind", &text(&fixed), "/fixed", &["bind", "ro", "nosuid"])
        .mount("bind", &text(&file), "/etc/file", &["bind", "ro"])
        .mount("tmpfs", "tmpfs", "/data/own", &["size=64k"])
        .sh(WRITER);
    let saved = Saved::running(bundle);
    saved.writes_on(&data.join("log"), "/proc/self/mountinfo");
    assert_eq!(
        saved.c.sh("cat /etc/file /data/own/kept; ls /fixed").ok().stdout,
        "of the host\nkept\nthere\n"
    );
    saved.c.sh("echo >/fixed/new").exits(1);
    saved.c.sh("echo >/etc/file").exits(1);
    assert!(!data.join("own/kept").exists());
}

/// The container joins namespaces of another container, as in a pod.
fn joined_namespaces(bed: &Bed) {
    // Its program reaps the children of saved processes.
    let holder = bed.bundle().sh("while :; do sleep 0.1; done").make().detached();
    let kinds = [("network", "net"), ("ipc", "ipc"), ("uts", "uts"), ("pid", "pid")];
    let bundle = kinds.iter().fold(bed.bundle().sh(COUNTER), |bundle, (kind, file)| {
        bundle.join_namespace(kind, &format!("/proc/{}/ns/{file}", holder.pid()))
    });
    let saved = Saved::running(bundle.unset("/hostname"));
    saved.counts();
    let own_pid = || saved.c.sh("pgrep -f [n].new | head -n 1").ok().stdout;
    let before = own_pid();
    saved.checkpoint(&[]).ok();
    // The processes get their pids again, which are in use until the saved processes have been reaped.
    wait::until_true("a restore", || {
        let outcome = saved.restore(&[]);
        assert!(outcome.code() == 0 || outcome.stderr.contains("File exists"), "{outcome}");
        outcome.code() == 0
    });
    saved.counts();
    assert_eq!(own_pid(), before);
    for (_, file) in kinds {
        let of = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/{file}")).expect("readlink");
        assert_eq!(of(saved.c.pid()), of(holder.pid()), "{file}");
        let inside = saved.c.sh(&format!("readlink /proc/self/ns/{file}")).ok().stdout;
        assert_eq!(inside.trim(), of(holder.pid()).to_str().expect("UTF-8"));
    }
}

fn terminals(bed: &Bed) {
    let bundle = bed
        .bundle()
        .set("/process/terminal", json!(true))
        .sh("stty -echo; echo ready; while read x; do echo got $x; done");
    let c = bundle.make();
    let socket = FdSocket::new(&bed.dir, "console.sock");
    c.run_with(&["-d", "--console-socket", &socket.arg()]).ok();
    let (master, _) = socket.receive();
    let images = bed.dir.join("images");
    let saved = Saved::of(c, images);
    let says = |master: &std::os::fd::OwnedFd, word: &str| {
        let mut file = File::from(master.as_fd().try_clone_to_owned().expect("dup"));
        writeln!(file, "{word}").expect("write");
        let mut text = String::new();
        wait::until_true("an answer", || {
            let mut bytes = [0; 256];
            let length = file.read(&mut bytes).expect("read");
            text.push_str(&String::from_utf8_lossy(&bytes[..length]));
            text.contains(&format!("got {word}\r\n"))
        });
    };
    says(&master, "one");
    saved.checkpoint(&[]).ok();
    let again = FdSocket::new(&bed.dir, "again.sock");
    saved.restore(&["--console-socket", &again.arg()]).ok();
    let (master, _) = again.receive();
    says(&master, "two");
    assert_eq!(saved.c.sh("readlink /proc/1/fd/0").ok().stdout, "/dev/pts/0\n");
}

pub(super) fn hooks(bed: &Bed) {
    let journal = bed.dir.join("journal");
    let hook = |kind: &str| -> Value {
        let script =
            format!("echo {kind} $(grep -o '\"status\": *\"[a-z]*\"') >>{}", journal.display());
        json!([{ "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"] }])
    };
    let kinds = ["prestart", "createRuntime", "poststart", "poststop"];
    let bundle = kinds.iter().fold(bed.bundle().sh(COUNTER), |bundle, kind| {
        bundle.set(&format!("/hooks/{kind}"), hook(kind))
    });
    let saved = Saved::running(bundle);
    let order = || -> Vec<String> {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        let _ = fs::remove_file(&journal);
        text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(order(), ["prestart", "createRuntime", "poststart"]);
    saved.checkpoint(&[]).ok();
    assert_eq!(order(), ["poststop"]);
    saved.restore(&[]).ok();
    assert_eq!(order(), ["prestart", "createRuntime", "poststart"]);
    saved.checkpoint(&["--leave-running"]).ok();
    assert_eq!(order(), [""; 0]);
    saved.c.delete_force().ok();
    assert_eq!(order(), ["poststop"]);
    // A failing hook makes the restore fail.
    let config = saved.c.bundle.join("config.json");
    let text = fs::read_to_string(&config).expect("config.json");
    fs::write(&config, text.replace("echo createRuntime", "exit 3; echo createRuntime"))
        .expect("write");
    saved.restore(&[]).fails("createRuntime");
    saved.c.assert_gone("a failed hook");
}

/// Returns a container that runs a Perl program with the host's interpreter.
fn of_perl<'a>(bed: &'a Bed, program: &str) -> Bundle<'a> {
    let program = format!(
        "for my $f (\\*STDIN, \\*STDOUT, \\*STDERR) {{ open($f, '+<', '/dev/null'); }} $| = 1; {program}"
    );
    ["/usr", "/lib", "/lib64"]
        .iter()
        .fold(bed.bundle(), |bundle, dir| bundle.mount("bind", dir, dir, &["rbind", "ro"]))
        .args(&["/usr/bin/perl", "-MSocket", "-MIO::Handle", "-e", &program])
}

fn perl() -> Result<(), String> {
    criu::lacking()?;
    match std::path::Path::new("/usr/bin/perl").exists() {
        true => Ok(()),
        false => Err("no /usr/bin/perl".to_owned()),
    }
}

/// A TCP connection inside the container, both ends of which are saved.
fn connections(bed: &Bed) {
    let saved = Saved::running(of_perl(
        bed,
        "socket(my $l, PF_INET, SOCK_STREAM, 0) or die; bind($l, sockaddr_in(7777, INADDR_LOOPBACK)) or die; \
         listen($l, 1); socket(my $c, PF_INET, SOCK_STREAM, 0) or die; \
         connect($c, sockaddr_in(7777, INADDR_LOOPBACK)) or die; accept(my $s, $l) or die; my $i = 0; \
         while (1) { $i++; syswrite($c, \"$i\\n\"); sysread($s, my $got, 100); \
         open(my $n, '>', '/n.new'); print $n $got; close($n); rename('/n.new', '/n'); select(undef, undef, undef, 0.02); }",
    ));
    saved.counts();
    saved.checkpoint(&[]).fails("tcp");
    saved.counts();
    saved.checkpoint(&["--tcp-established"]).ok();
    saved.restore(&["--tcp-established"]).ok();
    saved.counts();
}

/// Podman #26676: a copy of a container must not use the connections of the original.
fn connections_of_a_copy_are_closed(bed: &Bed) {
    let saved = Saved::running(of_perl(
        bed,
        "$SIG{PIPE} = 'IGNORE'; socket(my $l, PF_INET, SOCK_STREAM, 0) or die; \
         bind($l, sockaddr_in(7777, INADDR_LOOPBACK)) or die; listen($l, 1); \
         socket(my $c, PF_INET, SOCK_STREAM, 0) or die; connect($c, sockaddr_in(7777, INADDR_LOOPBACK)) or die; \
         accept(my $s, $l) or die; my $i = 0; while (1) { $i++; my $sent = syswrite($c, 'x'); \
         open(my $n, '>', '/n.new'); print $n (defined($sent) ? $i : 'closed'); close($n); rename('/n.new', '/n'); \
         sysread($s, my $got, 100) if defined($sent); select(undef, undef, undef, 0.02); }",
    ));
    saved.counts();
    saved.checkpoint(&["--tcp-established"]).ok();
    saved.restore(&["--tcp-close"]).ok();
    let file = saved.c.bundle.join("rootfs/n");
    wait::until_true("a closed connection", || {
        fs::read_to_string(&file).is_ok_and(|text| text == "closed")
    });
    // The listening socket is still there: 7777 is 1E61, and 0A is its state.
    assert_eq!(
        saved.c.sh("grep -c '0100007F:1E61 00000000:0000 0A' /proc/net/tcp").ok().stdout,
        "1\n"
    );
}

/// criu locks the network with rules of iptables(8), for which it executes several programs. Only connections need the
/// lock.
fn network_is_locked_for_connections_only(bed: &Bed) {
    let programs = bed.dir.join("programs");
    fs::create_dir(&programs).expect("mkdir");
    for name in ["iptables-restore", "ip6tables-restore"] {
        let program = programs.join(name);
        program::write(
            &program,
            &format!("#!/bin/sh\necho {name} >>{}/called\n", bed.dir.display()),
        );
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("PATH"));
    let called = || fs::read_to_string(bed.dir.join("called")).unwrap_or_default();
    let saved = Saved::counting(bed);
    let checkpoint = |flags: &[&str]| saved.checkpoint_call(flags).env("PATH", &path).run();
    let restore = |flags: &[&str]| {
        saved.restore_call(&[&["--detach"], flags].concat()).env("PATH", &path).run()
    };
    checkpoint(&[]).ok();
    restore(&[]).ok();
    assert_eq!(called(), "");
    checkpoint(&["--tcp-established"]).ok();
    assert!(called().contains("iptables-restore"), "{}", called());
    restore(&["--tcp-established"]).ok();
    saved.counts();
}

/// A datagram socket in the container is connected to a socket of the host. The directory of the host's socket is
/// bind-mounted into the container.
fn sockets_that_lead_outside(bed: &Bed) {
    let dir = bed.dir.join("sockets");
    fs::create_dir(&dir).expect("mkdir");
    let socket = std::os::unix::net::UnixDatagram::bind(dir.join("log")).expect("bind");
    socket.set_read_timeout(Some(wait::patience())).expect("timeout");
    let text = dir.to_str().expect("path");
    let program = format!(
        "socket(my $s, PF_UNIX, SOCK_DGRAM, 0) or die; connect($s, sockaddr_un('{text}/log')) or die; \
         while (1) {{ syswrite($s, 'line'); select(undef, undef, undef, 0.2); }}"
    );
    let bundle = of_perl(bed, &program);
    // criu sees only sockets of the container's network namespace, and connects to the path at which they are bound.
    let bundle = bundle.without_namespace("network");
    let saved = Saved::running(bundle.mount("bind", text, text, &["bind"]));
    let mut bytes = [0; 16];
    let mut receive = || {
        // With a timeout, recv(2) is not restarted after a stop of this process, even without a handler (signal(7)).
        let length = loop {
            match socket.recv(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.expect("a datagram"),
            }
        };
        assert_eq!(length, 4);
    };
    receive();
    saved.checkpoint(&[]).fails("unix: ");
    receive();
    saved.checkpoint(&["--ext-unix-sk"]).ok();
    let empty = || {
        socket.set_nonblocking(true).expect("fcntl");
        while socket.recv(&mut [0; 16]).is_ok() {}
        socket.set_nonblocking(false).expect("fcntl");
    };
    empty();
    saved.restore(&["--ext-unix-sk"]).ok();
    receive();
}

fn locks_of_files(bed: &Bed) {
    let saved = Saved::running(of_perl(
        bed,
        "open(my $lock, '>', '/lock'); flock($lock, 2); open(my $told, '>', '/locked'); close($told); \
         sleep(1) while 1;",
    ));
    wait::until_true("the lock", || saved.c.bundle.join("rootfs/locked").exists());
    saved.checkpoint(&[]).fails("lock");
    assert_eq!(saved.c.status(), "running");
    saved.checkpoint(&["--file-locks"]).ok();
    let free = |expected| {
        let lock = File::open(saved.c.bundle.join("rootfs/lock")).expect("open");
        let taken = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        assert_eq!(taken.is_ok(), expected);
    };
    free(true);
    saved.restore(&["--file-locks"]).ok();
    free(false);
}

pub(super) fn read_only_root(bed: &Bed) {
    let bundle = bed.bundle().set("/root/readonly", json!(true)).mount(
        "tmpfs",
        "tmpfs",
        "/tmp",
        &["nosuid"],
    );
    let script = COUNTER.replace(" /n", " /tmp/n").replace(">/n.", ">/tmp/n.");
    let saved = Saved::running(bundle.sh(&script));
    let count = || saved.c.sh("cat /tmp/n").stdout.trim().parse::<u64>().unwrap_or(0);
    wait::until_true("it to count", || count() > 0);
    let before = count();
    saved.cycle();
    wait::until_true("it to count", || count() > before);
    saved.c.sh("touch /new").exits(1);
    assert!(!saved.c.bundle.join("rootfs/new").exists());
}
