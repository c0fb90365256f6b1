//! Root filesystems from containerd's lists of mounts. They are assembled by descriptor, or, for programs that expect
//! the root filesystem in the bundle, mounted at that path.

mod host;
mod refused;

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use rustix::fd::AsFd;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use sys::fanotify::{MountEvents, MountWatch};

use crate::rootfs::modes;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(overlays_of_many_layers).unlike_runc(),
    case!(options_of_overlays).unlike_runc(),
    case!(views_are_read_only).unlike_runc(),
    case!(ids_of_layers_are_mapped).unlike_runc(),
    case!(shifted_layers_stay_as_they_are).unlike_runc(),
    case!(binds).unlike_runc(),
    case!(binds_with_mapped_ids).unlike_runc(),
    case!(erofs_images).unlike_runc().needs(erofs),
    case!(mounts_below_the_root).unlike_runc(),
    Case::new("what_is_refused", refused::what_is_refused).unlike_runc(),
    Case::new("layers_that_are_none", refused::layers_that_are_none).unlike_runc(),
    case!(names_with_colons_and_commas).unlike_runc(),
    case!(the_life_of_one).unlike_runc(),
    case!(without_a_mount_namespace).unlike_runc().needs(dayfly_tests::kernel::has_detached),
    Case::new("in_the_bundle_for_hooks", host::in_the_bundle_for_hooks).unlike_runc(),
    Case::new("in_the_bundle_not_through_links", host::in_the_bundle_not_through_links)
        .unlike_runc(),
    Case::new("binds_of_the_hosts_root", host::binds_of_the_hosts_root).unlike_runc(),
    Case::new("who_wants_them_in_the_bundle", host::who_wants_them_in_the_bundle).unlike_runc(),
    case!(killed_in_between).unlike_runc().alone(),
    case!(a_hundred_and_no_mount_of_the_hosts).unlike_runc().alone().needs(watch),
];

/// The uid and gid on the host that a container with mapped ids has for its root.
const ROOT: (u32, u32) = (100_000, 200_000);
const MAPS: [&str; 2] = ["uidmap=0:100000:65536", "gidmap=0:200000:65536"];

/// A snapshot with the layers of [`Layers`], like those of containerd's overlay snapshotter.
struct Snapshot {
    layers: Layers,
    dir: PathBuf,
}

impl Snapshot {
    fn new(bed: &Bed, count: usize) -> Self {
        Self { layers: Layers::new(bed, count), dir: bed.dir.join(format!("snapshots{count}")) }
    }

    /// Returns the layers, the top first, separated by colons.
    fn lower(&self) -> String {
        let list = fs::read_to_string(&self.layers.list).expect("read list");
        list.lines().rev().collect::<Vec<_>>().join(":")
    }

    /// Makes a new upper and a new work directory; returns the mount options that name them.
    fn upper(&self, name: &str) -> [String; 2] {
        let (upper, work) = (self.upper_of(name), self.dir.join(name).join("work"));
        for path in [&upper, &work] {
            fs::create_dir_all(path).expect("mkdir");
        }
        [format!("workdir={}", work.display()), format!("upperdir={}", upper.display())]
    }

    fn upper_of(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("fs")
    }

    /// Returns the mount for a writable container.
    fn active(&self, name: &str, more: &[&str]) -> Value {
        let [work, upper] = self.upper(name);
        let lower = format!("lowerdir={}", self.lower());
        let mut options = vec!["index=off".to_owned(), work, upper, lower];
        options.extend(more.iter().copied().map(str::to_owned));
        mount("overlay", "overlay", &options)
    }

    fn base(&self) -> String {
        self.layers.store.join("layers/base").display().to_string()
    }
}

