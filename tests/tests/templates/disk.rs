//! Templates that are saved to disk and made again from there.

use super::{PROGRAM, bundle, children, fork, lacking, other, ruby, same};
use crate::checkpoint::crash::kill_call;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::criu;
use dayfly_tests::leak::Host;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(as_if_executed).needs(needed).unlike_runc(),
    case!(made_at_the_save).needs(needed).unlike_runc(),
    case!(nothing_random_is_shared).needs(needed).unlike_runc(),
    case!(nothing_random_is_shared_in_ruby).needs(needed_for_ruby).unlike_runc(),
    case!(clocks_are_the_hosts).needs(needed).unlike_runc(),
    case!(outlives_its_program).needs(needed).unlike_runc(),
    case!(signals_reach_the_program).needs(needed).unlike_runc(),
    case!(what_must_not_be_open).needs(needed).unlike_runc(),
    case!(read_only_roots).needs(needed).unlike_runc(),
    case!(damaged_images).needs(needed).unlike_runc().alone(),
    case!(places_that_others_could_change).needs(needed).unlike_runc(),
    case!(another_cpu).needs(needed).unlike_runc(),
    case!(killed_at_any_moment).needs(needed).unlike_runc().alone(),
];

fn needed() -> Result<(), String> {
    lacking().and_then(|()| criu::lacking())
}

fn needed_for_ruby() -> Result<(), String> {
    ruby::lacking().and_then(|()| criu::lacking())
}

/// Returns the directory of a container's images.
fn images(c: &Container<'_>) -> PathBuf {
    c.bed.dir.join(format!("images-{}", c.id))
}

/// Returns the call of `template create` with this option, `--save` or `--from`.
fn disk(c: &Container<'_>, option: &str, images: &Path) -> Call {
    let (bundle, images) = (c.bundle.to_string_lossy(), images.to_string_lossy());
    let words = ["template", "create", "--bundle", &bundle, option, &images, &c.id];
    c.bed.call(&words).env("DAYFLY_CRIU", &criu::program()).within(wait::patience() * 3)
}

/// Returns a template that was saved, and made again from the images.
fn restored(bundle: Bundle<'_>) -> Container<'_> {
    let c = bundle.make();
    disk(&c, "--save", &images(&c)).run().ok();
    c.delete_force().ok();
    disk(&c, "--from", &images(&c)).run().ok();
    c
}

fn as_if_executed(bed: &Bed) {
    let template = restored(bundle(bed, PROGRAM));
    same(&template, |_| {});
    same(&template, |config| {
        config["process"]["cwd"] = json!("/tmp");
        config["process"]["user"] =
            json!({ "uid": 1000, "gid": 1000, "additionalGids": [2000, 3000] });
        let kill = json!(["CAP_KILL", "CAP_NET_RAW"]);
        config["process"]["capabilities"] = json!({ "bounding": kill, "effective": ["CAP_KILL"],
            "permitted": kill, "inheritable": kill, "ambient": ["CAP_NET_RAW"] });
        config["process"]["env"].as_array_mut().expect("env").push(json!("ONE=with = and ü"));
        config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{ "names": ["setns", "unshare", "mount", "prctl", "chdir", "dup2"],
                "action": "SCMP_ACT_ERRNO", "errnoRet": 38 }] });
    });
    let listed = bed.call(&["template", "ls"]).run().ok();
    assert!(listed.stdout.contains("ready"), "{listed}");
    template.id_call("checkpoint", &[], &[]).run().fails("checkpoint of a template");
}

/// `--save` makes the template, too, in its cgroup, and the images make others.
fn made_at_the_save(bed: &Bed) {
    let first = bundle(bed, PROGRAM).make();
    disk(&first, "--save", &images(&first)).run().ok();
    let second = bundle(bed, PROGRAM).make();
    disk(&second, "--from", &images(&first)).run().ok();
    for template in [&first, &second] {
        let code = "print(warm, open('/proc/1/cgroup').read() == open('/proc/self/cgroup').read())";
        assert_eq!(fork(template, code).ok().stdout, "warm True\n");
        bed.call(&["template", "rm", &template.id]).run().ok();
        template.assert_gone("a template");
    }
}

/// Verifies that two children of each of two restores print different words.
#[track_caller]
fn differ(template: &Container<'_>, code: &str, words: usize) {
    let mut found = BTreeSet::new();
    for _ in 0..2 {
        for _ in 0..2 {
            let outcome = fork(template, code).ok();
            assert!(!outcome.log().contains("executed instead"), "{outcome}");
            found.extend(outcome.stdout.split_whitespace().map(str::to_owned));
        }
        template.delete_force().ok();
        disk(template, "--from", &images(template)).run().ok();
    }
    assert_eq!(found.len(), 4 * words, "{found:?}");
}

