//! Standard streams, terminals and descriptors of a process that exec adds.

use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::console::{FdSocket, read_all};
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(stdin),
    case!(without_a_null).unlike_runc(),
    case!(preserve_fds),
    case!(more_descriptors_than_its_limit).needs(bash),
    case!(tty_by_console_socket),
    case!(tty_without_socket_when_detached),
    case!(leaks_no_descriptors),
];

fn stdin(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let path = bed.dir.join("input");
    fs::write(&path, "typed\n").expect("write");
    let outcome =
        c.id_call("exec", &[], &["cat"]).stdin(fs::File::open(path).expect("open")).run().ok();
    assert_eq!(outcome.stdout, "typed\n");
}

fn preserve_fds(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let path = bed.dir.join("third");
    fs::write(&path, "third\n").expect("write");
    let script = format!("exec 3<{}; exec \"$@\"", path.display());
    let outcome = bed
        .program(
            "/bin/sh",
            &[
                "-c",
                &script,
                "sh",
                &bed.runtime().to_string_lossy(),
                "--root",
                &bed.root().to_string_lossy(),
                "exec",
                "--preserve-fds",
                "1",
                &c.id,
                "sh",
                "-c",
                "cat <&3",
            ],
        )
        .run()
        .ok();
    assert_eq!(outcome.stdout, "third\n");
}

fn leaks_no_descriptors(bed: &Bed) {
    let c = bed.bundle().make().detached();
    // 3 is the directory that ls itself opens.
    assert_eq!(c.exec(&["ls", "/proc/self/fd"]).ok().stdout, "0\n1\n2\n3\n");
    assert_eq!(c.exec(&["ls", "/proc/1/fd"]).ok().stdout, "0\n1\n2\n");
}

fn tty_by_console_socket(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let socket = FdSocket::new(&bed.dir, "tty.sock");
    c.exec_with(
        &["--tty", "--detach", "--console-socket", &socket.arg()],
        &["sh", "-c", "tty; exit 3"],
    )
    .ok();
    let (master, name) = socket.receive();
    assert!(!name.is_empty(), "the terminal's name comes with it");
    assert_eq!(read_all(master), "/dev/pts/0\r\n");
}

fn tty_without_socket_when_detached(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.exec_with(&["-t", "-d"], &["true"])
        .fails_as(255, "cannot allocate tty if dayfly will detach without setting console socket");
    let socket = FdSocket::new(&bed.dir, "tty.sock");
    c.exec_with(&["--console-socket", &socket.arg()], &["true"])
        .fails_as(255, "cannot use console socket if dayfly will not detach or allocate tty");
}

/// Root of a container must not get access to the host's /dev/null. If the container's /dev has no /dev/null, or
/// another file of that name, a new device node replaces streams from the host's /dev/null. Root of a user namespace
/// can't make a device node: there, standard input becomes an empty pipe, and an output stream from /dev/null is
/// refused.
fn without_a_null(bed: &Bed) {
    let dev = bed.dir.join("dev");
    fs::create_dir(&dev).expect("make");
    let removed = bed.bundle().make().detached();
    removed.sh("rm /dev/null").ok();
    let other = bed.bundle().make().detached();
    other.sh("rm /dev/null; mkfifo /dev/null").ok();
    for c in [&removed, &other, &dev_bound(bed.bundle(), &dev)] {
        let outcome = c.sh("wc -c; stat -Lc '%F %t:%T' /proc/self/fd/0").ok();
        assert_eq!(outcome.lines(), ["0", "character special file 1:3"], "{outcome}");
        let script =
            "echo lost; echo lost >/dev/stdout; exec 3>&1; stat -Lc %d:%i:%F /proc/self/fd/3 >&2";
        let outcome = with_null_output(c, script).ok();
        let own = fs::metadata("/dev/null").expect("metadata");
        assert!(!outcome.stderr.starts_with(&format!("{}:{}", own.dev(), own.ino())), "{outcome}");
        assert!(outcome.stderr.contains("character special file"), "{outcome}");
    }
    let c = dev_bound(mapped(bed), &dev);
    let outcome = c.sh("wc -c; stat -Lc %F /proc/self/fd/0").ok();
    assert_eq!(outcome.lines(), ["0", "fifo"], "{outcome}");
    let refused = with_null_output(&c, "true").exits(255);
    assert!(refused.stderr.contains("other than /dev/null"), "{refused}");
}

/// Starts a container with a host directory as its /dev.
fn dev_bound<'a>(bundle: Bundle<'a>, dev: &Path) -> Container<'a> {
    let bundle = bundle.unset("/linux/maskedPaths");
    bundle.mount("bind", dev.to_str().expect("path"), "/dev", &["rbind", "rw"]).make().detached()
}

/// Runs an exec whose standard output is /dev/null.
pub fn with_null_output(c: &Container<'_>, script: &str) -> Outcome {
    let (runtime, root) = (c.bed.runtime().to_string_lossy(), c.bed.root());
    let call = r#""$0" --root "$1" exec "$2" sh -c "$3" >/dev/null"#;
    let args = ["-c", call, &runtime, &root.to_string_lossy(), &c.id, script];
    c.bed.program("/bin/sh", &args).run()
}

/// Checks for bash: other shells can't redirect descriptors above 9.
fn bash() -> Result<(), String> {
    let found = ["/bin/bash", "/usr/bin/bash"].iter().any(|path| Path::new(path).exists());
    found.then_some(()).ok_or_else(|| "no bash".to_owned())
}

/// RLIMIT_NOFILE applies to the new process, not to descriptors that are open while the process is made.
fn more_descriptors_than_its_limit(bed: &Bed) {
    let path = bed.dir.join("shared");
    fs::write(&path, "shared\n").expect("write");
    for (soft, hard) in [(20, 20), (20, 1024)] {
        for bundle in [bed.bundle(), mapped(bed)] {
            let limit = json!([{ "type": "RLIMIT_NOFILE", "soft": soft, "hard": hard }]);
            let c = bundle.set("/process/rlimits", limit).make().detached();
            let (runtime, root) = (bed.runtime().to_string_lossy(), bed.root());
            let open: String =
                (3..53).map(|fd| format!("exec {fd}<{}; ", path.display())).collect();
            let script = format!(
                r#"{open} exec "$0" --root "$1" exec --preserve-fds 50 "$2" \
                sh -c 'ulimit -Sn; ulimit -Hn; readlink /proc/self/fd/52'"#
            );
            let args = ["-c", &script, &runtime, &root.to_string_lossy(), &c.id];
            let outcome = bed.program("bash", &args).run().ok();
            assert_eq!(outcome.stdout, format!("{soft}\n{hard}\n{}\n", path.display()));
        }
    }
}