fn mount(kind: &str, source: &str, options: &[String]) -> Value {
    json!({ "type": kind, "source": source, "target": "", "options": options })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

/// Returns the call of `run` or `create` with a root filesystem made from these mounts.
fn call(c: &Container<'_>, verb: &str, mounts: &[Value], flags: &[&str]) -> Call {
    let file = c.bed.dir.join(format!("{}.mounts", c.id));
    fs::write(&file, json!(mounts).to_string()).expect("write mounts");
    let file = file.display().to_string();
    c.bundle_call(verb, &[&["--rootfs-mounts", &file], flags].concat())
}

/// Returns the mounts in the host's namespace that belong to this case.
fn on_host(bed: &Bed) -> Vec<String> {
    let dir = bed.dir.display().to_string();
    let table = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    table.lines().filter(|line| line.contains(&dir)).map(str::to_owned).collect()
}

fn nothing_is_left(bed: &Bed) {
    assert_eq!(on_host(bed), Vec::<String>::new());
    let state = fs::read_dir(bed.root()).map_or(0, Iterator::count);
    assert_eq!(state, 0, "state is left");
}

/// Returns a bundle with a user namespace.
pub fn mapped(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", json!([{ "containerID": 0, "hostID": ROOT.0, "size": 65_536 }]))
        .set("/linux/gidMappings", json!([{ "containerID": 0, "hostID": ROOT.1, "size": 65_536 }]))
}

fn overlays_of_many_layers(bed: &Bed) {
    for count in [1, 2, 50, 400] {
        let snapshot = Snapshot::new(bed, count);
        let before = snapshot.layers.fingerprint();
        for mode in modes(&snapshot.layers, false).into_iter().filter(|mode| *mode != "copy") {
            let script = "cat /last 2>/dev/null; ls / | grep -c ^file; stat -c %u:%g /; echo x >/new; \
                rm /of-user; grep ' / / ' /proc/self/mountinfo";
            let c = bed.bundle().sh(script).make();
            let mounts = [snapshot.active(mode, &[])];
            let outcome = call(&c, "run", &mounts, &["--rootfs-mode", mode]).run();
            let last = if count > 1 { format!("{}\n", count - 1) } else { String::new() };
            let expected = format!("{last}{}\n0:0\n", count - 1);
            assert!(outcome.stdout.starts_with(&expected), "{mode}, {count}: {outcome}");
            assert!(outcome.stdout.contains(" - overlay overlay rw,"), "{mode}: {outcome}");
            let upper = snapshot.upper_of(mode);
            assert_eq!(fs::read_to_string(upper.join("new")).expect("new"), "x\n");
            assert_eq!(fs::symlink_metadata(upper.join("of-user")).expect("whiteout").rdev(), 0);
            nothing_is_left(bed);
        }
        assert_eq!(snapshot.layers.fingerprint(), before, "a layer was touched");
    }
}

fn options_of_overlays(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 3);
    let run = |name: &str, options: &[&str]| {
        let c = bed.bundle().sh("grep ' / / ' /proc/self/mountinfo").make();
        call(&c, "run", &[snapshot.active(name, options)], &[]).run()
    };
    let shown =
        run("a", &["metacopy=on,redirect_dir=on", "volatile", "nosuid", "noatime", "nodev"]);
    for word in ["metacopy=on", "redirect_dir=on", "volatile", "nosuid", "noatime", "nodev"] {
        assert!(shown.stdout.contains(word), "{word}: {shown}");
    }
    let shown = run("b", &["xino=off", "uuid=null", "userxattr", "nfs_export=off", "noexec,exec"]);
    for word in ["uuid=null", "userxattr"] {
        assert!(shown.stdout.contains(word), "{word}: {shown}");
    }
    run("c", &["no_such_option=1"]).fails("no_such_option");
    run("d", &["index=perhaps"]).fails("fsconfig");
    nothing_is_left(bed);
}

fn views_are_read_only(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 3);
    let lower = format!("lowerdir={}", snapshot.lower());
    let views = [
        mount("overlay", "overlay", std::slice::from_ref(&lower)),
        mount("overlay", "overlay", &[lower, "ro".into()]),
        mount("overlay", "overlay", &[format!("lowerdir={}", snapshot.base()), "index=off".into()]),
        mount("bind", &snapshot.base(), &words(&["ro", "rbind"])),
        snapshot.active("active", &["ro"]),
    ];
    for view in views {
        let c = bed.bundle().sh("touch /new; cat /secret").make();
        let outcome = call(&c, "run", std::slice::from_ref(&view), &[]).run();
        assert_eq!(outcome.stdout, "of root\n", "{view}: {outcome}");
        assert!(outcome.stderr.contains("Read-only file system"), "{view}: {outcome}");
    }
    nothing_is_left(bed);
}

