//! The kinds of mounts.

use super::*;

#[test]
fn what_lies_below_a_bind_mount_is_outside() {
    let bind = |recursive| Sort::Bind { recursive };
    let places = [
        (String::from("/data"), bind(true)),
        (String::from("/data/tmp"), Sort::Own),
        (String::from("/one"), bind(false)),
        (String::from("/proc"), Sort::Own),
    ];
    for (point, expected) in [
        ("/data", true),
        ("/data/disk", true),
        ("/database", false),
        ("/data/tmp", false),
        ("/data/tmp/x", false),
        ("/one", true),
        ("/one/two", false),
        ("/proc/keys", false),
        ("/", false),
    ] {
        assert_eq!(is_outside(&places, point), expected, "{point}");
    }
}
