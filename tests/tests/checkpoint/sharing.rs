//! The propagation of bind mounts and of the root after a restore, on a host whose mounts are shared, as systemd makes
//! them, and on a host that shares them in another way than the one of the checkpoint.

use super::{COUNTER, Saved, kept, layers, userns};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(as_after_a_start).needs(criu::lacking).unlike_runc(),
    case!(every_propagation_of_the_root).needs(criu::lacking).unlike_runc(),
    case!(on_a_host_that_shares_otherwise).needs(criu::lacking).unlike_runc(),
    case!(mounts_of_the_host_arrive).needs(criu::lacking).unlike_runc(),
    case!(root_from_layers).needs(criu::lacking).unlike_runc(),
    case!(in_a_user_namespace).needs(criu::lacking).unlike_runc(),
    case!(bind_mounts_of_cgroups).needs(criu::lacking).unlike_runc(),
    case!(what_is_kept_elsewhere_is_kept_here).needs(criu::lacking).unlike_runc(),
];

/// The case's directory as a mount, whose propagation is that of a host's root.
struct HostRoot<'a> {
    bed: &'a Bed,
}

impl<'a> HostRoot<'a> {
    fn new(bed: &'a Bed, flags: MountPropagationFlags) -> Self {
        mount_bind(&bed.dir, &bed.dir).expect("bind");
        let root = Self { bed };
        root.change(MountPropagationFlags::PRIVATE);
        root.change(flags);
        root
    }

    fn shared(bed: &'a Bed) -> Self {
        Self::new(bed, MountPropagationFlags::SHARED)
    }

    /// Changes the propagation of the directory, and of all mounts below it.
    fn change(&self, flags: MountPropagationFlags) {
        mount_change(&self.bed.dir, flags | MountPropagationFlags::REC).expect("propagation");
    }

    /// Makes a directory of the host, with another mount in it.
    fn tree(&self) -> PathBuf {
        let tree = self.bed.dir.join("tree");
        fs::create_dir_all(tree.join("sub")).expect("mkdir");
        mount("tmpfs", tree.join("sub"), "tmpfs", MountFlags::empty(), c"size=64k").expect("mount");
        tree
    }

    /// Binds a directory at another place of the host, as the kubelet does for `subPath`: a peer with another root.
    fn peer(&self) -> PathBuf {
        let (inner, peer) = (self.bed.dir.join("volume/inner"), self.bed.dir.join("peer"));
        for directory in [&inner, &peer] {
            fs::create_dir_all(directory).expect("mkdir");
        }
        mount_bind(&inner, &peer).expect("bind");
        peer
    }
}

impl Drop for HostRoot<'_> {
    fn drop(&mut self) {
        let _ = unmount(&self.bed.dir, UnmountFlags::DETACH);
    }
}

/// Adds bind mounts of files and directories, with all types of propagation. `word` is the propagation of the root, if
/// the configuration has one. With a shared root, shared bind mounts are peers of the host's mounts.
fn with_binds<'a>(root: &HostRoot<'a>, bundle: Bundle<'a>, word: Option<&str>) -> Bundle<'a> {
    let bundle = match word {
        Some(word) => bundle.set("/linux/rootfsPropagation", json!(word)),
        None => bundle,
    };
    let (tree, peer) = (root.tree(), root.peer());
    let file = root.bed.dir.join("file");
    fs::write(&file, "of the host\n").expect("write");
    let text = |path: &Path| path.to_str().expect("path").to_owned();
    let all: [&[&str]; 7] = [
        &["bind"],
        &["rbind"],
        &["bind", "ro", "rslave"],
        &["rbind", "rprivate"],
        &["rbind", "nosuid", "rshared"],
        &["rbind", "slave", "shared"],
        &["rbind", "private", "noexec"],
    ];
    let bundle = bundle.mount("bind", &text(&peer), "/peer", &["bind"]);
    all.iter().enumerate().fold(bundle, |bundle, (number, options)| {
        bundle.mount("bind", &text(&file), &format!("/file{number}"), options).mount(
            "bind",
            &text(&tree),
            &format!("/tree{number}"),
            options,
        )
    })
}

