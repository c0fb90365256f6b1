//! Inodes of the host that containers can reach: root of the container must not be able to change them.
//!
//! The device files are the machine's own, so the attacks set the mode and owner that the files already have.
//!
//! The cases cover the engines' default capabilities, and a user namespace with all capabilities and every mount made
//! as permissive as possible. CAP_SYS_ADMIN without a user namespace is root on the host: with it, a process can make
//! any of these mounts writable.
//!
//! | inode | how the container gets it | root of the container |
//! |---|---|---|
//! | /dev/null over masked files; devices of the host, if the caller lacks root's rights, mknod(2) is refused, or in a user namespace before Linux 6.15 | read-only mounts | reads and writes the device; before Linux 6.15, with CAP_SYS_ADMIN in a user namespace, changes the times, as every user can |
//! | other devices in user namespaces | not: the container has its own nodes | owns them |
//! | empty directory over masked ones | not: the container has its own tmpfs | with CAP_SYS_ADMIN in a user namespace, writes there |
//! | standard streams | the shim's pipes, or the caller's streams. The host's /dev/null is replaced by the container's or, for an exec without one, by a device on a detached tmpfs | owns a file that the caller's root owns, as with any runtime |
//! | terminal, /dev/console | not: they are on the container's devpts | owns it |
//! | the runtime's executable | read-only mount, kept in the cache or detached, or a sealed memfd | nothing |
//! | directory of the notify socket | read-only mount | writes to the socket |
//! | cgroups, without a cgroup namespace | as configured; read-only for callers without root's rights | what the mount's options allow |
//! | `cgroup.procs` and `tasks` of a container that a template forks | descriptors for the template and its child, which closes them before its program begins | a hostile template moves its own processes there |
//! | layers | lower layers of an overlay; neither a path nor a descriptor of their mount | nothing: changes are copied up |
//! | log of `run -d --image` | a regular file on its own tmpfs | truncates it, fills it up to its size; without root, fills the file system of the state directory |
//! | dayfly's executable, with `--init` | read-only mount at /dev/init | reads and executes it |
//! | file system of the blank namespace | a locked read-only mount in a mount namespace that another user namespace owns | with the host's CAP_SYS_ADMIN, changes options of the superblock; no mount of it is writable |
//! | binds, volumes, /etc/hosts … | as the engine configures them | what the configuration allows |

use super::{Evidence, WAYS, falls, holds, with_blank};
use crate::blank::with_capabilities;
use crate::exec::streams::with_null_output;
use crate::security::copy_of_runtime;
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::inside;
use dayfly_tests::kernel::has_detached;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{User, can_be};
use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Declares a case of an attack, and a case of the same attack without the defences. Both cases run alone, because
/// other cases use the same inodes.
macro_rules! attack {
    ($attack:ident) => {
        Case::new(stringify!($attack), |bed| holds(bed, $attack)).alone()
    };
    ($attack:ident without $names:literal) => {
        Case::new(concat!(stringify!($attack), " without ", $names), |bed| {
            falls(bed, $names, $attack)
        })
        .undefended($names)
        .alone()
    };
}

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    attack!(mask_of_a_file),
    attack!(mask_of_a_file without "lent-read-only"),
    attack!(standard_streams),
    attack!(standard_streams without "own-null"),
    attack!(standard_streams_of_exec),
    attack!(standard_streams_of_exec without "own-null"),
    attack!(standard_streams_without_a_null),
    attack!(standard_streams_without_a_null without "own-null"),
    attack!(devices_of_a_user_namespace),
    attack!(devices_of_a_user_namespace without "own-nodes,lent-read-only"),
    attack!(devices_of_a_user).needs(can_be),
    attack!(devices_of_a_user without "lent-read-only").needs(can_be),
    attack!(runtime),
    attack!(runtime without "seal"),
    attack!(cgroup_directory),
    attack!(cgroup_directory without "cgroup-read-only"),
    with_blank(attack!(blank)),
    with_blank(attack!(blank without "blank-owner")),
    attack!(directory_of_the_notify_socket),
    attack!(files_of_layers),
    attack!(mask_of_a_directory),
];

/// The devices that containers have and that may be the host's own.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom"];

/// Returns everything known of an inode, except its access time.
fn inode(path: &Path) -> String {
    let stat = fs::symlink_metadata(path).expect("inode");
    let mut names = [0u8; 1024];
    let length = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let mut text = format!("{}: {:o} {}:{}", path.display(), stat.mode(), stat.uid(), stat.gid());
    let _ = write!(text, " links {} size {}", stat.nlink(), stat.size());
    let _ = write!(text, " modified {}.{:09}", stat.mtime(), stat.mtime_nsec());
    let _ = write!(text, " changed {}.{:09}", stat.ctime(), stat.ctime_nsec());
    let _ = write!(text, " attributes {:?}", String::from_utf8_lossy(&names[..length]));
    text
}

