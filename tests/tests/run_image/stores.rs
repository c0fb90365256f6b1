//! A store that several state roots and mount namespaces share, as with an engine in a container (Docker-in-Docker) or
//! a unit with PrivateTmp=: a container's changes are its own, and are kept as long as it lives.

use super::{background, call, delete, image_of, nothing_is_left, path, programs, run};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::{case, image, leak, wait};
use std::fs;
use std::path::PathBuf;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(gc_in_another_mount_namespace).unlike_runc().needs(programs),
    case!(gc_in_another_pid_namespace).unlike_runc().needs(programs),
    case!(state_that_was_removed).unlike_runc().needs(programs),
    case!(one_name_in_two_state_roots).unlike_runc().needs(programs),
    case!(one_name_in_two_mount_namespaces).unlike_runc().needs(programs),
    case!(read_only_medium).unlike_runc().needs(programs),
];

/// The initial PID namespace (PROC_PID_INIT_INO, linux/proc_ns.h).
const INITIAL: &str = "pid:[4026531836]";

/// Runs a script in new namespaces, in which the bed's state root is on a mount that no other namespace has. `R` is the
/// runtime with its state root, `IN NAME SCRIPT` runs a shell in a container.
pub fn apart(bed: &Bed, flags: &[&str], script: &str) -> Call {
    fs::create_dir_all(bed.root()).expect("mkdir");
    let start = format!(
        "set -eu; mount -t tmpfs apart {root}\n\
         R() {{ {runtime} --root {root} \"$@\"; }}; IN() {{ name=$1; shift; R exec \"$name\" sh -c \"$*\"; }}\n\
         {script}",
        root = path(&bed.root()),
        runtime = path(bed.runtime()),
    );
    let words = [&["-m", "--propagation", "private"], flags, &["sh", "-c", &start]].concat();
    bed.program("unshare", &words)
        .env("DAYFLY_STORE", path(&image::store(bed)))
        .env("DAYFLY_IDS", path(&bed.dir.join("ids")))
        .env("DAYFLY_SUBUID", "/dev/null")
        .env("DAYFLY_SUBGID", "/dev/null")
}

fn gc(bed: &Bed, words: &[&str]) -> Outcome {
    let call = bed.call_bare(words).env("DAYFLY_STORE", path(&image::store(bed)));
    call.env("DAYFLY_IDS", path(&bed.dir.join("ids"))).run().ok()
}

fn home(bed: &Bed, id: &str) -> PathBuf {
    image::store(bed).join("containers").join(id)
}

/// Makes two FIFOs, by which a script waits for the test and the test for a script.
fn fifos(bed: &Bed) -> [String; 2] {
    ["ready", "go"].map(|name| {
        let fifo = bed.dir.join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("mkfifo");
        path(&fifo).to_owned()
    })
}

/// Collects garbage while a container of another mount namespace runs, whose state root is not to be seen here.
fn collect_meanwhile(bed: &Bed, flags: &[&str]) {
    image_of(bed, vec![]);
    let [ready, go] = fifos(bed);
    for userns in ["host", "auto"] {
        let id = bed.id();
        let script = format!(
            "R run -d --userns {userns} --name {id} --image test sleep 1000 >&2\n\
             IN {id} 'echo precious >/data'; echo >{ready}; read -r _ <{go}\n\
             IN {id} 'cat /data; echo x >/new; mkdir /d; ls -d /new /d'\n\
             R delete --force {id}"
        );
        let running = apart(bed, flags, &script).spawn();
        fs::read(&ready).expect("ready");
        assert!(!bed.root().join(&id).exists());
        let told = [gc(bed, &["image", "gc"]), gc(bed, &["gc"])].map(|outcome| outcome.stdout);
        assert!(home(bed, &id).join("upper").exists(), "{told:?}");
        assert_eq!(told[1], "0 directories, 0 mounts, 0 ranges of ids removed\n");
        fs::write(&go, "\n").expect("go");
        assert_eq!(running.wait().ok().stdout, "precious\n/d\n/new\n");
        nothing_is_left(bed);
    }
    // A container whose whole mount namespace is gone, with the state root, is removed, if all processes of the host are
    // to be seen here.
    let id = bed.id();
    let script = format!(
        "R run -d --name {id} --image test sleep 1000 >&2; kill -9 $(R state {id} | grep -o '\"pid\": [0-9]*' | cut -d' ' -f2)"
    );
    apart(bed, flags, &script).run().ok();
    assert!(home(bed, &id).exists());
    let is_initial = fs::read_link("/proc/self/ns/pid").expect("ns").ends_with(INITIAL);
    // Process 1 may have capabilities that this process lacks.
    if is_initial && fs::metadata("/proc/1/ns/mnt").is_ok() {
        let told = || gc(bed, &["image", "gc"]).stdout;
        wait::until_true("its end", || told().starts_with("1 directory of containers"));
        nothing_is_left(bed);
    } else {
        gc(bed, &["image", "gc"]);
        assert!(
            home(bed, &id).exists(),
            "another namespace may have processes that are not to be seen here"
        );
    }
    leak::sweep(bed.view, &[id]);
}

