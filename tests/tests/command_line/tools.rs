//! Command lines of the tools, which the runtime executes under its own name.

use super::usage_error;
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, program};
use std::fs;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(what_was_meant).unlike_runc(),
    case!(empty_variable_of_a_tool).unlike_runc(),
    case!(alias_of_a_tool).unlike_runc(),
    case!(tools_list_their_commands).unlike_runc(),
    case!(every_command_has_its_own_name).unlike_runc(),
    case!(found_without_proc).unlike_runc(),
];

fn what_was_meant(bed: &Bed) {
    for (words, message, usage) in [
        (
            &["image", "pul"][..],
            "unrecognized subcommand 'pul'; did you mean pull?",
            "dayfly image <COMMAND>",
        ),
        (
            &["cgroup", "ls", "--formt", "json"],
            "unexpected argument '--formt' found; did you mean --format?",
            "dayfly cgroup ls",
        ),
        (
            &["host", "chekc"],
            "unrecognized subcommand 'chekc'; did you mean check?",
            "dayfly host <COMMAND>",
        ),
    ] {
        usage_error(bed, words, message, usage);
    }
}

fn alias_of_a_tool(bed: &Bed) {
    let store = bed.dir.join("images");
    fs::create_dir(&store).expect("store");
    let images = bed.call_bare(&["images"]).env("DAYFLY_STORE", store.to_str().expect("path"));
    images.run().ok();
}

/// An empty variable counts as unset, as it does for `dayfly run`.
fn empty_variable_of_a_tool(bed: &Bed) {
    bed.call_bare(&["image", "ls"]).env("DAYFLY_STORE", "").run().ok();
}

fn tools_list_their_commands(bed: &Bed) {
    for (tool, command) in [
        ("image", "import"),
        ("bench", "burst"),
        ("cgroup", "classify"),
        ("host", "check"),
        ("profile", "learn"),
    ] {
        let outcome = bed.call_bare(&[tool]).run().exits(1);
        assert!(outcome.stderr.contains(command), "{outcome}");
        let outcome = bed.call_bare(&[tool, "--help"]).run().ok();
        assert!(outcome.stdout.contains(command), "{outcome}");
    }
}

fn every_command_has_its_own_name(bed: &Bed) {
    for (words, usage) in [
        (&["gc"][..], "dayfly gc"),
        (&["rootfs", "gc"], "dayfly rootfs gc"),
        (&["image", "gc"], "dayfly image gc"),
        (&["trace"], "dayfly trace"),
        (&["bench", "start"], "dayfly bench start"),
        (&["bench"], "dayfly bench <COMMAND>"),
    ] {
        let help = bed.call_bare(&[words, &["--help"]].concat()).run().ok().stdout;
        assert!(help.contains(&format!("\nUsage: {usage}")), "{words:?}: {help}");
    }
    let outcome = bed.call_bare(&["gc", "--bogus"]).run().exits(1);
    assert!(outcome.stderr.contains("\nUsage: dayfly gc"), "{outcome}");
}

/// As in a chroot, where /proc/self/exe does not say where dayfly is.
fn found_without_proc(bed: &Bed) {
    let [bin, libexec] = ["bin", "libexec/dayfly"].map(|name| bed.dir.join(name));
    for directory in [&bin, &libexec] {
        fs::create_dir_all(directory).expect("mkdir");
    }
    std::os::unix::fs::symlink(bed.runtime(), bin.join("dayfly")).expect("link");
    program::write(&libexec.join("dayfly-image"), "#!/bin/sh\necho found: \"$@\"\n");
    let bin = bin.to_str().expect("path");
    for call in [format!("{bin}/dayfly image ls"), format!("PATH={bin}:$PATH; dayfly image ls")] {
        let outcome =
            bed.program("unshare", &["-m", "sh", "-c", &format!("umount -l /proc; {call}")]);
        assert_eq!(outcome.run().ok().stdout, "found: image ls\n", "{call}");
    }
}