/// Calls `act`. Returns the first change to the host's inodes at `paths`.
fn changed(paths: &[PathBuf], act: impl FnOnce()) -> Evidence {
    let all = || paths.iter().map(|path| inode(path)).collect::<Vec<_>>();
    let before = all();
    act();
    let after = all();
    let mut pairs = before.iter().zip(&after);
    pairs
        .find(|(before, after)| before != after)
        .map(|(before, after)| format!("{before}\n       -> {after}"))
}

fn devices() -> Vec<PathBuf> {
    DEVICES.iter().map(PathBuf::from).collect()
}

/// Returns a script that tries every change that root can make to an inode. The mode and the owner are set to their
/// present values.
fn tamper(paths: &[&str]) -> String {
    format!(
        "for p in {}; do chmod $(stat -Lc %a $p) $p; chown $(stat -Lc %u:%g $p) $p; touch $p
         ln $p /tmp/linked; mv $p $p.moved; rm $p; done 2>/dev/null; true",
        paths.join(" ")
    )
}

fn mask_of_a_file(bed: &Bed) -> Evidence {
    let masked = ["/secret", "/secret2", "/proc/keys"];
    WAYS.iter().find_map(|way| {
        let bundle = bed.bundle();
        for name in ["secret", "secret2"] {
            fs::write(bundle.rootfs().join(name), "secret\n").expect("write");
        }
        let c = bundle.set("/linux/maskedPaths", json!(masked)).sh(&tamper(&masked)).make();
        changed(&devices(), || {
            c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way).run().ok();
        })
    })
}

const STREAMS: [&str; 4] = ["/proc/self/fd/0", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// Engines give containers /dev/null as standard input, and as output if it is to be discarded.
fn standard_streams(bed: &Bed) -> Evidence {
    let c = bed.bundle().sh(&tamper(&STREAMS)).make();
    changed(&devices(), || {
        c.run().ok();
    })
}

/// Processes added by exec also get /dev/null as standard input, and as output if it is to be discarded.
fn standard_streams_of_exec(bed: &Bed) -> Evidence {
    let c = bed.bundle().make().detached();
    changed(&devices(), || {
        c.sh(&tamper(&STREAMS)).ok();
    })
}

/// Attacks the standard streams of exec in a container without /dev/null. The attack uses descriptor 3, a copy of
/// standard output. With /dev/stdout, the script would read the mode of the pipe of its command substitution, and would
/// set this mode on the machine's device.
fn standard_streams_without_a_null(bed: &Bed) -> Evidence {
    let c = bed.bundle().make().detached();
    c.sh("rm /dev/null").ok();
    changed(&devices(), || {
        let script = format!("exec 3>&1; {}", tamper(&["/proc/self/fd/3"]));
        let _ = with_null_output(&c, &script).ok();
    })
}

/// Returns the bundle of a container in a user namespace. It has all capabilities there that concern files and mounts.
fn with_rights(bed: &Bed) -> Bundle<'_> {
    const MORE: [&str; 5] =
        ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_FSETID", "CAP_LINUX_IMMUTABLE", "CAP_DAC_READ_SEARCH"];
    with_capabilities(mapped(bed), &MORE)
}

/// First makes mounts and superblocks writable as far as possible. Before Linux 6.15 the devices are the host's own and
/// are left out: CAP_SYS_ADMIN in the user namespace can make them writable, and can then change their times, as can
/// every user of the host.
fn devices_of_a_user_namespace(bed: &Bed) -> Evidence {
    let c = with_rights(bed).make().detached();
    let paths: Vec<&str> = DEVICES.into_iter().chain(["/proc/keys", "/proc/timer_list"]).collect();
    let are_lent = has_detached().is_err();
    changed(&devices(), || {
        let mounts = if are_lent { &[][..] } else { &paths };
        println!("     loosened: {}", inside::loosen(c.pid(), mounts).replace('\n', ", "));
        c.sh(&tamper(&paths)).ok();
    })
}

/// A container that can't make device nodes gets the host's. It may write to these devices, as may every user of the
/// host, but must not be able to do anything else to their inodes.
fn devices_of_a_user(bed: &Bed) -> Evidence {
    let user = User::new(bed);
    let c = user.ranges().sh(&tamper(&DEVICES)).make();
    changed(&devices(), || {
        c.run().ok();
    })
}

/// Like `runtime_is_overwritten`, but the container runs the executable as a program, and blocks it with a pipe that
/// nobody reads.
fn runtime(bed: &Bed) -> Evidence {
    let tamper = tamper(&["$p/exe"]);
    let script = format!(
        "busybox mkfifo /tmp/pipe
         echo ready
         for round in $(seq 1000); do for p in /proc/[0-9]*; do
             case $(tr '\\0' ' ' <$p/cmdline) in '/proc/self/exe '*) ;; *) continue ;; esac
             {tamper}
             cat /tmp/pipe >/dev/null &
             break 2
         done 2>/dev/null; usleep 1000; done
         echo done"
    );
    let c = bed.bundle().sh(&script).make();
    let run = c.run_with(&["--detach"]).ok();
    run.wait_output("ready");
    let (copy, _) = copy_of_runtime(bed);
    let root = bed.root();
    let root = root.to_str().expect("path");
    let args = ["--root", root, "exec", &c.id, "/proc/self/exe", "--log", "/tmp/pipe", "list"];
    changed(std::slice::from_ref(&copy), || {
        let _ = bed.program(copy.to_str().expect("path"), &args).run();
        run.wait_output("done");
    })
}

