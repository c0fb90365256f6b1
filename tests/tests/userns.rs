//! User namespaces: mappings, ownership, devices, exec.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::kernel::has_detached;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(maps_are_written),
    case!(root_inside_is_nobody_outside),
    case!(files_made_inside_belong_to_the_mapped_user),
    case!(devices_are_bound),
    case!(devices_as_they_are_asked_for).needs(has_detached).unlike_runc(),
    case!(devices_of_who_may_not_make_them).unlike_runc(),
    case!(devices_can_be_mapped_to_be_executed),
    case!(sysfs_of_the_hosts_network).unlike_runc(),
    case!(terminal_files_and_pts),
    case!(namespaces_belong_to_it),
    case!(exec_enters_it),
    case!(kernel_file_systems),
    case!(file_systems_are_its_roots),
    case!(capabilities_end_at_the_namespace),
    case!(second_user_of_the_range),
    case!(join_by_path),
    case!(namespace_without_mappings).unlike_runc(),
    case!(several_ranges),
    case!(no_way_around_the_masks).unlike_runc(),
    case!(setgroups),
];

/// Returns a bundle whose root has the host id 100000.
pub fn mapped(bed: &Bed) -> Bundle<'_> {
    let bundle = bed.bundle();
    owned_by_the_mapped_user(&bundle.rootfs());
    bundle
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]))
        .set("/linux/gidMappings", json!([{ "containerID": 0, "hostID": 200_000, "size": 65_536 }]))
}

/// Gives a directory and what is in it to root of the user namespace of [`mapped`].
pub fn owned_by_the_mapped_user(dir: &std::path::Path) {
    chown(dir, Some(100_000), Some(200_000)).expect("chown");
    for entry in fs::read_dir(dir).expect("read").flatten() {
        let path = entry.path();
        if entry.file_type().expect("type").is_dir() && entry.file_name() != "bin" {
            owned_by_the_mapped_user(&path);
        }
    }
}

fn maps_are_written(bed: &Bed) {
    let outcome =
        mapped(bed).sh("cat /proc/self/uid_map /proc/self/gid_map; id -u; id -g").make().run().ok();
    let words: Vec<Vec<&str>> =
        outcome.lines().iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words,
        [vec!["0", "100000", "65536"], vec!["0", "200000", "65536"], vec!["0"], vec!["0"]]
    );
}

fn root_inside_is_nobody_outside(bed: &Bed) {
    let c = mapped(bed).make().detached();
    let process = fs::metadata(format!("/proc/{}", c.pid())).expect("process");
    assert_eq!((process.uid(), process.gid()), (100_000, 200_000));
}

fn files_made_inside_belong_to_the_mapped_user(bed: &Bed) {
    let c = mapped(bed).sh("touch /tmp/made; stat -c %u:%g /tmp/made").make();
    assert_eq!(c.run().ok().stdout, "0:0\n");
    let made = fs::metadata(c.bundle.join("rootfs/tmp/made")).expect("made");
    assert_eq!((made.uid(), made.gid()), (100_000, 200_000));
}

fn devices_are_bound(bed: &Bed) {
    let script = "for n in null zero full random urandom tty; do stat -c '%n %t:%T' /dev/$n; done; grep -c ' /dev/null ' /proc/self/mounts; echo x >/dev/null && echo works";
    let outcome = mapped(bed).sh(script).make().run().ok();
    assert_eq!(
        outcome.lines(),
        [
            "/dev/null 1:3",
            "/dev/zero 1:5",
            "/dev/full 1:7",
            "/dev/random 1:8",
            "/dev/urandom 1:9",
            "/dev/tty 5:0",
            "1",
            "works",
        ]
    );
}

