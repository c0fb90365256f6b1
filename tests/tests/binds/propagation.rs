//! How binds propagate.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

use super::text;
use crate::userns::mapped;

/// Makes a shared mount on the host with another mount in it.
fn shared_tree(bed: &Bed) -> PathBuf {
    let dir = bed.dir.join("tree");
    fs::create_dir(&dir).expect("make");
    bed.program("mount", &["-t", "tmpfs", "tmpfs", text(&dir)]).run().ok();
    fs::create_dir(dir.join("sub")).expect("make");
    bed.program("mount", &["-t", "tmpfs", "tmpfs", text(&dir.join("sub"))]).run().ok();
    bed.program("mount", &["--make-rshared", text(&dir)]).run().ok();
    dir
}

pub(super) fn is_of_one_mount_or_of_all(bed: &Bed) {
    let dir = shared_tree(bed);
    // Prints the propagation of the tree's root and of the mount in it, from mountinfo: s(hared), m(aster),
    // u(nbindable).
    let look = r#"while read -r _ _ _ _ at _ rest; do case $at in /mnt*)
        rest=" ${rest%% - *} "; word=.
        case $rest in *" shared:"*) word=s$word;; esac
        case $rest in *" master:"*) word=m$word;; esac
        case $rest in *" unbindable "*) word=u$word;; esac
        echo "$word";; esac; done </proc/self/mountinfo"#;
    let outcomes: Vec<_> = [
        (&[][..], "m. m."),
        (&["private"], ". m."),
        (&["rprivate"], ". ."),
        (&["shared"], "ms. m."),
        (&["rshared"], "ms. ms."),
        (&["slave"], "m. m."),
        (&["unbindable"], "u. m."),
        (&["runbindable"], "u. u."),
        (&["rshared", "rslave"], "m. m."),
        (&["rprivate", "rslave"], ". ."),
        (&["rprivate", "shared"], "s. ."),
    ]
    .into_iter()
    .map(|(words, expected): (&[&str], &str)| {
        let options = [&["rbind"], words].concat();
        let c = bed.bundle().mount("bind", text(&dir), "/mnt", &options).sh(look).make();
        (words, expected, c.run())
    })
    .collect();
    let of_root =
        [("rprivate", &["rbind"][..], ". ."), ("rshared", &["rbind", "private"], "s. s.")].map(
            |(root, options, expected)| {
                let bundle = bed.bundle().set("/linux/rootfsPropagation", json!(root));
                let c = bundle.mount("bind", text(&dir), "/mnt", options).sh(look).make();
                (root, expected, c.run())
            },
        );
    bed.program("umount", &["-R", text(&dir)]).run().ok();
    for (words, expected, outcome) in outcomes {
        assert_eq!(outcome.ok().lines().join(" "), expected, "{words:?}");
    }
    for (root, expected, outcome) in of_root {
        assert_eq!(outcome.ok().lines().join(" "), expected, "the root is {root}");
    }
}

/// A mount below a shared one of the container becomes shared when it is attached. Its options count nevertheless.
pub(super) fn below_a_shared_mount(bed: &Bed) {
    let (dir, inner) = (shared_tree(bed), bed.dir.join("inner"));
    fs::create_dir(dir.join("made")).expect("make");
    fs::create_dir(&inner).expect("make");
    let outcomes = ["private", "unbindable"].map(|option| {
        let c = bed
            .bundle()
            .mount("bind", text(&dir), "/mnt", &["bind", "rshared"])
            .mount("bind", text(&inner), "/mnt/made", &["bind", option])
            .mount("tmpfs", "tmpfs", "/mnt/sub", &[option])
            .sh("grep -E ' /mnt/(made|sub) ' /proc/self/mountinfo")
            .make();
        (option, c.run())
    });
    bed.program("umount", &["-R", text(&dir)]).run().ok();
    for (option, outcome) in outcomes {
        let outcome = outcome.ok();
        assert_eq!(outcome.lines().len(), 2, "{outcome}");
        assert!(!outcome.stdout.contains("shared:"), "{option}: {outcome}");
        assert_eq!(outcome.stdout.contains(" unbindable "), option == "unbindable", "{outcome}");
    }
}

/// As above, without a mount namespace: the tree is detached, and its mounts keep what they become.
pub(super) fn below_a_shared_mount_of_no_namespace(bed: &Bed) {
    let (dir, inner) = (shared_tree(bed), bed.dir.join("inner"));
    fs::create_dir_all(inner.join("file")).expect("make");
    let outcomes = ["shared", "rprivate", "slave", "unbindable"].map(|option| {
        let c = bed
            .bundle()
            .without_namespace("mount")
            .unset("/linux/maskedPaths")
            .unset("/linux/readonlyPaths")
            .mount("bind", text(&dir), "/mnt", &["bind", "rshared"])
            .mount("bind", text(&inner), "/tmp", &["rbind", option])
            .sh("ls /tmp")
            .make();
        (option, c.run())
    });
    bed.program("umount", &["-R", text(&dir)]).run().ok();
    for (option, outcome) in outcomes {
        assert_eq!(outcome.ok().stdout, "file\n", "{option}");
    }
}

/// The container's mounts propagate to the host only if its root is shared. Then no option of the bind is needed.
pub(super) fn shared_is_not_shared_with_the_host(bed: &Bed) {
    let dir = shared_tree(bed);
    fs::create_dir(dir.join("made")).expect("make");
    let reaches_host = |bundle: Bundle<'_>, root: Option<&str>, options: &[&str]| {
        let bundle = match root {
            Some(root) => bundle.set("/linux/rootfsPropagation", json!(root)),
            None => bundle,
        };
        let c = bundle
            .push("/process/capabilities/bounding", json!("CAP_SYS_ADMIN"))
            .push("/process/capabilities/effective", json!("CAP_SYS_ADMIN"))
            .push("/process/capabilities/permitted", json!("CAP_SYS_ADMIN"))
            .mount("bind", text(&dir), "/mnt", options)
            .sh("mount -t tmpfs inside /mnt/made && echo mounted")
            .make();
        assert_eq!(c.run().ok().stdout, "mounted\n");
        let table = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let reaches = table.contains(" - tmpfs inside ");
        if reaches {
            bed.program("umount", &[text(&dir.join("made"))]).run().ok();
        }
        reaches
    };
    let outcomes = [
        (None, &["rbind", "rshared"][..], false),
        (Some("rshared"), &["rbind", "rshared"], true),
        (Some("rshared"), &["rbind"], true),
        (Some("shared"), &["rbind"], true),
        (Some("shared"), &["rbind", "rslave"], false),
        (Some("rslave"), &["rbind"], false),
    ]
    .map(|(root, options, expected)| {
        (root, options, expected, reaches_host(bed.bundle(), root, options))
    });
    let from_users = ["rshared", "shared"]
        .map(|root| reaches_host(mapped(bed), Some(root), &["rbind", "rshared"]));
    bed.program("umount", &["-R", text(&dir)]).run().ok();
    assert_eq!(from_users, [false, false], "from a user namespace");
    for (root, options, expected, reaches) in outcomes {
        assert_eq!(reaches, expected, "rootfsPropagation {root:?}, {options:?}");
    }
}
