//! Id-mapped mounts: the owners of files, inside and outside.

use crate::binds::{Nested, host_dir, text};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(mappings_of_its_own),
    case!(mappings_say_it_without_the_option),
    case!(files_are_written_through),
    case!(who_is_not_mapped_cannot_write),
    case!(the_containers_own_user_namespace),
    case!(a_joined_user_namespace),
    case!(mappings_of_its_own_in_a_user_namespace),
    case!(several_ranges_and_single_files),
    case!(idmap_is_of_one_mount),
    case!(ridmap_is_recursive),
    case!(other_options_go_with_it),
    case!(exec_sees_the_same),
    case!(one_user_namespace_for_each_mapping).unlike_runc(),
    case!(a_filesystem_that_cannot),
    case!(not_only_some_mappings),
    case!(only_bind_mounts),
    case!(ranges_that_overlap),
    case!(ranges_of_the_option).unlike_runc(),
    case!(options_that_are_no_ranges).unlike_runc(),
];

fn map(host: u32, size: u32) -> Value {
    json!([{ "containerID": 0, "hostID": host, "size": size }])
}

/// Returns a mount that maps uids 0 to 1999 to 100000 and up, and gids 0 to 1999 to 200000 and up.
fn bind(source: &Path, options: &[&str]) -> Value {
    json!({
        "destination": "/mnt", "type": "bind", "source": source, "options": options,
        "uidMappings": map(100_000, 2000), "gidMappings": map(200_000, 2000),
    })
}

fn with(bed: &Bed, mount: Value) -> Bundle<'_> {
    bed.bundle().push("/mounts", mount)
}

/// Makes a directory with files of root and of user 1000.
fn files(bed: &Bed) -> PathBuf {
    let dir = host_dir(bed, "files");
    fs::write(dir.join("user"), "").expect("write");
    chown(dir.join("user"), Some(1000), Some(1001)).expect("chown");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("chmod");
    dir
}

fn owner(path: &Path) -> (u32, u32) {
    let file = fs::metadata(path).expect("file");
    (file.uid(), file.gid())
}

const STAT: &str = "stat -c %u:%g /mnt/inside /mnt/user";

fn mappings_of_its_own(bed: &Bed) {
    let dir = files(bed);
    let c = with(bed, bind(&dir, &["bind", "idmap"])).sh(STAT).make();
    assert_eq!(c.run().ok().stdout, "100000:200000\n101000:201001\n");
    assert_eq!(owner(&dir.join("inside")), (0, 0), "the host sees them as they are");
    assert_eq!(owner(&dir.join("user")), (1000, 1001));
}

fn mappings_say_it_without_the_option(bed: &Bed) {
    let c = with(bed, bind(&files(bed), &["rbind"])).sh(STAT).make();
    assert_eq!(c.run().ok().stdout, "100000:200000\n101000:201001\n");
}

fn files_are_written_through(bed: &Bed) {
    let dir = files(bed);
    let c = with(bed, bind(&dir, &["bind", "idmap"]))
        .set("/process/user", json!({ "uid": 100_005, "gid": 200_006 }))
        .sh("echo by five >/mnt/new && stat -c %u:%g /mnt/new")
        .make();
    assert_eq!(c.run().ok().stdout, "100005:200006\n");
    assert_eq!(owner(&dir.join("new")), (5, 6));
    assert_eq!(fs::read_to_string(dir.join("new")).expect("read"), "by five\n");
}

fn who_is_not_mapped_cannot_write(bed: &Bed) {
    let dir = files(bed);
    let c = with(bed, bind(&dir, &["bind", "idmap"])).sh("echo x >/mnt/new").make();
    let outcome = c.run().exits(1);
    assert!(outcome.stderr.contains("Value too large"), "{outcome}");
    assert!(!dir.join("new").exists());
}