/// Attacks the directory of the container's own cgroup wherever it is visible: without a cgroup namespace, the host's
/// tree is mounted. Times are not compared, since the kernel generates these files when they are read.
fn cgroup_directory(bed: &Bed) -> Evidence {
    let c = bed.bundle().without_namespace("cgroup").make().detached();
    let procs = c.cgroup_file("pids", "cgroup.procs");
    let directory = procs.parent().expect("cgroup").to_owned();
    let owner = || {
        [&directory, &procs].map(|path| {
            let stat = fs::metadata(path).expect("cgroup");
            format!("{}: {:o} {}:{}", path.display(), stat.mode(), stat.uid(), stat.gid())
        })
    };
    // On v1 the container's own directory is bind-mounted in each hierarchy.
    let seen = match bed.view.has_v1() {
        true => "/sys/fs/cgroup/pids".to_owned(),
        false => directory.to_string_lossy().into_owned(),
    };
    let before = owner();
    c.sh(&format!(
        "for p in {seen} {seen}/cgroup.procs; do chmod 700 $p; chown 1:1 $p; done 2>/dev/null; true"
    ))
    .ok();
    let after = owner();
    (before != after).then(|| format!("{before:?} -> {after:?}"))
}

/// Attacks the file system that is under the root of every container that starts from the blank namespace; each of
/// these containers has its own mount of it. A container with CAP_SYS_ADMIN on the host can reach this file system, but
/// must not leave anything in it that others see.
fn blank(bed: &Bed) -> Evidence {
    // This case has a blank namespace of its own, in a separate mount namespace.
    let script = "mkdir -p /run/dayfly-cache && mount -t tmpfs -o mode=700 none /run/dayfly-cache &&
        while [ $# -gt 0 ]; do $RUNTIME --root $ROOT run --detach --bundle $1 $2 || exit; shift 2; done";
    let containers = [bed.bundle().make(), bed.bundle().make()];
    let bundles = containers.each_ref().map(|c| c.bundle.to_string_lossy().into_owned());
    let mut args = vec!["-m", "--propagation", "private", "sh", "-c", script, "sh"];
    for (bundle, c) in bundles.iter().zip(&containers) {
        args.extend([bundle, c.id.as_str()]);
    }
    let call = bed.program("unshare", &args).env("ROOT", bed.root().to_str().expect("path"));
    call.env("RUNTIME", bed.runtime().to_str().expect("path")).run().ok();
    let [first, second] = containers.map(|c| inside::change_below_root(c.pid()));
    println!("     first: {}; second: {}", first.replace('\n', ", "), second.replace('\n', ", "));
    let is_bad = |said: &str| ["mount", "made", "found"].iter().any(|word| said.contains(word));
    (is_bad(&first) || is_bad(&second)).then(|| format!("{first}{second}"))
}

/// Attacks the host directory of the socket on which a container reports that it is ready.
fn directory_of_the_notify_socket(bed: &Bed) -> Evidence {
    let manager = bed.dir.join("manager.sock");
    let _socket = std::os::unix::net::UnixDatagram::bind(&manager).expect("bind");
    let c = bed.bundle().make();
    let call = c.bundle_call("create", &[]);
    let _ = call.env("NOTIFY_SOCKET", manager.to_str().expect("path")).run().ok();
    let directory = bed.root().join(&c.id).join("notify");
    changed(&[directory], || {
        c.sh(&format!("{}; touch /run/notify/made; true", tamper(&["/run/notify"]))).exits(0);
    })
}

/// Attacks the files of an image, which all its containers share.
fn files_of_layers(bed: &Bed) -> Evidence {
    let layers = Layers::new(bed, 2);
    let base = layers.store.join("layers/base");
    let names = ["secret", "of-user", "etc/passwd", "etc", "bin/busybox"];
    let shared: Vec<PathBuf> = names.iter().map(|name| base.join(name)).collect();
    let inside = names.map(|name| format!("/{name}"));
    let c = bed.bundle().sh(&tamper(&inside.each_ref().map(String::as_str))).make();
    let flags = layers.flags();
    changed(&shared, || {
        c.run_with(&flags.each_ref().map(String::as_str)).ok();
    })
}

/// Each masked directory is an empty file system of its own container: a file that one container writes there is not
/// visible in others.
fn mask_of_a_directory(bed: &Bed) -> Evidence {
    let c = with_rights(bed).set("/linux/maskedPaths", json!(["/root", "/var"])).make().detached();
    let other =
        with_rights(bed).set("/linux/maskedPaths", json!(["/root", "/var"])).make().detached();
    let loosened = inside::loosen(c.pid(), &["/root", "/var"]);
    c.sh("mkdir /root/made; mount -o remount,rw /root && mkdir /root/made; true").exits(0);
    let seen = other.exec(&["ls", "/root", "/var"]).ok().stdout;
    seen.contains("made").then(|| format!("{loosened}{seen}"))
}