fn nothing_random_is_shared(bed: &Bed) {
    let program = "import random, secrets, ssl, tempfile, uuid\n\
        names = tempfile._get_candidate_names()\n\
        def draw(): return [random.random(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), uuid.uuid4(), \
        uuid.uuid1(), next(names), next(tempfile._get_candidate_names())]\n\
        draw()\n";
    let template = restored(bundle(bed, &format!("{program}{PROGRAM}")));
    differ(&template, "print(*draw())", 7);
}

fn nothing_random_is_shared_in_ruby(bed: &Bed) {
    let program = "require 'openssl'\nrequire 'securerandom'\nrequire 'tmpdir'\n\
        def draw = [rand, SecureRandom.hex, OpenSSL::Random.random_bytes(8).unpack1('H*'), \
        Dir::Tmpname.create('x') { }]\n\
        draw\n";
    let template = restored(ruby::bundle(bed, &format!("{program}{}", ruby::PROGRAM)));
    differ(&template, "puts draw", 4);
    // The interpreter works in the child.
    let code = "p Thread.new { sleep(0.01); 5 }.value, IO.popen(['echo', 'child']).read, Process.pid == $$, warm";
    assert_eq!(fork(&template, code).ok().stdout, "5\n\"child\\n\"\ntrue\n\"warm\"\n");
    bed.call(&["template", "rm", &template.id]).run().ok();
    template.assert_gone("a template");
}

fn clocks_are_the_hosts(bed: &Bed) {
    let template = restored(bundle(bed, PROGRAM));
    let own = fs::read_link("/proc/self/ns/time").expect("time namespace");
    let code = "print(os.readlink('/proc/self/ns/time'))";
    assert_eq!(fork(&template, code).ok().stdout.trim(), own.to_string_lossy());
}

/// Returns the program of a template, which is a child of its reaper.
fn program_of(template: &Container<'_>) -> Pid {
    let all = children(template.pid());
    let [program] = all[..] else { panic!("{all:?}") };
    Pid::from_raw(program).expect("pid")
}

fn outlives_its_program(bed: &Bed) {
    let template = restored(bundle(bed, PROGRAM));
    let c = other(&template, |config: &mut Value| {
        config["process"]["args"] =
            json!(["/usr/bin/python3", "-B", "/app.py", "time.sleep(1000)"]);
    });
    c.run_with(&["--detach", "--template", &template.id]).ok();
    kill_process(program_of(&template), Signal::KILL).expect("kill");
    wait::until_true("the end of the program", || children(template.pid()).is_empty());
    let gone = fork(&template, "print(os.getpid())").ok();
    assert!(gone.log().contains("has ended"), "{gone}");
    assert_eq!(c.status(), "running");
    c.delete_force().ok();
    template.wait_status("stopped");
    bed.call(&["template", "rm", &template.id]).run().ok();
    template.assert_gone("a template");
}

fn signals_reach_the_program(bed: &Bed) {
    let template = restored(bundle(bed, PROGRAM));
    template.kill("TERM").ok();
    template.wait_status("stopped");
}

/// The state of these would be shared by all children of all restores.
fn what_must_not_be_open(bed: &Bed) {
    for (code, reason) in [
        ("import socket; s = socket.socket()", "socket:["),
        ("import select; e = select.epoll()", "anon_inode:[eventpoll]"),
        ("import ctypes; n = ctypes.CDLL(None).inotify_init()", "anon_inode:inotify"),
        ("import ctypes; t = ctypes.CDLL(None).timerfd_create(1, 0)", "anon_inode:[timerfd]"),
        ("import os; p = os.pipe()", "pipe:["),
        ("import subprocess; p = subprocess.Popen(['sleep', '60'])", "has started sleep"),
    ] {
        let c = bundle(bed, &format!("{code}\n{PROGRAM}")).make();
        let images = images(&c);
        let outcome = disk(&c, "--save", &images).run().fails("cannot be saved");
        assert!(outcome.log().contains(reason), "{reason}: {outcome}");
        c.assert_gone(reason);
        disk(&c, "--from", &images).run().fails("has no checkpoint");
    }
    let threads = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n";
    let c = bundle(bed, &format!("{threads}{PROGRAM}")).make();
    let outcome = disk(&c, "--save", &images(&c)).run().fails("ended before it waited");
    assert!(outcome.raw_stderr().contains("must have one thread, but 2 are running"), "{outcome}");
    c.assert_gone("threads");
}

fn read_only_roots(bed: &Bed) {
    let c = bundle(bed, PROGRAM).set("/root/readonly", json!(true)).make();
    let place = c.bundle.join("rootfs/tmp");
    let _ = fs::remove_dir(&place);
    disk(&c, "--save", &images(&c)).run().fails("criu needs a directory /tmp");
    fs::create_dir(place).expect("mkdir");
    disk(&c, "--save", &images(&c)).run().ok();
    assert_eq!(fork(&c, "print(warm)").ok().stdout, "warm\n");
}