/// Returns the mount point, options and propagation of each mount of a container. Masters are named by their numbers, and
/// peer groups only if they are the host's.
fn sharing(c: &Container<'_>) -> Vec<String> {
    let read = |pid: &str| fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("mountinfo");
    let host = read("self");
    let is_of_host = |tag: &str| host.lines().any(|line| line.split(' ').any(|word| word == tag));
    let table = read(&c.pid().to_string());
    let mut lines: Vec<String> = table
        .lines()
        .map(|line| {
            let (mount, _) = line.split_once(" - ").expect("a separator");
            let words = mount.split(' ').skip(3).map(|word| match word.starts_with("shared:") {
                true if !is_of_host(word) => "shared",
                _ => word,
            });
            // The bind mounts of cgroups name the container.
            words.collect::<Vec<_>>().join(" ").replace(&c.id, "ID")
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Asserts that a restored container has the mounts of one that starts now.
#[track_caller]
fn assert_as_started(saved: &Saved<'_>, what: &str) {
    let bed = saved.c.bed;
    let started = Container { bed, id: bed.id(), bundle: saved.c.bundle.clone() };
    let file = started.bundle.join("config.json");
    let config = fs::read_to_string(&file).expect("config.json");
    // The other container has another cgroup.
    fs::write(&file, config.replace(&saved.c.id, &started.id)).expect("write");
    started.run_with(&["--detach"]).ok();
    fs::write(&file, config).expect("write");
    assert_eq!(sharing(&saved.c), sharing(&started), "{what}");
    started.delete_force().ok();
}

/// Behind this case is a `restore` that failed on every host with systemd: "Failed to copy sharing from source".
fn as_after_a_start(bed: &Bed) {
    let root = HostRoot::shared(bed);
    let saved = Saved::running(with_binds(&root, bed.bundle(), None).sh(COUNTER));
    saved.counts();
    for _ in 0..2 {
        saved.cycle();
        saved.counts();
        assert_as_started(&saved, "shared");
    }
    assert_eq!(saved.c.sh("cat /file0").ok().stdout, "of the host\n");
    saved.c.sh("echo x >/file2").exits(1);
    saved.c.delete_force().ok();
    // One bind mount alone, of each kind.
    for options in [&["bind"][..], &["rbind"], &["bind", "rslave"], &["bind", "rshared"]] {
        let file = bed.dir.join("file");
        let bundle = bed.bundle().mount("bind", file.to_str().expect("path"), "/f", options);
        let saved = Saved::running(bundle.sh(COUNTER));
        saved.cycle();
        assert_as_started(&saved, &format!("{options:?}"));
        saved.c.delete_force().ok();
    }
}

fn every_propagation_of_the_root(bed: &Bed) {
    let root = HostRoot::shared(bed);
    for word in ["private", "rprivate", "slave", "rslave", "shared", "rshared"] {
        let bundle = with_binds(&root, bed.bundle(), Some(word));
        let saved = Saved::running(bundle.sh(COUNTER));
        saved.cycle();
        saved.counts();
        assert_as_started(&saved, word);
        saved.c.delete_force().ok();
        for mounted in ["tree/sub", "peer"] {
            unmount(bed.dir.join(mounted), UnmountFlags::DETACH).expect("umount");
        }
    }
}

fn on_a_host_that_shares_otherwise(bed: &Bed) {
    let (shared, private) = (MountPropagationFlags::SHARED, MountPropagationFlags::PRIVATE);
    let root = HostRoot::shared(bed);
    for word in [None, Some("rshared")] {
        let bundle = with_binds(&root, bed.bundle(), word);
        let saved = Saved::running(bundle.sh(COUNTER));
        for (number, flags) in [private, shared, shared, private, private].into_iter().enumerate() {
            saved.checkpoint(&[]).ok();
            root.change(private);
            root.change(flags);
            saved.restore(&[]).ok();
            saved.counts();
            assert_as_started(&saved, &format!("{word:?}, {number}"));
        }
        saved.c.delete_force().ok();
        for mounted in ["tree/sub", "peer"] {
            unmount(bed.dir.join(mounted), UnmountFlags::DETACH).expect("umount");
        }
        root.change(shared);
    }
}

fn mounts_of_the_host_arrive(bed: &Bed) {
    let root = HostRoot::shared(bed);
    let saved = Saved::running(with_binds(&root, bed.bundle(), None).sh(COUNTER));
    saved.cycle();
    let place = bed.dir.join("tree/new");
    fs::create_dir(&place).expect("mkdir");
    mount("later", &place, "tmpfs", MountFlags::empty(), c"size=64k").expect("mount");
    let seen =
        saved.c.sh("grep ' - tmpfs later ' /proc/self/mountinfo | cut -d' ' -f 5 | sort").ok();
    unmount(&place, UnmountFlags::DETACH).expect("umount");
    assert_eq!(
        seen.lines(),
        ["/tree0/new", "/tree1/new", "/tree2/new", "/tree4/new", "/tree5/new"]
    );
    let left = saved.c.sh("grep -c ' - tmpfs later ' /proc/self/mountinfo");
    assert_eq!(left.stdout, "0\n");
}

fn root_from_layers(bed: &Bed) {
    let root = HostRoot::shared(bed);
    let bundle = with_binds(&root, bed.bundle(), Some("rshared"));
    let saved = Saved::on_layers(bundle.sh(COUNTER), &[]);
    saved.counts();
    let before = sharing(&saved.c);
    for _ in 0..2 {
        saved.cycle();
        saved.counts();
        assert_eq!(sharing(&saved.c), before);
    }
}

fn in_a_user_namespace(bed: &Bed) {
    let root = HostRoot::shared(bed);
    let saved = Saved::running(with_binds(&root, crate::userns::mapped(bed), None).sh(COUNTER));
    saved.counts();
    saved.cycle();
    saved.counts();
    assert_as_started(&saved, "shared");
    saved.checkpoint(&[]).ok();
    root.change(MountPropagationFlags::PRIVATE);
    saved.restore(&[]).ok();
    assert_as_started(&saved, "private");
}

/// Without a cgroup namespace, the mounts of cgroup v1 are bind mounts. All of the host's mounts change here, so the
/// commands run in a mount namespace of their own.
fn bind_mounts_of_cgroups(bed: &Bed) {
    let c = bed.bundle().without_namespace("cgroup").sh(COUNTER).make();
    let script = "set -e; r=\"$1 --root $2\"; id=$4; look() { \
        grep -c ' /sys/fs/cgroup/.* master:' /proc/$($r state $id | sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p')/mountinfo || :; }; \
        mount --make-rshared /; $r run --detach --bundle $3 $4; look; for to in private shared; do \
        $r checkpoint --image-path $5 $4; mount --make-r$to /; \
        $r restore --detach --bundle $3 --image-path $5 $4; look; done; $r delete --force $4";
    let (images, root) = (bed.dir.join("images"), bed.root());
    let paths = [bed.runtime(), &root, &c.bundle].map(|path| path.to_str().expect("path"));
    let unshare = ["-m", "--propagation", "private", "sh", "-c", script, "sh"];
    let args = [&unshare[..], &paths, &[&c.id, images.to_str().expect("path")]].concat();
    let outcome = bed.program("unshare", &args).env("DAYFLY_CRIU", &criu::program());
    let outcome = outcome.within(dayfly_tests::wait::patience() * 3).run().ok();
    let counts: Vec<&str> = outcome.lines();
    assert_eq!(counts, [counts[0], "0", counts[0]], "{outcome}");
    assert!(counts[0] != "0" || !bed.view.has_v1(), "{outcome}");
}

/// Cases of other files, on a shared root.
fn what_is_kept_elsewhere_is_kept_here(bed: &Bed) {
    let cases: [fn(&Bed); 8] = [
        // First, because it lists all containers.
        super::commands_after_a_restore,
        super::goes_on_where_it_was,
        kept::masks,
        kept::bind_mounts,
        kept::hooks,
        kept::read_only_root,
        layers::changes_are_kept,
        userns::devices_and_masks,
    ];
    for case in cases {
        let _root = HostRoot::shared(bed);
        case(bed);
    }
}