/// A device has the requested number, mode and owner, even if the host's device of that name has others. runc
/// bind-mounts the host's device instead.
fn devices_as_they_are_asked_for(bed: &Bed) {
    let node = |path: &str, mode: u32, uid: u32, gid: u32| {
        json!({ "path": path, "type": "c", "major": 1, "minor": 3, "fileMode": mode,
            "uid": uid, "gid": gid })
    };
    let devices = json!([
        node("/dev/foo", 0o640, 7, 8),
        node("/dev/sub/null", 0o604, 0, 5),
        node("/dev/null", 0o600, 1000, 0),
        { "path": "/dev/pipe", "type": "p", "fileMode": 0o622 },
        { "path": "/dev/disk", "type": "b", "major": 7, "minor": 200 },
    ]);
    let script = "stat -c '%n %F %t:%T %a %u:%g' /dev/foo /dev/sub/null /dev/null /dev/pipe /dev/disk /dev/zero
        echo x >/dev/foo && chmod 600 /dev/foo && stat -c %a /dev/foo";
    let show = |bundle: Bundle<'_>| {
        let rules = json!({ "devices": [{ "allow": true, "access": "rwm" }] });
        let bundle = bundle.set("/linux/resources", rules).set("/linux/devices", devices.clone());
        assert_eq!(
            bundle.sh(script).make().run().ok().lines(),
            [
                "/dev/foo character special file 1:3 640 7:8",
                "/dev/sub/null character special file 1:3 604 0:5",
                "/dev/null character special file 1:3 600 1000:0",
                "/dev/pipe fifo 0:0 622 0:0",
                "/dev/disk block special file 7:c8 666 0:0",
                "/dev/zero character special file 1:5 666 0:0",
                "600",
            ]
        );
    };
    show(mapped(bed));
    let first = mapped(bed).make().detached();
    let path = format!("/proc/{}/ns/user", first.pid());
    let joining = mapped(bed).join_namespace("user", &path);
    show(joining.unset("/linux/uidMappings").unset("/linux/gidMappings"));
}

/// If the runtime's root lacks CAP_MKNOD on the host, as in a container, the container gets the host's devices. They
/// appear as owned by nobody, and are on read-only mounts.
fn devices_of_who_may_not_make_them(bed: &Bed) {
    let masked = mapped(bed).set("/linux/maskedPaths", json!(["/proc/keys"]));
    let script = "stat -c '%t:%T %u' /dev/null /dev/zero
        chmod 600 /dev/null 2>/dev/null || echo kept; echo x >/dev/null; cat /proc/keys
        grep -c ' /dev/null ro,' /proc/self/mountinfo";
    let c = masked.sh(script).make();
    let dir = c.bundle.to_string_lossy().into_owned();
    let (runtime, root) = (bed.runtime().to_string_lossy(), bed.root());
    let without = ["--bounding-set=-mknod", "--inh-caps=-mknod", &runtime, "--root"];
    let call = [&root.to_string_lossy(), "run", "--bundle", &dir, &c.id];
    let outcome = bed.program("setpriv", &[&without[..], &call].concat()).run().ok();
    assert_eq!(outcome.lines(), ["1:3 65534", "1:5 65534", "kept", "1"]);
}

/// mmap(2) with PROT_EXEC fails on a noexec mount: SGX and some compilers need to map a device in this way.
fn devices_can_be_mapped_to_be_executed(bed: &Bed) {
    let script = "import mmap, os, sys; file = os.open(sys.argv[1], os.O_RDWR); \
        mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)";
    let c = mapped(bed).make().detached();
    let path = format!("/proc/{}/root/dev/zero", c.pid());
    bed.program("python3", &["-c", script, &path]).run().ok();
}