fn ids_of_layers_are_mapped(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 4);
    let before = snapshot.layers.fingerprint();
    for mode in modes(&snapshot.layers, true).into_iter().filter(|mode| *mode != "copy") {
        let root = snapshot.active(mode, &MAPS);
        // The snapshotter changes the owner in this way for a container with these ids.
        chown(snapshot.upper_of(mode), Some(ROOT.0), Some(ROOT.1)).expect("chown");
        let script =
            "stat -c '%u:%g %a' / /secret /of-user; echo x >>/secret; cat /secret; sleep 1000";
        let c = mapped(bed.bundle()).sh(script).make();
        let flags = ["--rootfs-mode", mode];
        call(&c, "create", &[root], &flags).run().ok();
        assert_eq!(on_host(bed), Vec::<String>::new(), "{mode}");
        c.start().ok();
        let changed = snapshot.upper_of(mode).join("secret");
        dayfly_tests::wait::until_true("a changed file", || {
            fs::read_to_string(&changed).is_ok_and(|text| text == "of root\nx\n")
        });
        let file = fs::metadata(&changed).expect("stat");
        assert_eq!((file.uid(), file.gid()), ROOT, "{mode}");
        let seen = c.sh("stat -c '%u:%g %a' / /secret /of-user").ok();
        assert_eq!(seen.stdout, "0:0 755\n0:0 600\n1000:1001 644\n", "{mode}");
        assert_eq!(on_host(bed), Vec::<String>::new(), "{mode}");
        c.delete_force().ok();
        nothing_is_left(bed);
    }
    assert_eq!(snapshot.layers.fingerprint(), before);
}

/// If the mount has no options `uidmap=` and `gidmap=`, containerd has already changed the owners of the files.
fn shifted_layers_stay_as_they_are(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 1);
    let base = PathBuf::from(snapshot.base());
    chown(&base, Some(ROOT.0), Some(ROOT.1)).expect("chown");
    chown(base.join("secret"), Some(ROOT.0), Some(ROOT.1)).expect("chown");
    let root = snapshot.active("a", &[]);
    chown(snapshot.upper_of("a"), Some(ROOT.0), Some(ROOT.1)).expect("chown");
    let c = mapped(bed.bundle()).sh("stat -c %u:%g / /secret; touch /new").make();
    let outcome = call(&c, "run", &[root], &[]).run().ok();
    assert_eq!(outcome.stdout, "0:0\n0:0\n");
}

fn binds(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 1);
    let base = snapshot.base();
    let run = |kind: &str, options: &[&str]| {
        let script = "echo x >/new; cat /new; rm -f /new; grep ' / [rw]' /proc/self/mountinfo";
        let c = bed.bundle().sh(script).make();
        call(&c, "run", &[mount(kind, &base, &words(options))], &[]).run()
    };
    for (kind, options) in [("bind", &["rw", "rbind"][..]), ("bind", &[]), ("rbind", &["rw"])] {
        let outcome = run(kind, options).ok();
        assert!(outcome.stdout.starts_with("x\n"), "{options:?}: {outcome}");
        // The table shows the path within the file system, which may be mounted anywhere.
        let name = base.rsplit('/').next().unwrap_or_default();
        assert!(outcome.stdout.contains(&format!("/{name} / rw")), "{outcome}");
    }
    let outcome = run("bind", &["rbind,nosuid,nodev", "noatime"]).ok();
    assert!(outcome.stdout.contains(" / rw,nosuid,nodev,noatime"), "{outcome}");
    run("bind", &["rbind", "noexec"]).fails("permission denied");
    assert!(!Path::new(&base).join("new").exists());
    nothing_is_left(bed);
}

fn binds_with_mapped_ids(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 1);
    if !modes(&snapshot.layers, true).contains(&"parent") && modes(&snapshot.layers, true).len() < 2
    {
        return;
    }
    for (options, writes) in [(["rw", "rbind"], true), (["ro", "rbind"], false)] {
        let c = mapped(bed.bundle()).sh("stat -c %u:%g / /secret /of-user; touch /new").make();
        let options: Vec<&str> = options.iter().copied().chain(MAPS).collect();
        let root = mount("bind", &snapshot.base(), &words(&options));
        let outcome = call(&c, "run", &[root], &[]).run();
        assert_eq!(outcome.stdout, "0:0\n0:0\n1000:1001\n", "{outcome}");
        assert_eq!(outcome.code() == 0, writes, "{outcome}");
    }
    let new = fs::metadata(Path::new(&snapshot.base()).join("new")).expect("new");
    assert_eq!((new.uid(), new.gid()), (0, 0), "written as the layer has it");
    nothing_is_left(bed);
}