fn damaged_images(bed: &Bed) {
    let c = bundle(bed, PROGRAM).make();
    let images = images(&c);
    disk(&c, "--save", &images).run().ok();
    c.delete_force().ok();
    let host = Host::look();
    let refused = |name: &str, reason: &str| {
        let outcome = disk(&c, "--from", &images).run().fails(reason);
        assert!(outcome.log().contains(name), "{name}: {outcome}");
        c.assert_gone(reason);
    };
    for name in ["pages-1.img", "core-1.img", "mm-1.img"] {
        let path = images.join(name);
        let whole = fs::read(&path).expect("read");
        let mut damaged = whole.clone();
        // In the middle of the pages, where criu would not notice it.
        let at = damaged.len() / 2;
        damaged[at] ^= 1;
        fs::write(&path, &damaged).expect("write");
        refused(name, "its SHA-256 is not that in template.json");
        fs::remove_file(&path).expect("remove");
        refused(name, name);
        fs::write(&path, &whole[..at]).expect("write");
        refused(name, "is damaged");
        fs::write(&path, whole).expect("write");
    }
    let added = images.join("added.img");
    fs::write(&added, "").expect("write");
    refused("added.img", "template.json does not name it");
    fs::remove_file(added).expect("remove");
    let list = images.join("template.json");
    fs::rename(&list, images.join("aside")).expect("rename");
    refused("template.json", "has no template");
    fs::rename(images.join("aside"), list).expect("rename");
    wait::until_none("anything left", || host.changes());
    disk(&c, "--from", &images).run().ok();
}

fn places_that_others_could_change(bed: &Bed) {
    let c = bundle(bed, PROGRAM).make();
    let images = images(&c);
    disk(&c, "--save", &images).run().ok();
    c.delete_force().ok();
    let refused = |path: &Path, reason: &str| {
        disk(&c, "--from", path).run().fails(reason);
        c.assert_gone(reason);
    };
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod")
    };
    let pages = images.join("pages-1.img");
    mode(&pages, 0o666);
    refused(&images, "can be written to by others");
    mode(&pages, 0o644);
    chown(&pages, Some(1000), None).expect("chown");
    refused(&images, "belongs to user 1000");
    chown(&pages, Some(0), None).expect("chown");
    mode(&images, 0o755);
    refused(&images, "can be searched by others");
    mode(&images, 0o700);
    // A link and a directory of another user.
    let theirs = bed.dir.join("theirs");
    fs::create_dir(&theirs).expect("mkdir");
    let link = theirs.join("link");
    symlink(&images, &link).expect("symlink");
    std::os::unix::fs::lchown(&link, Some(1000), None).expect("lchown");
    refused(&link, "link is another user's");
    chown(&theirs, Some(1000), None).expect("chown");
    refused(&link, "theirs is another user's");
    disk(&c, "--save", &theirs.join("new")).run().fails("theirs is another user's");
    disk(&c, "--from", &images).run().ok();
}

/// criu compares the CPU's instructions with those in an image, here of an older CPU of another maker.
fn another_cpu(bed: &Bed) {
    let c = bundle(bed, PROGRAM).make();
    let images = images(&c);
    disk(&c, "--save", &images).run().ok();
    c.delete_force().ok();
    let sum = |path: &Path| {
        let output = Command::new("sha256sum").arg(path).output().expect("sha256sum");
        String::from_utf8(output.stdout).expect("text")[..64].to_owned()
    };
    let path = images.join("cpuinfo.img");
    let before = sum(&path);
    let mut image = fs::read(&path).expect("read");
    // The last number of the image is a set of features.
    let last = image.len() - 1;
    image[last] ^= 0x7f;
    fs::write(&path, image).expect("write");
    let list = images.join("template.json");
    let text = fs::read_to_string(&list).expect("read");
    fs::write(&list, text.replace(&before, &sum(&path))).expect("write");
    disk(&c, "--from", &images).run().fails("was saved on another kind of CPU");
    c.assert_gone("another CPU");
}

/// Whenever a save or a restore is killed, what is left can be removed, and the images are whole or refused.
fn killed_at_any_moment(bed: &Bed) {
    let c = bundle(bed, PROGRAM).make();
    let images = images(&c);
    let timed = |option| {
        let since = Instant::now();
        disk(&c, option, &images).run().ok();
        c.delete_force().ok();
        since.elapsed()
    };
    let (save, restore) = (timed("--save"), timed("--from"));
    for round in 0..ROUNDS {
        for (option, whole) in [("--from", restore), ("--save", save)] {
            kill_call(disk(&c, option, &images).spawn(), whole * round / ROUNDS);
            c.delete_force();
            c.assert_gone("what was killed");
            let again = disk(&c, "--from", &images).run();
            if again.code() == 0 {
                assert_eq!(fork(&c, "print(warm)").ok().stdout, "warm\n");
                c.delete_force().ok();
            } else {
                assert_eq!(option, "--save", "{again}");
                timed("--save");
            }
        }
    }
}

const ROUNDS: u32 = 12;
