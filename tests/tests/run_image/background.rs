//! Containers of images in the background: logs and ids.

use super::{
    background, call, delete, ends, image_of, mounts_of, nothing_is_left, path, programs, refused,
    run,
};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, wait};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(logs_of_the_background).unlike_runc().needs(programs),
    case!(a_log_is_bounded).unlike_runc().needs(programs),
    case!(logs_that_are_followed).unlike_runc().needs(programs),
    case!(wrong_backgrounds).unlike_runc().needs(programs),
    case!(detached_as_before).unlike_runc().needs(programs),
    case!(beginnings_of_ids).unlike_runc().needs(programs),
];

fn logs_of_the_background(bed: &Bed) {
    image_of(bed, vec![]);
    for userns in ["host", "auto"] {
        let script = "cat; echo one; echo two >&2; echo three; echo four >>/dev/stdout";
        let id = background(bed, &["--userns", userns], script);
        ends(bed, &id);
        let log = |options: &[&str]| {
            let all = [&["logs"], options, &[id.as_str()]].concat();
            call(bed, &all).run().ok().stdout
        };
        assert_eq!(log(&[]), "one\ntwo\nthree\nfour\n", "{userns}");
        assert_eq!(log(&["--tail", "2"]), "three\nfour\n");
        assert_eq!(log(&["--tail", "0"]), "");
        assert_eq!(log(&["--tail", "all"]), "one\ntwo\nthree\nfour\n");
        assert_eq!(log(&["-f"]), "one\ntwo\nthree\nfour\n", "one that has ended is not waited for");
        call(bed, &["logs", "--tail", "-1", &id]).run().fails("number of lines");
        delete(bed, &id);
    }
    call(bed, &["logs", "nobody"]).run().fails("container does not exist");
}

/// When the log has reached its limit, writes fail, and no file on the host grows.
fn a_log_is_bounded(bed: &Bed) {
    image_of(bed, vec![]);
    let id = background(bed, &["--log-size", "64k"], "yes; echo $? >/tmp/status; sleep 1000");
    let size = || call(bed, &["logs", &id]).run().ok().stdout.len();
    wait::until_true("a full log", || size() == 65536);
    let status = || call(bed, &["exec", &id, "cat", "/tmp/status"]).run().stdout;
    wait::until_true("the program to be told", || status() == "1\n");
    assert_eq!(size(), 65536);
    assert!(mounts_of(bed));
    delete(bed, &id);
}

fn logs_that_are_followed(bed: &Bed) {
    image_of(bed, vec![]);
    let fifo = bed.dir.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("mkfifo");
    let volume = format!("{}:/fifo", path(&fifo));
    let id =
        background(bed, &["-v", &volume], "echo a; while read line; do echo $line; done </fifo");
    let following = call(bed, &["logs", "--follow", &id]).spawn();
    wait::until_true("the first line", || following.stdout() == "a\n");
    let mut writer = fs::OpenOptions::new().write(true).open(&fifo).expect("open");
    std::io::Write::write_all(&mut writer, b"b\n").expect("write");
    wait::until_true("what came later", || following.stdout() == "a\nb\n");
    assert!(!following.has_ended());
    std::io::Write::write_all(&mut writer, b"c\n").expect("write");
    drop(writer);
    assert_eq!(following.wait().ok().stdout, "a\nb\nc\n");
    delete(bed, &id);
}

fn wrong_backgrounds(bed: &Bed) {
    image_of(bed, vec![]);
    refused(bed, &["-dt"], "-d and -t: nobody would be at the other end");
    refused(bed, &["--log-size", "64k"], "--log-size needs -d");
    refused(bed, &["-d", "--log-size", "1"], "must be 4k or more");
    refused(bed, &["-d", "--log-size", "x"], "invalid size");
    // A missing program is reported by the command at once, not in the log, and nothing is left behind.
    let outcome = run(bed, &["-d", "--image", "test", "/no/such"]).run();
    assert!(outcome.stderr.contains("/no/such") && outcome.stdout.is_empty(), "{outcome}");
    assert_eq!(outcome.code(), 1, "{outcome}");
    nothing_is_left(bed);
    let id = background(bed, &["--rm"], "true");
    ends(bed, &id);
    delete(bed, &id);
}

/// `--detach` prints no id, and the container keeps the caller's standard output.
fn detached_as_before(bed: &Bed) {
    image_of(bed, vec![]);
    let id = bed.id();
    let args = ["--detach", "--name", &id, "--image", "test", "echo", "out"];
    let running = run(bed, &args).spawn();
    wait::until_true("its output", || running.stdout() == "out\n");
    running.wait().ok();
    call(bed, &["logs", &id]).run().fails("has no log");
    assert!(!mounts_of(bed));
    delete(bed, &id);
    // For a bundle, `-d` means `--detach`.
    let c = bed.bundle().args(&["/bin/sleep", "1000"]).make();
    assert_eq!(c.run_with(&["-d"]).ok().stdout, "");
}

fn beginnings_of_ids(bed: &Bed) {
    image_of(bed, vec![]);
    for name in ["abcd000000000001", "abcd000000000002", "abce-named"] {
        let args = ["-d", "--name", name, "--image", "test", "sleep", "1000"];
        assert_eq!(run(bed, &args).run().ok().stdout, format!("{name}\n"));
    }
    let pid = |id: &str| call(bed, &["ps", id]).run();
    pid("abcd000000000001").ok();
    for ambiguous in ["abcd", "abcd00000000000"] {
        pid(ambiguous).fails("is the beginning of 2 container ids");
        call(bed, &["delete", ambiguous]).run().fails("is the beginning of 2");
    }
    // A name that the user has chosen is not completed from its beginning, and fewer than three digits are not
    // completed at all.
    for none in ["abce", "ab", "abcd000000000003"] {
        pid(none).fails("container does not exist");
    }
    call(bed, &["delete", "--force", "abce"]).run().ok();
    call(bed, &["state", "abce-named"]).run().ok();
    call(bed, &["delete", "--force", "abcd000000000001"]).run().ok();
    // The commands that engines use complete no ids, either. No command completes an id if a directory with exactly the
    // given name exists.
    for words in [&["state", "abcd0"][..], &["kill", "abcd0", "KILL"], &["update", "abcd0"]] {
        call(bed, words).run().fails("container does not exist");
    }
    call(bed, &["delete", "--force", "abcd0"]).run().ok();
    fs::create_dir(bed.root().join("abcd0")).expect("make");
    call(bed, &["delete", "abcd0"]).run().fails("container does not exist");
    assert!(!bed.root().join("abcd0").exists(), "left: abcd0");
    call(bed, &["state", "abcd000000000002"]).run().ok();
    let outcome = call(bed, &["exec", "abcd0", "hostname"]).run().ok();
    assert_eq!(outcome.stdout, "abcd000000000002\n");
    call(bed, &["kill", "abcd000000000002", "KILL"]).run().ok();
    ends(bed, "abcd000000000002");
    call(bed, &["delete", "abcd0"]).run().ok();
    delete(bed, "abce-named");
}