/// Checks that the kernel mounts erofs images from files, and that a program can make them.
pub fn erofs() -> Result<(), String> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.contains("\terofs\n") {
        return Err("the kernel has no erofs".into());
    }
    if dayfly_tests::kernel::version() < (6, 12) {
        return Err("erofs of a file takes Linux 6.12".into());
    }
    const TMPFS: i64 = 0x0102_1994;
    if rustix::fs::statfs(std::env::temp_dir()).is_ok_and(|place| place.f_type == TMPFS) {
        return Err(
            "the kernel has no erofs of a file on tmpfs: run where files are on a disk".into()
        );
    }
    match Command::new("mkfs.erofs").arg("--help").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("mkfs.erofs: {error}")),
    }
}

fn erofs_images(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 1);
    let image = bed.dir.join("layer.erofs").display().to_string();
    bed.program("mkfs.erofs", &[&image, &snapshot.base()]).run().ok();
    let script =
        "stat -c %u:%g / /of-user; touch /new; grep -c ' / / .* - erofs ' /proc/self/mountinfo";
    for options in [&["ro"][..], &["ro", "loop"]] {
        let c = bed.bundle().sh(script).make();
        let outcome = call(&c, "run", &[mount("erofs", &image, &words(options))], &[]).run();
        assert_eq!(outcome.stdout, "0:0\n1000:1001\n1\n", "{outcome}");
        assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
    }
    let c = mapped(bed.bundle()).sh(script).make();
    let root = mount("erofs", &image, &words(&["ro", MAPS[0], MAPS[1]]));
    let outcome = call(&c, "run", &[root], &[]).run();
    assert_eq!(outcome.stdout, "0:0\n1000:1001\n1\n", "{outcome}");
    nothing_is_left(bed);
    let c = bed.bundle().make();
    let gone = mount("erofs", &format!("{image}.gone"), &words(&["ro"]));
    call(&c, "run", &[gone], &[]).run().fails("no such file or directory");
}

fn mounts_below_the_root(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 2);
    let base = snapshot.base();
    let below = |kind: &str, source: &str, target: &str, options: &[&str]| json!({ "type": kind, "source": source, "target": target, "options": options });
    let lower = format!("lowerdir={}", snapshot.lower());
    let mounts = [
        snapshot.active("a", &[]),
        below("tmpfs", "tmpfs", "one", &["mode=0711"]),
        below("bind", &base, "/one/two", &["bind", "ro"]),
        below("overlay", "overlay", "three", &[&lower]),
    ];
    let script = "stat -c %a /one; cat /one/two/secret; touch /one/two/x; ls /three/secret /three/last; \
        grep -c '^' /last";
    let c = bed.bundle().sh(script).make();
    let outcome = call(&c, "run", &mounts, &[]).run();
    assert_eq!(outcome.stdout, "711\nof root\n/three/last\n/three/secret\n1\n", "{outcome}");
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
    nothing_is_left(bed);
}

fn names_with_colons_and_commas(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 2);
    let odd = bed.dir.join(r"odd:a,b\c");
    fs::create_dir_all(&odd).expect("mkdir");
    for name in ["layers", "fs", "work"] {
        fs::create_dir(odd.join(name)).expect("mkdir");
    }
    fs::write(odd.join("layers/odd"), "odd\n").expect("write");
    let path =
        odd.display().to_string().replace('\\', r"\\").replace(':', r"\:").replace(',', r"\,");
    let options = format!(
        "lowerdir={path}/layers:{},upperdir={path}/fs,workdir={path}/work",
        snapshot.lower()
    );
    for mode in modes(&snapshot.layers, false).into_iter().filter(|mode| *mode != "copy") {
        let c = bed.bundle().sh("cat /odd /last; echo y >/new").make();
        let root = mount("overlay", "overlay", std::slice::from_ref(&options));
        let outcome = call(&c, "run", &[root], &["--rootfs-mode", mode]).run().ok();
        assert_eq!(outcome.stdout, "odd\n1\n", "{mode}");
        assert_eq!(fs::read_to_string(odd.join("fs/new")).expect("new"), "y\n", "{mode}");
    }
}

