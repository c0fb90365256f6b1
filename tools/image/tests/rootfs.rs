//! `dayfly rootfs`: mount, list, unmount, and garbage collection after a kill. Needs root, and mounts only in a mount
//! namespace of its own.

use std::path::Path;
use std::process::{Command, Output};

/// The beginning of each case's shell script: creates three layers and a file that lists them, and defines two
/// functions. `run` appends the case's own lines, and executes the script in a private mount namespace.
const PREPARE: &str = r#"
set -eu
export DAYFLY_IDS=$T/ids DAYFLY_STORE=$T/store
mkdir -p $T/layers/a $T/layers/b/dir $T/layers/c $T/at $T/store
chmod 700 $T/store
echo a >$T/layers/a/file; echo gone >$T/layers/a/gone; chmod 600 $T/layers/a/file
mknod $T/layers/b/gone c 0 0
echo c >$T/layers/c/top
printf '%s\n' $T/layers/a $T/layers/b $T/layers/c >$T/list
first() { "$R" rootfs ids --format json | sed -n 's/.*"first": \([0-9]*\).*/\1/p'; }
left() { find $T/store $T/ids -mindepth 1 | grep -v -e '/containers$' -e '/mounts$' -e '/lock$' || true; }
"#;

fn run(name: &str, script: &str) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs root");
        return None;
    }
    let dir = std::env::temp_dir().join(format!("dayfly-rootfs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("mkdir");
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", &format!("{PREPARE}{script}")])
        .env("T", &dir)
        .env("R", env!("CARGO_BIN_EXE_dayfly-image"))
        .output()
        .expect("unshare");
    std::fs::remove_dir_all(Path::new(&dir)).expect("clear up");
    Some(output)
}

#[track_caller]
fn says(name: &str, script: &str, expected: &str) {
    let Some(output) = run(name, script) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, expected, "{errors}");
    assert!(output.status.success(), "{errors}");
}

#[test]
fn mounted_listed_and_taken_away() {
    says(
        "life",
        r#"
"$R" rootfs mount $T/list $T/at --uid-range auto
ls $T/at
test "$(stat -c %u $T/at/file)" = "$(first)" && echo shifted
stat -c %u $T/layers/a/file
echo changed >$T/at/file
"$R" rootfs ls | tail -1 | awk '{ print $3, $5 }'
"$R" rootfs mount $T/list $T/at 2>&1 | sed "s|$T|T|" || true
"$R" rootfs umount $T/at
ls $T/at
cat $T/layers/a/file
left
"$R" rootfs umount $T/at 2>&1 | sed "s|$T|T|" || true
"#,
        "dir\nfile\ntop\nshifted\n0\n3 mounted\nerror: T/at is mounted already, or about to be\na\n\
         error: T/at was not mounted by dayfly\n",
    );
}

#[test]
fn every_mode() {
    says(
        "modes",
        r#"
for mode in auto copy per-layer parent; do
    "$R" rootfs mount $T/list $T/at --uid-range 5000000:65536 --rootfs-mode $mode
    echo $(ls $T/at) $(stat -c %u $T/at/file)
    grep -c $T /proc/self/mountinfo
    "$R" rootfs umount $T/at
done
"$R" rootfs mount $T/list $T/at --read-only
touch $T/at/new 2>/dev/null || echo refused
"$R" rootfs umount $T/at
"$R" rootfs mount $T/list $T/at --ephemeral
touch $T/at/new; find $T/store | grep -c /new || true
"$R" rootfs umount $T/at
left
"#,
        "dir file top 5000000\n1\ndir file top 5000000\n1\ndir file top 5000000\n1\n\
         dir file top 5000000\n1\nrefused\n0\n",
    );
}

#[test]
fn an_image_of_the_store_and_errors() {
    says(
        "image",
        r#"
mkdir -p $T/store/images/0123 $T/store/refs
cp $T/list $T/store/images/0123/layers
ln -s ../images/0123 $T/store/refs/a%2Fb:latest
"$R" rootfs mount a/b $T/at
cat $T/at/top
(cd $T/at; "$R" rootfs umount $T/at 2>&1 | sed "s|$T|T|")
"$R" rootfs umount $T/at
"$R" rootfs mount a/c $T/at 2>&1 | sed "s|$T|T|" || true
"$R" rootfs mount $T/list $T/at --uid-range 5 2>&1 || true
echo /no/such/layer >>$T/list
"$R" rootfs mount $T/list $T/at --uid-range auto 2>&1 || true
find $T/store/mounts $T/ids -mindepth 1
"#,
        "c\nerror: T/at is in use (--lazy unmounts it nevertheless)\n\
         error: no image a/c in T/store: \"dayfly image ls\" lists the images\n\
         error: --uid-range 5: must be auto, shared, host or START:COUNT\n\
         error: stat layer /no/such/layer: no such file or directory\n",
    );
}

/// Tests `gc` after SIGKILL at many moments.
#[test]
fn gc_removes_what_the_killed_left() {
    says(
        "gc",
        r#"
i=0
while [ $i -lt 40 ]; do
    "$R" rootfs mount $T/list $T/at --uid-range auto --rootfs-mode per-layer &
    pid=$!
    sleep 0.0$(printf %02d $i)
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    while umount $T/at 2>/dev/null; do :; done
    i=$((i + 1))
done
"$R" rootfs gc >/dev/null
left
grep -c $T /proc/self/mountinfo || true
"$R" rootfs ids | wc -l
# A container whose state went, and one that is there.
mkdir -p $T/store/containers/gone/upper $T/store/containers/here/upper $T/state/here
touch $T/state/here/record
ln -s $T/state/gone $T/store/containers/gone/owner
ln -s $T/state/here $T/store/containers/here/owner
"$R" rootfs gc
ls $T/store/containers
"#,
        "0\n1\n1 directory, 0 mounts, 0 ranges of ids removed\nhere\n",
    );
}

/// A mount disappears with its mount namespace. While the namespaces of some processes cannot be read, as in a sandbox,
/// `gc` keeps what another one may still have.
#[test]
fn gc_removes_what_went_with_its_namespace() {
    let readable = std::fs::read_dir("/proc").expect("read /proc").flatten().all(|entry| {
        let link = std::fs::read_link(entry.path().join("ns/mnt"));
        link.err().is_none_or(|error| error.kind() != std::io::ErrorKind::PermissionDenied)
    });
    let (ends, expected) = match readable {
        true => ("left", "stale\n"),
        false => ("left | grep -c /mounts/ >/dev/null && echo kept", "stale\nkept\n"),
    };
    says(
        "namespace",
        &format!(
            r#"
unshare -m "$R" rootfs mount $T/list $T/at --uid-range auto
"$R" rootfs ls | tail -1 | awk '{{ print $5 }}'
"$R" rootfs gc >/dev/null
{ends}
"#
        ),
        expected,
    );
}
