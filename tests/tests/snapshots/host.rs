//! Root filesystems mounted at their path in the bundle, as a shim mounts them.

use container::{RootMount, mount_on_host, unmount_on_host, wants_host_root};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::{MAPS, ROOT, Snapshot, call, mount, nothing_is_left, on_host, words};
use crate::rootfs::modes;

fn list(mounts: &Value) -> String {
    mounts.to_string()
}

pub fn in_the_bundle_for_hooks(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 3);
    let hook = json!({
        "path": "/bin/sh",
        "args": ["sh", "-c", "cat rootfs/last >hook-saw; cat >/dev/null"],
    });
    let mut bundle = bed.bundle().set("/root/path", json!("rootfs")).sh("cat /last");
    let rootfs = bundle.dir.join("rootfs");
    bundle = bundle.set("/hooks/createRuntime", json!([hook]));
    let c = bundle.make();
    let mut roots = vec![json!([snapshot.active("a", &[])])];
    if modes(&snapshot.layers, true).len() > 1 {
        roots.push(json!([snapshot.active("b", &MAPS)]));
    }
    roots.push(json!([
        mount("bind", &snapshot.base(), &words(&["rbind", "ro"])),
        { "type": "tmpfs", "source": "tmpfs", "target": "tmp", "options": ["mode=0700,ro"] },
        snapshot.active("c", &[]),
    ]));
    for (number, root) in roots.iter().enumerate() {
        let text = list(root);
        let mounts = RootMount::list(text.as_bytes()).expect("list");
        mount_on_host(&rootfs.display().to_string(), &mounts).expect("mount");
        assert!(!on_host(bed).is_empty());
        if number != 1 {
            let outcome = c.run().ok();
            assert_eq!(outcome.stdout, "2\n");
            let saw = fs::read_to_string(c.bundle.join("hook-saw")).expect("what the hook saw");
            assert_eq!(saw, "2\n");
        } else {
            let file = fs::metadata(rootfs.join("secret")).expect("stat");
            assert_eq!((file.uid(), file.gid()), ROOT);
        }
        for _ in 0..2 {
            unmount_on_host(&rootfs.display().to_string()).expect("unmount");
            nothing_is_left(bed);
        }
    }
    unmount_on_host(&format!("{}/none", rootfs.display())).expect("nothing there");
    // Either all mounts are made, or none.
    let text = list(&json!([
        mount("bind", &snapshot.base(), &words(&["rbind"])),
        { "type": "tmpfs", "source": "tmpfs", "target": "gone", "options": [] },
    ]));
    let mounts = RootMount::list(text.as_bytes()).expect("list");
    let error = mount_on_host(&rootfs.display().to_string(), &mounts).expect_err("no such place");
    assert!(error.to_string().contains("rootfs/gone"), "{error}");
    nothing_is_left(bed);
}

pub fn in_the_bundle_not_through_links(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 1);
    let (elsewhere, link) = (bed.dir.join("elsewhere"), bed.dir.join("link"));
    fs::create_dir(&elsewhere).expect("mkdir");
    symlink(&elsewhere, &link).expect("symlink");
    let text = list(&json!([mount("bind", &snapshot.base(), &words(&["rbind"]))]));
    let mounts = RootMount::list(text.as_bytes()).expect("list");
    let link = link.display().to_string();
    mount_on_host(&link, &mounts).expect_err("a link");
    nothing_is_left(bed);
    // A path that leads to the mount through a link unmounts nothing.
    let place = elsewhere.display().to_string();
    mount_on_host(&place, &mounts).expect("mount");
    let _ = unmount_on_host(&link);
    assert_eq!(on_host(bed).len(), 1);
    unmount_on_host(&place).expect("unmount");
    nothing_is_left(bed);
}

pub fn who_wants_them_in_the_bundle(bed: &Bed) {
    let one = json!({ "type": "bind", "source": "/", "target": "", "options": [] });
    let wants_if = |is_set: bool, bundle: &Bundle<'_>, mounts: Value| {
        let (config, mounts) = (bundle.config.to_string(), mounts.to_string());
        let spec = spec::Spec::parse(&config).expect("config");
        wants_host_root(&spec, &RootMount::list(mounts.as_bytes()).expect("list"), is_set)
    };
    let wants = |bundle: &Bundle<'_>, mounts: Value| wants_if(false, bundle, mounts);
    let hook = json!([{ "path": "/bin/true" }]);
    let plain = bed.bundle();
    assert!(!wants(&plain, json!([one])));
    assert!(wants_if(true, &plain, json!([one])) && !wants_if(true, &plain, json!([])));
    assert!(wants(&plain, json!([one, one])));
    for kind in ["prestart", "createRuntime", "createContainer"] {
        let bundle = bed.bundle().set(&format!("/hooks/{kind}"), hook.clone());
        assert!(wants(&bundle, json!([one])), "{kind}");
        assert!(!wants(&bundle, json!([])), "{kind}");
    }
    for kind in ["startContainer", "poststart", "poststop"] {
        assert!(!wants(&bed.bundle().set(&format!("/hooks/{kind}"), hook.clone()), json!([one])));
    }
    let mut asked = bed.bundle();
    asked.config["annotations"] = json!({ "run.dayfly.rootfs": "host" });
    assert!(wants(&asked, json!([one])));
}

/// A source above the snapshot's directories is the host's, not the container's (crun #2262, #2264), whatever its spelling.
/// A source in the bundle's root directory is the container's, because that is the path of its root.
pub fn binds_of_the_hosts_root(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 2);
    let own = bed.dir.display().to_string();
    for (number, (source, options)) in [
        ("/", &["rbind"][..]),
        ("/", &["rbind", "ro", "rslave"]),
        ("/.", &["rbind", "rshared"]),
        ("/tmp/..", &["rbind", "rro"]),
        ("/", &["bind"]),
        ("/run", &["rbind"]),
        ("/var/lib", &["rbind", "rslave"]),
        (&own, &["rbind"]),
    ]
    .into_iter()
    .enumerate()
    {
        let wanted = bed.program("stat", &["-c", "%d:%i", source]).run().ok().stdout;
        for is_mapped in [false, true] {
            let bundle = bed.bundle().mount("tmpfs", "tmpfs", "/tmp", &[]);
            let bundle = bundle.mount("bind", source, "/mnt", options);
            let bundle = if is_mapped { super::mapped(bundle) } else { bundle };
            let c = bundle.sh("stat -c %d:%i /mnt").make();
            let root = snapshot.active(&format!("{number}-{}", c.id), &[]);
            let outcome = call(&c, "run", &[root], &[]).run().ok();
            assert_eq!(outcome.stdout, wanted, "{source} {options:?}");
        }
    }
    let bundle = bed.bundle().set("/root/path", json!("rootfs"));
    let rootfs = bundle.dir.join("rootfs");
    let of_bundle = bundle.dir.join("early");
    fs::create_dir(&of_bundle).expect("mkdir");
    fs::write(of_bundle.join("word"), "the bundle's").expect("write");
    let early = rootfs.join("early").display().to_string();
    let c = bundle
        .mount("tmpfs", "tmpfs", "/early", &[])
        .mount("bind", &early, "/same", &["rbind"])
        .mount("bind", "early", "/other", &["rbind"])
        .sh("echo >/early/new; ls /same; cat /other/word")
        .make();
    for (name, flags) in [("pivot", &[][..]), ("no-pivot", &["--no-pivot"])] {
        let outcome = call(&c, "run", &[snapshot.active(name, &[])], flags).run().ok();
        assert_eq!(outcome.stdout, "new\nthe bundle's", "{name}");
    }
}
