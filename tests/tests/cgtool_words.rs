//! Command lines of `dayfly cgroup` that are refused before anything is changed.

use crate::cgtool::{cgroup, tool};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[case!(wrong_words).needs(tool)];

fn wrong_words(bed: &Bed) {
    for (args, says) in [
        (&["set", "x"][..], "give KEY=VALUE, such as: db"),
        (&["set", "--copy-from", "y", "x", "memory.max=8M"], "give no KEY=VALUE"),
        (&["set", "memory.max=8M"], "give a group and KEY=VALUE"),
        (&["exec", "x"], "give a group and a command, such as"),
        (&["classify", "1", "x"], "\"x\" is no PID"),
        (&["pin", "db"], "give a group and the words for its CPUs"),
        (&["create", "-t", ":", "x"], "give USER:GROUP, USER or :GROUP"),
        (&["create", "-d", "999", "x"], "\"999\" is not a mode"),
    ] {
        cgroup(bed, args).fails_without_log(says);
    }
}
