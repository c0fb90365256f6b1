//! Walks through the fault points of commands that root runs: all steps of `run` and `exec`, and those steps of other
//! commands that are not in the plan's lists.

use super::ground::Ground;
use super::{KINDS, fault_points, faulty, walk_through, walked};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::{case, leak, wait};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use serde_json::json;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

pub const CASES: &[Case] = &[
    case!(run).needs(fault_points),
    case!(exec).needs(fault_points),
    case!(exec_in_a_user_namespace).needs(fault_points),
    case!(exec_without_a_mount_namespace).needs(fault_points),
    case!(start).needs(fault_points),
    case!(delete).needs(fault_points),
    case!(announcements).needs(fault_points),
    case!(terminals).needs(fault_points),
    case!(service_managers).needs(fault_points),
    case!(hooks_of_the_end).needs(fault_points),
    case!(intermediate).needs(fault_points),
    case!(late_intermediate).needs(fault_points),
    case!(network_maker).needs(fault_points),
];

fn run(bed: &Bed) {
    let ground = Ground::new(|| bed.bundle());
    ground.run(&[]);
    ground.run(&["--detach"]);
    ground.besides("create", &|c| c.bundle_call("create", &[]), 10);
    ground.besides("run", &|c| c.bundle_call("run", &["--start-cpus", "0"]), 10);
    walked();
}

fn exec(bed: &Bed) {
    Ground::new(|| bed.bundle()).exec(&[]);
    walked();
}

fn exec_in_a_user_namespace(bed: &Bed) {
    Ground::new(|| mapped(bed)).exec(&[]);
    walked();
}

/// If the container has no mount namespace of its own, its root can only be reached through init.
fn exec_without_a_mount_namespace(bed: &Bed) {
    let bundle = || {
        let bundle = bed.bundle().without_namespace("mount");
        bundle.unset("/linux/maskedPaths").unset("/linux/readonlyPaths")
    };
    Ground::new(bundle).exec(&[]);
    walked();
}

fn start(bed: &Bed) {
    Ground::new(|| bed.bundle()).start();
    walked();
}

fn delete(bed: &Bed) {
    let ground = Ground::new(|| bed.bundle());
    ground.delete();
    ground.delete_unrecorded();
    walked();
}

/// Makes a socket that keeps its connections open.
pub fn patient(path: &Path) -> String {
    let listener = UnixListener::bind(path).expect("bind");
    std::thread::spawn(move || {
        let mut heard = Vec::new();
        for connection in listener.incoming().flatten() {
            heard.push(connection);
            heard.drain(..heard.len().saturating_sub(8));
        }
    });
    path.to_string_lossy().into_owned()
}

/// The steps for the pid file and the pidfd. The command removes the pid file together with the container, unless it
/// was killed.
fn announcements(bed: &Bed) {
    let directory = bed.dir.join("announced");
    fs::create_dir(&directory).expect("make");
    let file = directory.join("pid").to_string_lossy().into_owned();
    let socket = patient(&bed.dir.join("pidfd.sock"));
    let flags = ["--pid-file", &file, "--pidfd-socket", &socket];
    let detached = [&["--detach"], &flags[..]].concat();
    let c = bed.bundle().make();
    let other = bed.bundle().make().detached();
    let calls: [&dyn Fn() -> Call; 3] =
        [&|| c.bundle_call("create", &flags), &|| c.bundle_call("run", &detached), &|| {
            other.id_call("exec", &detached, &["/bin/true"])
        }];
    for (place, kind) in [("command", "fail"), ("command", "kill"), ("parent", "fail")] {
        for call in calls {
            walk_through(place, kind, |step, fault| {
                let outcome = faulty(call(), place, step, kind).run();
                let entries = fs::read_dir(&directory).expect("read").flatten();
                let left: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
                let stays = kind == "kill" || outcome.code() == 0;
                assert!(stays || left.is_empty(), "{fault}: {left:?}: {outcome}");
                left.iter().for_each(|file| fs::remove_file(file).expect("remove"));
                c.delete_force().ok();
                c.assert_gone(fault);
                outcome
            });
        }
    }
    walked();
}

/// The steps for a terminal that is sent to a socket, and for one that is relayed to the caller's own.
fn terminals(bed: &Bed) {
    let socket = patient(&bed.dir.join("console.sock"));
    let sent = ["--console-socket", &socket];
    let (master, own) = caller_terminal();
    let own = || own.try_clone().expect("clone");
    let ground = Ground::new(|| bed.bundle().set("/process/terminal", json!(true)));
    ground.besides("create", &|c| c.bundle_call("create", &sent), 10);
    ground.besides("run", &|c| c.bundle_call("run", &[]).stdin(own()), 10);
    let c = bed.bundle().make().detached();
    let processes = || leak::processes(std::slice::from_ref(&c.id)).len();
    let detached = ["--tty", "--detach", "--console-socket", &socket];
    let calls: [&dyn Fn() -> Call; 2] = [&|| c.id_call("exec", &detached, &["/bin/true"]), &|| {
        c.id_call("exec", &["--tty"], &["/bin/sleep", "0.01"]).stdin(own())
    }];
    for (place, kind) in
        ["command", "parent", "init"].iter().flat_map(|at| KINDS.map(|kind| (at, kind)))
    {
        for call in calls {
            walk_through(place, kind, |step, fault| {
                let outcome = faulty(call(), place, step, kind).run();
                wait::until_true(&format!("no process to be left by {fault}"), || processes() == 1);
                outcome
            });
        }
    }
    drop(master);
    walked();
}

