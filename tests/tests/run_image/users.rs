//! Unprivileged users run images without unshare(1).

use super::{layout, path, users};
use dayfly_tests::bed::Bed;
use dayfly_tests::image;
use dayfly_tests::kernel::version;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::user::{NAME, User};
use dayfly_tests::{case, program, wait};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(users_of_one_id).unlike_runc().needs(users),
    case!(users_with_ranges).unlike_runc().needs(users),
    case!(logs_of_users_are_bounded).unlike_runc().needs(users),
];

/// Creates a user, and an image in the user's store.
fn user_with_image(bed: &Bed, user: &User) {
    let layout = layout(bed, vec![]);
    let base = user.bed.runtime().parent().expect("base");
    program::copy(&image::program(), &base.join("dayfly-image"));
    let import = ["image", "import", "--ignore-owners", path(&layout.dir), "--name", "test"];
    user.bed.call_bare(&import).run().ok();
}

fn as_user(user: &User, args: &[&str]) -> Call {
    user.bed.call(args)
}

/// Only the user's own id is mapped, because the PATH contains no helper for more.
fn users_of_one_id(bed: &Bed) {
    let user = User::new(bed);
    user_with_image(bed, &user);
    let base = user.bed.runtime().parent().expect("base");
    let script = format!(
        "PATH=/nowhere exec {}/dayfly run --image test cat /proc/self/uid_map",
        base.display()
    );
    let outcome = user.bed.call_bare(&["-c", &script]).env("PROGRAM", "/bin/sh").run().ok();
    let words: Vec<&str> = outcome.stdout.split_ascii_whitespace().collect();
    assert_eq!(words, ["0", &user.uid.to_string(), "1"], "{outcome}");
    without_unshare(&user);
}

fn users_with_ranges(bed: &Bed) {
    let user = User::new(bed);
    user_with_image(bed, &user);
    let id = user.bed.id();
    let script = "id -u; echo x >/f && busybox chown 7:8 /f && stat -c %u:%g /f; exit 5";
    let args = ["run", "--name", &id, "--image", "test", "sh", "-c", script];
    assert_eq!(as_user(&user, &args).run().exits(5).stdout, "0\n7:8\n");
    without_unshare(&user);
}

fn without_unshare(user: &User) {
    let id = user.bed.id();
    let args = ["run", "--init", "--name", &id, "--image", "test", "sh", "-c", "hostname; exit 4"];
    assert_eq!(as_user(user, &args).run().exits(4).stdout, format!("{id}\n"));
    let args = ["run", "-d", "--name", &id, "--image", "test", "sh", "-c", "echo out; sleep 1000"];
    let outcome = as_user(user, &args).run().ok();
    assert_eq!(outcome.stdout, format!("{id}\n"));
    assert_eq!(outcome.stderr, "", "{outcome}");
    let listed = as_user(user, &["list"]).run().ok();
    let row = listed.lines().into_iter().find(|line| line.contains(&id)).expect("row");
    assert!(row.trim_end().ends_with(NAME), "{listed}");
    let log = || as_user(user, &["logs", &id]).run().ok().stdout;
    wait::until_true("its output", || log() == "out\n");
    let exec = as_user(user, &["exec", &id, "sh", "-c", "hostname; echo y >/new"]).run().ok();
    assert_eq!(exec.stdout, format!("{id}\n"));
    as_user(user, &["kill", &id, "KILL"]).run().ok();
    let shown = || as_user(user, &["inspect", "-f", "{{.State.ExitCode}}", &id]).run().ok().stdout;
    wait::until_true("its end", || shown() == "unknown\n");
    let copy = user.bed.runtime().with_file_name("home").join("copy");
    as_user(user, &["cp", &format!("{id}:/new"), path(&copy)]).run().ok();
    assert_eq!(fs::read_to_string(&copy).expect("the copy"), "y\n");
    as_user(user, &["delete", "--force", &id]).run().ok();
    as_user(user, &["state", &id]).run().fails("container does not exist");
    let containers =
        user.bed.runtime().parent().expect("base").join("home/.local/share/dayfly/containers");
    assert_eq!(fs::read_dir(containers).map_or(0, Iterator::count), 0);
}

/// Writes beyond the limit fail, and the log remains when the program has ended.
fn logs_of_users_are_bounded(bed: &Bed) {
    let user = User::new(bed);
    user_with_image(bed, &user);
    let id = user.bed.id();
    let start = |options: &[&str], script: &str| {
        let name = ["run", "-d", "--name", &id];
        let all = [&name, options, &["--image", "test", "sh", "-c", script]].concat();
        as_user(&user, &all).run().ok()
    };
    let logs = |options: &[&str]| {
        let all = [&["logs"], options, &[id.as_str()]].concat();
        as_user(&user, &all).run().ok().stdout
    };
    let delete = || as_user(&user, &["delete", "--force", &id]).run().ok();
    let ended = || as_user(&user, &["state", &id]).run().ok().stdout.contains("\"stopped\"");

    let script = "echo first; yes >&2; echo $? >/tmp/status; sleep 1000";
    assert_eq!(start(&["--log-size", "64k"], script).stderr, "");
    let status = || as_user(&user, &["exec", &id, "cat", "/tmp/status"]).run().stdout;
    wait::until_true("the program to be told", || status() == "1\n");
    let log = logs(&[]);
    assert!(log.starts_with("first\ny\ny\n"), "{}", log.len());
    assert!((60_000..=65_536).contains(&log.len()), "{}", log.len());
    // The last line may be the program's message that it cannot write, if the message still fitted
    // into the log.
    let tail = logs(&["--tail", "3"]);
    assert!(tail.starts_with("y\ny\n") && log.ends_with(&tail), "{tail}");
    assert_eq!(logs(&["--tail", "1000000"]).len(), log.len());
    // Only a wait that has begun before the end knows the exit code.
    let waiting = as_user(&user, &["wait", &id]).spawn();
    waiting.until_it_waits();
    as_user(&user, &["kill", &id, "KILL"]).run().ok();
    wait::until_true("its end", ended);
    if version() >= (6, 15) {
        assert_eq!(waiting.wait().ok().stdout, "137\n");
    }
    assert_eq!(as_user(&user, &["wait", &id]).run().exits(1).stdout, "unknown\n");
    assert_eq!(logs(&["--follow"]).len(), log.len());
    delete();

    // A shell truncates the log here; later output of the program is printed nevertheless.
    start(&[], "echo one; echo two >/dev/stdout; echo three");
    wait::until_true("its end", ended);
    assert_eq!(logs(&[]), "two\nthree\n");
    assert_eq!(logs(&["--tail", "1"]), "three\n");
    delete();

    // With a limit of file sizes, SIGXFSZ would end the program.
    let base = user.bed.runtime().parent().expect("base");
    let script = format!(
        "ulimit -f 100000; exec {}/dayfly --root {} run -d --name {id} --image test echo out",
        base.display(),
        user.bed.root().display()
    );
    let outcome = user.bed.call_bare(&["-c", &script]).env("PROGRAM", "/bin/sh").run().ok();
    assert!(outcome.stderr.contains("is not limited: the caller has a limit"), "{outcome}");
    wait::until_true("its output", || logs(&[]) == "out\n");
    delete();
}