fn gc_in_another_mount_namespace(bed: &Bed) {
    collect_meanwhile(bed, &[]);
}

/// The pid of the container's init there is another one's pid here.
fn gc_in_another_pid_namespace(bed: &Bed) {
    collect_meanwhile(bed, &["--pid", "--fork", "--mount-proc"]);
}

/// A tmpfiles rule, or an administrator, removes the state of a running container.
fn state_that_was_removed(bed: &Bed) {
    image_of(bed, vec![]);
    let id = background(bed, &[], "echo >/ready; while [ -e /ready ]; do sleep 0.01; done");
    let pid = super::status_of(bed, &id)["pid"].as_i64().expect("pid").to_string();
    fs::rename(bed.root().join(&id), bed.dir.join("state")).expect("rename");
    gc(bed, &["image", "gc"]);
    gc(bed, &["gc"]);
    assert!(home(bed, &id).join("upper").exists());
    run(bed, &["--name", &id, "--image", "test", "true"])
        .run()
        .fails(&format!("whose process {pid} still runs"));
    assert!(home(bed, &id).join("upper").exists());
    fs::rename(bed.dir.join("state"), bed.root().join(&id)).expect("rename");
    delete(bed, &id);
}

fn one_name_in_two_state_roots(bed: &Bed) {
    image_of(bed, vec![]);
    let id = bed.id();
    run(bed, &["-d", "--name", &id, "--image", "test", "sleep", "1000"]).run().ok();
    call(bed, &["exec", &id, "sh", "-c", "echo precious >/data"]).run().ok();
    let other = bed.dir.join("other-root");
    let call_other = |words: &[&str]| {
        let all = [&["--root", path(&other)], words].concat();
        let call = bed.call_bare(&all).env("DAYFLY_STORE", path(&image::store(bed)));
        call.env("DAYFLY_IDS", path(&bed.dir.join("ids"))).run()
    };
    let refused = call_other(&["run", "--name", &id, "--image", "test", "true"]);
    assert_eq!(refused.code(), 1, "{refused}");
    assert!(refused.stderr.contains("has the files of container"), "{refused}");
    assert!(!other.join(&id).exists());
    let seen = call(bed, &["exec", &id, "sh", "-c", "cat /data; echo x >/new; ls /new"]).run();
    assert_eq!(seen.ok().stdout, "precious\n/new\n");
    delete(bed, &id);
}

/// Even the paths of the two state roots are the same.
fn one_name_in_two_mount_namespaces(bed: &Bed) {
    image_of(bed, vec![]);
    let [ready, go] = fifos(bed);
    let id = bed.id();
    let script = format!(
        "R run -d --name {id} --image test sleep 1000 >&2\n\
         IN {id} 'echo precious >/data'; echo >{ready}; read -r _ <{go}\n\
         IN {id} 'cat /data; echo x >/new; ls /new'; R delete --force {id}"
    );
    let running = apart(bed, &[], &script).spawn();
    fs::read(&ready).expect("ready");
    let refused = run(bed, &["--name", &id, "--image", "test", "true"]).run();
    refused.fails("has the files of container");
    // What a killed `run` leaves before it has made the directory.
    call(bed, &["delete", "--force", &id]).run().ok();
    assert!(home(bed, &id).join("upper").exists());
    fs::write(&go, "\n").expect("go");
    assert_eq!(running.wait().ok().stdout, "precious\n/new\n");
    nothing_is_left(bed);
}

/// Changes in memory need nothing of the store, which may be on a DVD.
fn read_only_medium(bed: &Bed) {
    image_of(bed, vec![]);
    let store = image::store(bed);
    let script = format!(
        "mount --bind {store} {store}; mount -o remount,bind,ro {store}\n\
         R run --ephemeral --image test sh -c 'echo changed >/data; cat /data'\n\
         R run --read-only --image test echo read-only\n\
         id=$(R run -d --ephemeral --image test sleep 1000); R exec $id echo inside; R rm -f $id\n\
         R run --image test true",
        store = path(&store),
    );
    let outcome = apart(bed, &[], &script).run();
    assert_eq!(outcome.stdout, "changed\nread-only\ninside\n", "{outcome}");
    let advice = "read-only file system; --ephemeral keeps changes in memory";
    assert!(outcome.code() == 1 && outcome.stderr.contains(advice), "{outcome}");
    nothing_is_left(bed);
}