/// Returns the two ends of a terminal.
fn caller_terminal() -> (OwnedFd, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = openpt(flags).expect("openpt");
    unlockpt(&master).expect("unlock");
    let name = ptsname(&master, Vec::new()).expect("name");
    let path = name.to_str().expect("path");
    let terminal = File::options().read(true).write(true).open(path).expect("open terminal");
    (master, terminal)
}

/// The steps of commands for which a service manager waits, with containers that exit without a notification.
fn service_managers(bed: &Bed) {
    let path = bed.dir.join("manager.sock");
    let _manager = UnixDatagram::bind(&path).expect("bind");
    let serve = |call: Call| call.env("NOTIFY_SOCKET", path.to_str().expect("path"));
    let ground = Ground::new(|| bed.bundle().args(&["/bin/true"]));
    ground.besides("create", &|c| serve(c.bundle_call("create", &[])), 10);
    ground.besides("run", &|c| serve(c.bundle_call("run", &["--detach"])), 10);
    for kind in KINDS {
        walk_through("command", kind, |step, fault| {
            let c = bed.bundle().args(&["/bin/true"]).make();
            serve(c.bundle_call("create", &[])).run().ok();
            let outcome = faulty(serve(c.id_call("start", &[], &[])), "command", step, kind).run();
            c.delete_force().ok();
            c.assert_gone(fault);
            outcome
        });
    }
    walked();
}

/// The steps of poststart and poststop hooks.
fn hooks_of_the_end(bed: &Bed) {
    let hook = json!([{ "path": "/bin/true" }]);
    let bundle = || bed.bundle().set("/hooks/poststart", hook.clone());
    let ground = Ground::new(|| bundle().set("/hooks/poststop", hook.clone()));
    ground.besides("run", &|c| c.bundle_call("run", &["--detach"]), 10);
    ground.delete();
    for kind in KINDS {
        walk_through("command", kind, |step, fault| {
            let c = bundle().make();
            c.create().ok();
            let outcome = faulty(c.id_call("start", &[], &[]), "command", step, kind).run();
            c.delete_force().ok();
            c.assert_gone(fault);
            outcome
        });
    }
    walked();
}

/// The steps of the process that makes init from inside a joined user namespace. Init also holds the channel to the
/// runtime, so the channel does not close when this intermediate process ends.
fn intermediate(bed: &Bed) {
    let first = mapped(bed).make().detached();
    let user = format!("/proc/{}/ns/user", first.pid());
    let joined = || mapped(bed).join_namespace("user", &user);
    let c = joined().unset("/linux/uidMappings").unset("/linux/gidMappings").make();
    for kind in KINDS {
        let steps = walk_through("intermediate", kind, |step, fault| {
            let outcome = faulty(c.bundle_call("create", &[]), "intermediate", step, kind).run();
            if kind == "kill" && outcome.code() != 0 {
                assert!(outcome.stderr.contains("killed by SIGKILL"), "{fault}: {outcome}");
            }
            if outcome.code() == 0 {
                c.delete_force().ok();
            }
            c.assert_gone(fault);
            outcome
        });
        assert_eq!(steps, 3);
    }
    walked();
}

/// An intermediate process with memory of its own may be slower than init: when it continues, init may already have
/// reported that it is ready, or its error.
fn late_intermediate(bed: &Bed) {
    let first = mapped(bed).make().detached();
    let joining = |kinds: &[&str]| {
        let mut bundle = mapped(bed).unset("/linux/uidMappings").unset("/linux/gidMappings");
        for kind in kinds {
            bundle = bundle.join_namespace(kind, &format!("/proc/{}/ns/{kind}", first.pid()));
        }
        bundle.make()
    };
    let late = |call: Call| {
        call.env("DAYFLY_FAULT", "intermediate:2:late").env("DAYFLY_WITHOUT", "shared-memory").run()
    };
    for kinds in [&["user"][..], &["user", "pid"]] {
        let c = joining(kinds);
        late(c.bundle_call("run", &["--detach"])).ok();
        late(c.id_call("exec", &[], &["true"])).ok();
        late(c.id_call("exec", &[], &["nothing"]))
            .fails_as(255, "executable file not found in $PATH");
        c.delete_force().ok();
        c.assert_gone(&format!("joined: {kinds:?}"));
    }
    let c = bed.bundle().join_namespace("pid", &format!("/proc/{}/ns/pid", first.pid())).make();
    late(c.bundle_call("run", &["--detach"])).ok();
    c.delete_force().ok();
    walked();
}

/// Faults of the process that makes the network namespace are reported by init.
fn network_maker(bed: &Bed) {
    let c = bed.bundle().make();
    for (kind, step) in KINDS.iter().flat_map(|kind| (0..3).map(move |step| (kind, step))) {
        let fault = format!("network:{step}:{kind}");
        let created = faulty(c.bundle_call("create", &[]), "network", step, kind).run();
        assert!(
            created.code() == 1 && created.stderr.contains(": join network: "),
            "{fault}: {created}"
        );
        c.assert_gone(&fault);
    }
    walked();
}