fn the_containers_own_user_namespace(bed: &Bed) {
    let dir = files(bed);
    let script = format!("{STAT}; touch /mnt/new");
    let run = |options: &[&str]| {
        let mount = json!({ "destination": "/mnt", "source": &dir, "options": options });
        mapped(bed).push("/mounts", mount).sh(&script).make().run()
    };
    // Without the option, the files appear as owned by nobody.
    assert_eq!(run(&["bind"]).stdout, "65534:65534\n65534:65534\n");
    fs::remove_file(dir.join("new")).expect("root of the container may write here");
    assert_eq!(run(&["bind", "idmap"]).ok().stdout, "0:0\n1000:1001\n");
    assert_eq!(owner(&dir.join("new")), (0, 0));
}

fn a_joined_user_namespace(bed: &Bed) {
    let dir = files(bed);
    let first = mapped(bed).make().detached();
    let mount = json!({ "destination": "/mnt", "source": &dir, "options": ["rbind", "ridmap"] });
    let second = mapped(bed)
        .unset("/linux/uidMappings")
        .unset("/linux/gidMappings")
        .join_namespace("user", &format!("/proc/{}/ns/user", first.pid()))
        .push("/mounts", mount)
        .sh(&format!("{STAT}; touch /mnt/new"))
        .make();
    assert_eq!(second.run().ok().stdout, "0:0\n1000:1001\n");
    assert_eq!(owner(&dir.join("new")), (0, 0));
}

fn mappings_of_its_own_in_a_user_namespace(bed: &Bed) {
    let mount = json!({
        "destination": "/mnt", "source": files(bed), "options": ["bind", "idmap"],
        "uidMappings": map(100_500, 2000), "gidMappings": map(200_600, 2000),
    });
    let c = mapped(bed).push("/mounts", mount).sh(STAT).make();
    assert_eq!(c.run().ok().stdout, "500:600\n1500:1601\n");
}

fn several_ranges_and_single_files(bed: &Bed) {
    let ranges = json!([
        { "containerID": 0, "hostID": 7, "size": 1 },
        { "containerID": 1000, "hostID": 70, "size": 10 },
    ]);
    let mount = json!({
        "destination": "/mnt/user", "source": files(bed).join("user"), "options": ["bind", "idmap"],
        "uidMappings": ranges, "gidMappings": ranges,
    });
    let c = with(bed, mount).sh("stat -c %u:%g /mnt/user").make();
    assert_eq!(c.run().ok().stdout, "70:71\n");
}

const NESTED: &str = "stat -c %u:%g /mnt/inside /mnt/sub/deep";

fn idmap_is_of_one_mount(bed: &Bed) {
    let nested = Nested::new(bed, "outer");
    let c = with(bed, bind(&nested.dir, &["rbind", "idmap"])).sh(NESTED).make();
    assert_eq!(c.run().ok().stdout, "100000:200000\n0:0\n");
}

fn ridmap_is_recursive(bed: &Bed) {
    let nested = Nested::new(bed, "outer");
    let c = with(bed, bind(&nested.dir, &["rbind", "ridmap"])).sh(NESTED).make();
    assert_eq!(c.run().ok().stdout, "100000:200000\n100000:200000\n");
}

fn other_options_go_with_it(bed: &Bed) {
    let options = ["bind", "idmap", "ro", "nosuid", "noatime"];
    let c = with(bed, bind(&files(bed), &options))
        .sh("grep ' /mnt ' /proc/self/mountinfo; stat -c %u /mnt/user")
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.contains("/mnt ro,nosuid,noatime,idmapped "), "{outcome}");
    assert!(outcome.stdout.ends_with("\n101000\n"), "{outcome}");
}

fn exec_sees_the_same(bed: &Bed) {
    let dir = files(bed);
    let c = with(bed, bind(&dir, &["bind", "idmap"])).make().detached();
    assert_eq!(c.sh(STAT).ok().stdout, "100000:200000\n101000:201001\n");
    c.exec_with(&["-u", "100007:200008"], &["touch", "/mnt/by-exec"]).ok();
    assert_eq!(owner(&dir.join("by-exec")), (7, 8));
}