/// Mounting sysfs requires owning the network namespace. If the container does not own it, the host's sysfs is
/// bind-mounted read-only with all mounts below it, as crun does.
fn sysfs_of_the_hosts_network(bed: &Bed) {
    let script = "ls /sys/class/net; mkdir /sys/fs/cgroup/x; grep -c ' /sys ' /proc/self/mounts
        grep ' /sys[ /]' /proc/self/mountinfo | cut -d' ' -f5,6 | grep -v '^/sys/fs/cgroup' | grep -v ' ro,'";
    let nets = |bundle: Bundle<'_>| {
        let outcome = bundle.without_namespace("network").sh(script).make().run();
        let outcome = outcome.exits(1);
        assert!(outcome.lines().contains(&"lo"), "{outcome}");
        assert_eq!(outcome.lines().last(), Some(&"1"), "a mount that is not read-only: {outcome}");
    };
    nets(mapped(bed));
    let sysfs = json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
        "options": ["nosuid", "noexec", "nodev", "ro", "strictatime"] });
    nets(mapped(bed).remount("/sys", sysfs));
    let first = mapped(bed).make().detached();
    let path = format!("/proc/{}/ns/user", first.pid());
    let joining = || mapped(bed).join_namespace("user", &path);
    nets(joining().unset("/linux/uidMappings").unset("/linux/gidMappings"));
    // If the container's user namespace owns the network namespace, a new sysfs is mounted.
    let net = format!("/proc/{}/ns/net", first.pid());
    let own = joining().unset("/linux/uidMappings").unset("/linux/gidMappings");
    let own = own.join_namespace("network", &net).sh("ls /sys/class/net").make();
    assert_eq!(own.run().ok().stdout, "lo\n");
}

fn terminal_files_and_pts(bed: &Bed) {
    let outcome =
        mapped(bed).sh("ls /dev/pts; readlink /dev/ptmx; ls -ln /dev/fd").make().run().ok();
    assert_eq!(outcome.lines()[..2], ["ptmx", "pts/ptmx"]);
}

fn namespaces_belong_to_it(bed: &Bed) {
    // Root of the user namespace may configure a network namespace that the user namespace owns.
    let caps = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"];
    let c = mapped(bed)
        .set(
            "/process/capabilities",
            json!({ "effective": caps, "permitted": caps, "bounding": caps }),
        )
        .sh("ip link set lo down && ip link set lo up && hostname other && hostname")
        .make();
    assert_eq!(c.run().ok().stdout, "other\n");
}

fn exec_enters_it(bed: &Bed) {
    let c = mapped(bed).make().detached();
    let outcome = c
        .sh("readlink /proc/self/ns/user; readlink /proc/1/ns/user; cat /proc/self/uid_map; id -u")
        .ok();
    let lines = outcome.lines();
    assert_eq!(lines[0], lines[1]);
    assert!(lines[2].contains("100000"));
    assert_eq!(lines[3], "0");
    assert_eq!(c.exec_with(&["-u", "1000:1000"], &["id", "-u"]).ok().stdout, "1000\n");
}

fn kernel_file_systems(bed: &Bed) {
    let outcome = mapped(bed).sh("grep -E ' /(proc|sys|dev|dev/shm|dev/pts|dev/mqueue) ' /proc/self/mounts | cut -d' ' -f2,3").make().run().ok();
    let mut lines = outcome.lines();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "/dev tmpfs",
            "/dev/mqueue mqueue",
            "/dev/pts devpts",
            "/dev/shm tmpfs",
            "/proc proc",
            "/sys sysfs"
        ]
    );
}

/// The mqueue file system is created together with its IPC namespace. Its root appears as owned by nobody unless root
/// of the container has created that namespace.
fn file_systems_are_its_roots(bed: &Bed) {
    let show = "stat -c '%u %n' /dev /dev/pts /dev/shm /dev/mqueue";
    let expected = ["0 /dev", "0 /dev/pts", "0 /dev/shm", "0 /dev/mqueue"];
    assert_eq!(mapped(bed).sh(show).make().run().ok().lines(), expected);
    let first = mapped(bed).make().detached();
    let joining = mapped(bed)
        .join_namespace("user", &format!("/proc/{}/ns/user", first.pid()))
        .unset("/linux/uidMappings")
        .unset("/linux/gidMappings");
    assert_eq!(joining.sh(show).make().run().ok().lines(), expected);
}