/// Propagation, masks, a read-only root, exec, state and delete work as they do for any other root filesystem.
fn the_life_of_one(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 3);
    for (propagation, flags) in
        [("private", &[][..]), ("rslave", &[]), ("shared", &[]), ("private", &["--no-pivot"])]
    {
        let c = bed
            .bundle()
            .set("/linux/rootfsPropagation", json!(propagation))
            .set("/root/readonly", json!(true))
            .push("/linux/maskedPaths", json!("/secret"))
            .args(&["/bin/sleep", "1000"])
            .make();
        call(&c, "create", &[snapshot.active(&c.id, &[])], flags).run().ok();
        assert_eq!(c.state()["status"], "created");
        assert!(c.bundle.join("rootfs").is_dir());
        c.start().ok();
        let outcome = c.sh("cat /secret /last; touch /x");
        assert_eq!(outcome.stdout, "2\n", "{propagation}: {outcome}");
        assert!(outcome.stderr.contains("Read-only file system"), "{propagation}: {outcome}");
        assert_eq!(on_host(bed), Vec::<String>::new());
        c.kill("KILL").ok();
        c.wait_status("stopped");
        c.delete().ok();
        nothing_is_left(bed);
    }
}

fn without_a_mount_namespace(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 3);
    let c = bed
        .bundle()
        .without_namespace("mount")
        .unset("/linux/maskedPaths")
        .unset("/linux/readonlyPaths")
        .sh("cat /last; touch /new")
        .make();
    let outcome = call(&c, "run", &[snapshot.active("a", &[])], &[]).run().ok();
    assert_eq!(outcome.stdout, "2\n");
    assert!(snapshot.upper_of("a").join("new").exists());
    nothing_is_left(bed);
}

/// After a SIGKILL at any moment of a run, no mount is left, and `delete --force` removes everything else.
fn killed_in_between(bed: &Bed) {
    const ROUNDS: u32 = 15;
    let snapshot = Snapshot::new(bed, 10);
    for mode in modes(&snapshot.layers, true).into_iter().filter(|mode| *mode != "copy") {
        let c = mapped(bed.bundle()).args(&["/bin/true"]).make();
        let root = snapshot.active(mode, &MAPS);
        chown(snapshot.upper_of(mode), Some(ROOT.0), Some(ROOT.1)).expect("chown");
        let run = || call(&c, "run", std::slice::from_ref(&root), &["--rootfs-mode", mode]);
        let start = Instant::now();
        run().run().ok();
        let whole = start.elapsed().min(Duration::from_millis(60));
        for round in 0..ROUNDS {
            let running = run().spawn();
            let start = Instant::now();
            while start.elapsed() < whole * round / ROUNDS {
                std::hint::spin_loop();
            }
            running.signal(rustix::process::Signal::KILL);
            let _ = running.wait();
            if mode == "fd" {
                assert_eq!(on_host(bed), Vec::<String>::new());
            }
            c.delete_force().ok();
            nothing_is_left(bed);
        }
    }
}

fn watch() -> Result<(), String> {
    let namespace = fs::File::open("/proc/self/ns/mnt").map_err(|error| error.to_string())?;
    match MountWatch::new(namespace.as_fd()) {
        Ok(_) => Ok(()),
        Err(errno) => Err(format!("the kernel tells no mount events (Linux 6.15): {errno}")),
    }
}

/// Starts 100 containers, 16 at a time. The mount operations in the host's namespace are counted by the kernel's
/// reports.
fn a_hundred_and_no_mount_of_the_hosts(bed: &Bed) {
    const CONTAINERS: usize = 100;
    const AT_A_TIME: usize = 16;
    let snapshot = Snapshot::new(bed, 20);
    let all: Vec<(Container<'_>, Value)> = (0..CONTAINERS)
        .map(|number| {
            let c = mapped(bed.bundle()).sh("stat -c %u /secret; cat /last; touch /new").make();
            let name = number.to_string();
            let root = snapshot.active(&name, &MAPS);
            chown(snapshot.upper_of(&name), Some(ROOT.0), Some(ROOT.1)).expect("chown");
            (c, root)
        })
        .collect();
    // The first run makes everything that is made once per mount namespace.
    let first = bed.bundle().args(&["/bin/true"]).make();
    call(&first, "run", &[snapshot.active("first", &[])], &[]).run().ok();
    let namespace = fs::File::open("/proc/self/ns/mnt").expect("mnt");
    let watch = MountWatch::new(namespace.as_fd()).expect("watch");
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((c, root)) = all.get(number) else { break };
                    let outcome = call(c, "run", std::slice::from_ref(root), &[]).run().ok();
                    assert_eq!(outcome.stdout, "0\n19\n");
                }
            });
        }
    });
    assert_eq!(watch.events().expect("events"), MountEvents::default());
    nothing_is_left(bed);
}