fn one_user_namespace_for_each_mapping(bed: &Bed) {
    let dir = files(bed);
    let at = |destination: &str, host: u32| {
        json!({
            "destination": destination, "source": &dir, "options": ["bind", "idmap"],
            "uidMappings": map(host, 1), "gidMappings": map(host, 1),
        })
    };
    let c = with(bed, at("/mnt/a", 5))
        .push("/mounts", at("/mnt/b", 6))
        .push("/mounts", at("/mnt/c", 5));
    let c = c.sh("stat -c %u /mnt/*/inside").make();
    let plan = bed.call(&["plan", text(&c.bundle)]).run().ok();
    assert_eq!(plan.stdout.matches("make user namespace").count(), 2, "{plan}");
    assert_eq!(c.run().ok().stdout, "5\n6\n5\n");
}

fn a_filesystem_that_cannot(bed: &Bed) {
    let c = with(bed, bind(Path::new("/proc/sys"), &["bind", "idmap"])).make();
    let outcome = c.create().fails("failed to set MOUNT_ATTR_IDMAP on /proc/sys");
    assert!(
        outcome.stderr.contains("maybe the filesystem used doesn't support idmap"),
        "{outcome}"
    );
    assert!(outcome.stderr.contains("nvalid argument"), "{outcome}");
    assert!(!c.exists());
}

fn not_only_some_mappings(bed: &Bed) {
    let both = "id-mapped mounts must have both uid and gid mappings specified";
    let bare = json!({ "destination": "/mnt", "source": "/tmp", "options": ["bind", "idmap"] });
    with(bed, bare).make().create().fails(both);
    for only in ["uidMappings", "gidMappings"] {
        let mut mount = bind(Path::new("/tmp"), &["bind"]);
        mount[only] = json!([]);
        let c = with(bed, mount).make();
        c.create().fails(both);
        assert!(!c.exists());
    }
}

fn only_bind_mounts(bed: &Bed) {
    let mut mount = bind(Path::new("tmpfs"), &["idmap"]);
    mount["type"] = json!("tmpfs");
    with(bed, mount).make().create().fails("id-mapped mounts are only supported for bind-mounts");
}

fn ranges_that_overlap(bed: &Bed) {
    let mut mount = bind(&files(bed), &["bind", "idmap"]);
    mount["uidMappings"] = json!([
        { "containerID": 0, "hostID": 7, "size": 2 },
        { "containerID": 1, "hostID": 70, "size": 10 },
    ]);
    let c = with(bed, mount).make();
    let outcome = c.create();
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(!c.exists());
}

/// crun #873 and #874: crun's options with ranges, which Podman passes.
fn ranges_of_the_option(bed: &Bed) {
    let dir = files(bed);
    let mount = |options: &[&str]| json!({ "destination": "/mnt", "type": "bind", "source": dir, "options": options });
    for (option, owners) in [
        ("idmap=uids=0-5-2000;gids=0-6-2000", "5:6\n1005:1007\n"),
        ("ridmap=uids=0-5-1#1000-7-1;gids=0-6-2000", "5:6\n7:1007\n"),
    ] {
        let c = with(bed, mount(&["bind", option])).sh(STAT).make();
        assert_eq!(c.run().ok().stdout, owners, "{option}");
    }
    // An id after a `@` is one of the container's user namespace, which maps 0 to 100000 and 200000.
    for (option, owners) in [
        ("idmap=uids=0-100000-2000;gids=0-200000-2000", "0:0\n1000:1001\n"),
        ("idmap=uids=@0-0-2000;gids=@0-3-2000", "0:3\n1000:1004\n"),
        ("idmap=", "0:0\n1000:1001\n"),
    ] {
        let c = mapped(bed).push("/mounts", mount(&["rbind", option])).sh(STAT).make();
        assert_eq!(c.run().ok().stdout, owners, "{option}");
    }
}

fn options_that_are_no_ranges(bed: &Bed) {
    let dir = files(bed);
    for (option, why) in [
        ("idmap=uids=0-5-10", "uids and gids must both be mapped"),
        ("idmap=foo", "must be uids=RANGES;gids=RANGES"),
        ("idmap=uids=0-1;gids=0-0-1", "a range must be ID-HOSTID-SIZE"),
        ("idmap=uids=@0-70000-1;gids=0-0-1", "does not map a relative id"),
    ] {
        let mount = json!({
            "destination": "/mnt", "type": "bind", "source": dir, "options": ["bind", option],
        });
        mapped(bed).push("/mounts", mount).make().create().fails(why);
    }
}