fn capabilities_end_at_the_namespace(bed: &Bed) {
    let caps = ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_SYS_TIME"];
    let c = mapped(bed)
        .set(
            "/process/capabilities",
            json!({ "effective": caps, "permitted": caps, "bounding": caps }),
        )
        .sh("mknod /tmp/sda b 8 0; date -s 2020-01-01")
        .make();
    let outcome = c.run();
    assert_eq!(outcome.stderr.matches("Operation not permitted").count(), 2, "{outcome}");
}

fn second_user_of_the_range(bed: &Bed) {
    let c = mapped(bed)
        .set("/process/user", json!({ "uid": 1000, "gid": 1000, "additionalGids": [2000] }))
        .sh("id -u; id -G; touch /tmp/mine")
        .make();
    assert_eq!(c.run().ok().stdout, "1000\n1000 2000\n");
    let made = fs::metadata(c.bundle.join("rootfs/tmp/mine")).expect("made");
    assert_eq!((made.uid(), made.gid()), (101_000, 201_000));
}

fn join_by_path(bed: &Bed) {
    let first = mapped(bed).make().detached();
    let pid = first.pid();
    let second = bed.bundle();
    owned_by_the_mapped_user(&second.rootfs());
    let second = second
        .push(
            "/linux/namespaces",
            json!({ "type": "user", "path": format!("/proc/{pid}/ns/user") }),
        )
        .make()
        .detached();
    assert_eq!(
        fs::read_link(format!("/proc/{pid}/ns/user")).expect("first"),
        fs::read_link(format!("/proc/{}/ns/user", second.pid())).expect("second"),
    );
}

fn namespace_without_mappings(bed: &Bed) {
    // Some callers configure no mappings and rely on default ones; runc refuses such a configuration.
    let c = bed
        .bundle()
        .push("/linux/namespaces", json!({ "type": "user" }))
        .sh("id -u; wc -l </proc/self/uid_map")
        .make();
    assert_eq!(c.run().ok().stdout, "0\n1\n");
}

fn several_ranges(bed: &Bed) {
    let map = json!([
        { "containerID": 0, "hostID": 100_000, "size": 10 },
        { "containerID": 10, "hostID": 300_000, "size": 100 },
        { "containerID": 1000, "hostID": 500_000, "size": 1 },
    ]);
    let outcome = mapped(bed)
        .set("/linux/uidMappings", map)
        .sh("wc -l </proc/self/uid_map; cat /proc/self/uid_map | tail -1")
        .make()
        .run()
        .ok();
    assert_eq!(outcome.lines()[0], "3");
    assert_eq!(outcome.lines()[1].split_whitespace().collect::<Vec<_>>(), ["1000", "500000", "1"]);
}

fn no_way_around_the_masks(bed: &Bed) {
    // Root of a user namespace, as engines configure it, can get around the masks neither by a new proc nor by
    // unmounting. Even with all capabilities in that namespace, it can't reach the host's tree. (With CAP_SYS_ADMIN it
    // can remove the masks themselves, as with runc, because the user namespace owns the mount namespace.)
    let script = "cat /proc/keys; mkdir -p /tmp/p; mount -t proc proc /tmp/p && cat /tmp/p/keys; \
                  umount /proc/keys; umount -l /; cat /proc/keys; ls /";
    for caps in [&["CAP_SYS_CHROOT", "CAP_DAC_OVERRIDE"][..], &["CAP_SYS_ADMIN", "CAP_SYS_CHROOT"]]
    {
        let c = mapped(bed)
            .set(
                "/process/capabilities",
                json!({ "effective": caps, "permitted": caps, "bounding": caps }),
            )
            .sh(script)
            .make();
        let outcome = c.run();
        let admin = caps.contains(&"CAP_SYS_ADMIN");
        assert!(admin || !outcome.stdout.contains("keyring"), "{outcome}");
        assert!(!outcome.stdout.contains("boot"), "the host's root: {outcome}");
    }
}

fn setgroups(bed: &Bed) {
    let outcome = mapped(bed).sh("cat /proc/self/setgroups; id -G").make().run().ok();
    assert_eq!(outcome.stdout, "allow\n0\n");
}
