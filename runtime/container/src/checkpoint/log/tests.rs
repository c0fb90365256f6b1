//! The names of logs, and the last error in one.

use super::*;

#[test]
fn logs_named_by_options() {
    let of = |text| log_option(text, "dump.log");
    assert_eq!(of("log-file own.log"), Some("own.log".into()));
    assert_eq!(
        of("# log-file no\ntcp-close\n  log-file\t/v/own.log # why\n"),
        Some("/v/own.log".into())
    );
    assert_eq!(of("work-dir=\"/w\"\nlog-file=a\nlog-file b"), Some("/w/b".into()));
    assert_eq!(of("work-dir /w"), Some("/w/dump.log".into()));
    assert_eq!(of("log-file\nshell-job"), None);
}

#[test]
fn the_last_that_says_something() {
    let log = "(00.05) Error (criu/util.c:1534): rlimit: no\n(00.06) Warn  (a): b\n\
               (00.07) Error (criu/tty.c:1861): tty: Found dangling tty with sid 1 (pts)\n\
               (00.07) Error (criu/cr-dump.c:1584): Dump core (pid: 28) failed with -1\n\
               (00.08) 1: Error (criu/cr-dump.c:2128): Dumping FAILED.\n\
               (00.09) Error (criu/cgroup.c:2055): cg: cgroupd: recv req error: No such file\n";
    assert_eq!(
        last_error(log).as_deref(),
        Some("Error (criu/tty.c:1861): tty: Found dangling tty with sid 1 (pts)")
    );
    assert_eq!(
        last_error("(00.1) Error (x:1): Dumping FAILED.").as_deref(),
        Some("Error (x:1): Dumping FAILED.")
    );
    assert_eq!(last_error("(00.1) all is well\n"), None);
}
