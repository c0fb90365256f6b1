//! Ids of containers from layers: ranges of their own, mappings, and capabilities of files.

use super::{FIRST_ID, call, id_call, modes};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use rustix::fs::{XattrFlags, setxattr};
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(ranges_keep_containers_apart).unlike_runc(),
    case!(a_range_outlives_its_owners_path).unlike_runc(),
    case!(a_range_that_is_shared).unlike_runc(),
    case!(file_capabilities_are_the_containers).unlike_runc().needs(files_may_raise_privileges),
    case!(the_mappings_of_the_configuration).unlike_runc(),
];

/// The mode `copy` copies to the file system of the beds.
fn files_may_raise_privileges() -> Result<(), String> {
    let flags =
        rustix::fs::statvfs(std::env::temp_dir()).map_err(|error| error.to_string())?.f_flag;
    match flags.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
        true => Err("the directory for temporary files is mounted nosuid".into()),
        false => Ok(()),
    }
}

/// Returns the first host id of a running container.
fn first_id(c: &Container<'_>) -> u32 {
    let map = fs::read_to_string(format!("/proc/{}/uid_map", c.pid())).expect("uid_map");
    let numbers: Vec<u32> = map.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!((numbers[0], numbers[2]), (0, 65536), "{map}");
    numbers[1]
}

fn ranges_keep_containers_apart(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    let start = |bundle: Bundle<'_>| {
        let c = bundle.make();
        let id = c.id.clone();
        call(&c, "run", &layers, &["--detach", "--userns", "auto"]).run().ok();
        (first_id(&c), id)
    };
    let one = bed.bundle().make();
    call(&one, "run", &layers, &["--detach", "--userns", "auto"]).run().ok();
    let first = first_id(&one);
    assert!(first >= FIRST_ID && (first - FIRST_ID).is_multiple_of(65536), "{first}");
    one.sh("echo mine >/mine; chmod 600 /mine /secret; chmod 755 /").ok();
    let root = layers.store.join("containers").join(&one.id).join("upper");
    assert_eq!(fs::metadata(root.join("mine")).expect("file").uid(), first);
    // A hard link imitates the case that the second container has access to the first one's files.
    let shared = bed.dir.join("shared");
    fs::create_dir(&shared).expect("mkdir");
    fs::hard_link(root.join("mine"), shared.join("mine")).expect("link");
    let script = "exec 2>&1; cat /shared/mine; cat /secret; stat -c %u /shared/mine; sleep 1000";
    let two =
        bed.bundle().mount("bind", &shared.to_string_lossy(), "/shared", &["bind"]).sh(script);
    let two = two.make();
    let outcome = call(&two, "run", &layers, &["--detach", "--userns", "auto"]).run().ok();
    let said = outcome.wait_output("65534");
    assert_ne!(first_id(&two), first);
    assert!(said.contains("Permission denied") && said.contains("of root\n"), "{said}");
    assert!(!said.contains("mine\n\n") && !said.starts_with("mine"), "{said}");
    for c in [&one, &two] {
        id_call(c, "delete", &["--force"], &layers).run().ok();
    }
    let (again, id) = start(bed.bundle());
    assert!(again >= FIRST_ID, "{id}");
    bed.call(&["delete", "--force", &id])
        .env("DAYFLY_IDS", &layers.leases.to_string_lossy())
        .run()
        .ok();
    assert_eq!(layers.left(), Vec::<String>::new());
}

/// A range stays taken even if the directory of its container is not found, because the container may still run with
/// these ids. The directory is missing if another file system covers the state root in the caller's mount namespace, or
/// if the directory was renamed.
fn a_range_outlives_its_owners_path(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    let auto = ["--userns", "auto", "--detach"];
    let c = bed.bundle().make();
    call(&c, "run", &layers, &auto).run().ok();
    let ranges = || -> Vec<_> {
        let entries = fs::read_dir(&layers.leases).expect("read").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
    };
    let taken = ranges();
    assert_eq!(taken.len(), 1);
    let root = bed.root();
    let elsewhere = format!(
        "mount -t tmpfs none {root} && {runtime} --root {root} delete {id}",
        root = root.display(),
        runtime = bed.runtime().display(),
        id = c.id
    );
    let unshared = ["-m", "--propagation", "private", "sh", "-c", &elsewhere];
    let gone = bed.program("unshare", &unshared);
    let _ = gone.env("DAYFLY_IDS", &layers.leases.to_string_lossy()).run().exits(1);
    assert_eq!(ranges(), taken, "seen from another mount namespace");
    let (place, away) = (root.join(&c.id), bed.dir.join("away"));
    fs::rename(&place, &away).expect("rename");
    id_call(&c, "delete", &[], &layers).run().exits(1);
    assert_eq!(ranges(), taken, "the directory is not there");
    fs::rename(&away, &place).expect("rename back");
    id_call(&c, "delete", &["--force"], &layers).run().ok();
    assert_eq!(layers.left(), Vec::<String>::new());
}

fn a_range_that_is_shared(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    let start = || {
        let c = bed.bundle().make();
        call(&c, "run", &layers, &["--detach", "--userns", "shared"]).run().ok();
        c
    };
    let (one, two) = (start(), start());
    assert_eq!(first_id(&one), FIRST_ID);
    assert_eq!(first_id(&two), FIRST_ID);
}

fn file_capabilities_are_the_containers(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    let program = layers.store.join("layers/base/cap");
    fs::create_dir(&program).expect("mkdir");
    let program = program.join("cat");
    dayfly_tests::program::copy(&layers.store.join("layers/base/bin/busybox"), &program);
    // A version 2 capability attribute, effective, with CAP_NET_BIND_SERVICE permitted.
    let mut value = 0x0200_0001u32.to_le_bytes().to_vec();
    value.extend((1u32 << 10).to_le_bytes());
    value.extend([0; 12]);
    setxattr(&program, "security.capability", &value, XattrFlags::empty()).expect("setxattr");
    for userns in ["host", "auto"] {
        for mode in modes(&layers, userns == "auto") {
            let c = bed
                .bundle()
                .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
                .sh("/cap/cat /proc/self/status | grep CapEff")
                .make();
            let flags = ["--rootfs-mode", mode, "--userns", userns];
            let outcome = call(&c, "run", &layers, &flags).run().ok();
            assert_eq!(outcome.stdout, "CapEff:\t0000000000000400\n", "{mode}, {userns}");
        }
    }
}

fn the_mappings_of_the_configuration(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    for mode in modes(&layers, true) {
        let c = crate::userns::mapped(bed).sh("stat -c %u:%g /secret /of-user").make();
        let outcome = call(&c, "run", &layers, &["--rootfs-mode", mode]).run().ok();
        assert_eq!(outcome.stdout, "0:0\n1000:1001\n", "{mode}");
    }
}
