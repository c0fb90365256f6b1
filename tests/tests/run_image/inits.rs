//! `--init`: a first process that reaps orphans, forwards signals, and ends with the program's status.

use super::{
    background, call, delete, ends, image_of, nothing_is_left, programs, run, sh, users_layer,
};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, wait};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(an_init_reaps_and_passes_signals_on).unlike_runc().needs(programs),
    case!(an_init_ends_as_the_program_does).unlike_runc().needs(programs),
];

fn an_init_reaps_and_passes_signals_on(bed: &Bed) {
    image_of(bed, vec![]);
    // The orphans exit while the program does not wait for them.
    let script = "for i in 1 2 3; do (sleep 0 &); done; exec sleep 1000";
    let zombies = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null";
    for userns in ["host", "auto"] {
        let id = background(bed, &["--init", "--userns", userns], script);
        let list = |words: &str| call(bed, &["exec", &id, "sh", "-c", words]).run().stdout;
        wait::until_true("the program", || list("cat /proc/2/cmdline").starts_with("sleep"));
        wait::until_true("no zombie", || list(zombies).is_empty());
        assert!(list("cat /proc/1/cmdline").starts_with("/dev/init\0sh\0-c\0"), "{userns}");
        // The container can't write to the executable of the first process.
        let outcome = call(bed, &["exec", &id, "sh", "-c", "echo >>/dev/init"]).run();
        assert!(outcome.stderr.contains("/dev/init: "), "{outcome}");
        let outcome = call(bed, &["exec", &id, "sh", "-c", "echo >>/proc/1/exe"]).run();
        assert!(outcome.stderr.contains("/proc/1/exe: "), "{outcome}");
        call(bed, &["kill", &id, "TERM"]).run().ok();
        ends(bed, &id);
        delete(bed, &id);
    }
}

fn an_init_ends_as_the_program_does(bed: &Bed) {
    image_of(bed, vec![users_layer()]);
    sh(bed, &["--init"], "exit 7").exits(7);
    sh(bed, &["--init", "-u", "www", "--read-only"], "exit 3").exits(3);
    sh(bed, &["--init"], "kill -9 $$").exits(137);
    assert_eq!(
        sh(bed, &["--init"], "trap 'echo x' USR1; kill -USR1 1; sleep 0.2").ok().stdout,
        "x\n"
    );
    let id = bed.id();
    let outcome =
        run(bed, &["--init", "--name", &id, "--image", "test", "nosuch"]).run().exits(127);
    assert!(outcome.stderr.contains("error: exec nosuch: no such file or directory"), "{outcome}");
    nothing_is_left(bed);
}
