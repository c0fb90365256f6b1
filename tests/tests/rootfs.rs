//! Root filesystems from layers, in every mode: their contents in containers, and the remains of
//! containers.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::kernel;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::wait;
use rustix::fd::AsFd;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};
use sys::fanotify::{MountEvents, MountWatch};

pub mod ids;
pub mod image;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(every_way_shows_the_same).unlike_runc(),
    case!(every_way_with_ids_of_its_own).unlike_runc(),
    case!(every_way_on_shared_mounts).unlike_runc(),
    case!(names_that_are_no_text).unlike_runc(),
    case!(auto_is_the_best_there_is).unlike_runc(),
    case!(a_way_this_kernel_lacks).unlike_runc(),
    case!(five_hundred_layers_and_not_one_more).unlike_runc(),
    case!(changes_go_to_the_upper_layer).unlike_runc(),
    case!(changes_in_memory).unlike_runc(),
    case!(read_only).unlike_runc(),
    case!(several_filesystems).unlike_runc().needs(tmpfs_can_be_mapped),
    case!(created_started_deleted).unlike_runc(),
    case!(exec_sees_the_same).unlike_runc(),
    case!(options_that_need_others).unlike_runc(),
    case!(stats_and_trace_have_the_counts).unlike_runc(),
    case!(errors_leave_nothing).unlike_runc(),
    case!(killed_at_any_moment).unlike_runc().alone(),
    case!(the_kernel_counts_mounts).unlike_runc().alone().needs(mount_events),
];

const MODES: [&str; 5] = ["fd", "path", "parent", "per-layer", "copy"];

/// The first id of `--userns auto`.
const FIRST_ID: u32 = 0x4000_0000;

/// Returns the modes that this kernel supports for layers on this file system, with or without mapped ids.
pub fn modes(layers: &Layers, mapped: bool) -> Vec<&'static str> {
    let unmappable = mapped && !can_map(&layers.store);
    let has = |mode: &&str| match *mode {
        "fd" => kernel::has_detached().is_ok() && !unmappable,
        "path" => kernel::version() >= (6, 7) && !unmappable,
        "copy" => true,
        _ => !unmappable,
    };
    MODES.into_iter().filter(has).collect()
}

fn can_map(path: &Path) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    let filesystem = rustix::fs::statfs(path).expect("statfs");
    filesystem.f_type as u32 != TMPFS || tmpfs_can_be_mapped().is_ok()
}

fn tmpfs_can_be_mapped() -> Result<(), String> {
    match kernel::version() >= (6, 3) {
        true => Ok(()),
        false => Err("tmpfs has no id-mapped mounts before Linux 6.3".into()),
    }
}

fn mount_events() -> Result<(), String> {
    let namespace = fs::File::open("/proc/self/ns/mnt").map_err(|error| error.to_string())?;
    match MountWatch::new(std::os::fd::OwnedFd::from(namespace).as_fd()) {
        Ok(_) => Ok(()),
        Err(errno) => Err(format!("the kernel tells no mount events (Linux 6.15): {errno}")),
    }
}

/// Returns the call of `run` or `create` with layers.
pub fn call(c: &Container<'_>, verb: &str, layers: &Layers, flags: &[&str]) -> Call {
    let own = layers.flags();
    let all: Vec<&str> = own.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    with_ids_of(layers, c.bundle_call(verb, &all))
}

fn with_ids_of(layers: &Layers, call: Call) -> Call {
    let leases = layers.leases.to_string_lossy();
    // The host's own id ranges must not affect tests.
    call.env("DAYFLY_IDS", &leases)
        .env("DAYFLY_SUBUID", "/dev/null")
        .env("DAYFLY_SUBGID", "/dev/null")
}

pub fn id_call(c: &Container<'_>, verb: &str, flags: &[&str], layers: &Layers) -> Call {
    c.id_call(verb, flags, &[]).env("DAYFLY_IDS", &layers.leases.to_string_lossy())
}

/// Prints properties of the root filesystem. The output must be the same in every mode: it contains
/// the last layer's content and the owners of files, and neither a file that a layer removed nor the
/// old content of a directory that a layer replaced.
const LOOK: &str = "cat /last; ls -d /removed /replaced/old 2>/dev/null; ls /replaced; \
    stat -c '%u:%g %a %h' /secret /of-user; stat -c %u:%g /; echo new >/new && stat -c %u:%g /new; cat /new; \
    rm -r /replaced /of-user && mkdir /replaced && ls /replaced";

fn look(layers: &Layers) -> String {
    let last = layers.count() - 1;
    format!("{last}\nnew\n0:0 600 1\n1000:1001 644 2\n0:0\n0:0\nnew\n")
}

fn shows_the_same(bed: &Bed, userns: &str, counts: &[usize]) {
    for count in counts {
        let layers = Layers::new(bed, *count);
        let before = layers.fingerprint();
        for mode in modes(&layers, userns == "auto") {
            let c = bed.bundle().sh(LOOK).make();
            let flags = ["--rootfs-mode", mode, "--userns", userns];
            let outcome = call(&c, "run", &layers, &flags).run().ok();
            assert_eq!(outcome.stdout, look(&layers), "{mode}, {count} layers: {outcome}");
            assert_eq!(layers.left(), Vec::<String>::new(), "{mode}, {count} layers");
        }
        assert_eq!(layers.fingerprint(), before, "a layer was touched");
    }
}

fn every_way_shows_the_same(bed: &Bed) {
    shows_the_same(bed, "host", &[2, 10, 50]);
}

fn every_way_with_ids_of_its_own(bed: &Bed) {
    shows_the_same(bed, "auto", &[2, 10, 50]);
}

fn stats(bed: &Bed, layers: &Layers, flags: &[&str]) -> String {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let all: Vec<&str> = flags.iter().copied().chain(["--stats"]).collect();
    let outcome = call(&c, "run", layers, &all).run();
    assert_eq!(outcome.code(), 0, "{outcome}");
    outcome.stderr
}

fn auto_is_the_best_there_is(bed: &Bed) {
    let layers = Layers::new(bed, 1);
    for (userns, mapped) in [("host", false), ("auto", true)] {
        let best = modes(&layers, mapped)[0];
        let stats = stats(bed, &layers, &["--userns", userns]);
        assert!(stats.starts_with(&format!("rootfs mode: {best}\nlayers: 1\n")), "{stats}");
    }
}

fn a_way_this_kernel_lacks(bed: &Bed) {
    let layers = Layers::new(bed, 1);
    let c = bed.bundle().args(&["/bin/true"]).make();
    let run = |mode: &str| call(&c, "run", &layers, &["--rootfs-mode", mode]).run();
    for mode in MODES.iter().filter(|mode| !modes(&layers, false).contains(mode)) {
        run(mode).fails(&format!("rootfs mode {mode} needs Linux 6."));
    }
    run("best").fails("--rootfs-mode best: must be auto, fd, path, parent, per-layer, copy");
}

fn five_hundred_layers_and_not_one_more(bed: &Bed) {
    let layers = Layers::new(bed, 500);
    for mode in modes(&layers, true) {
        let c = bed.bundle().sh("cat /last; ls / | grep -c file").make();
        let flags = ["--rootfs-mode", mode, "--userns", "auto"];
        let outcome = call(&c, "run", &layers, &flags).run().ok();
        assert_eq!(outcome.stdout, "499\n499\n", "{mode}");
    }
    let list = fs::read_to_string(&layers.list).expect("read list");
    let one_more = format!("{list}{}\n", layers.store.join("layers/layer1").display());
    fs::write(&layers.list, one_more).expect("write list");
    let c = bed.bundle().make();
    let text = "501 layers are too many: overlayfs takes 500";
    call(&c, "run", &layers, &["--userns", "auto"]).run().fails(text);
    assert_eq!(layers.left(), Vec::<String>::new());
}

/// Where all mounts are shared, as on every host with systemd, `parent` and `per-layer` could not enter the root, and
/// `copy` left the container's mounts on the host.
fn every_way_on_shared_mounts(bed: &Bed) {
    for (userns, count) in [("host", 3), ("auto", 4)] {
        let layers = Layers::new(bed, count);
        for mode in modes(&layers, userns == "auto") {
            let c = bed.bundle().sh(&format!("{LOOK}; cat /proc/self/mountinfo >&2")).make();
            let own = layers.flags();
            let own = own.iter().map(String::as_str);
            let flags: Vec<&str> = own.chain(["--rootfs-mode", mode, "--userns", userns]).collect();
            let shared = c.bundle_call("run", &flags).on_shared_mounts();
            let outcome = with_ids_of(&layers, shared).run().ok();
            assert_eq!(outcome.stdout, look(&layers), "{mode}: {outcome}");
            let is_tied = outcome.stderr.contains("shared:") || outcome.stderr.contains("master:");
            assert!(!is_tied, "{mode}: {outcome}");
            assert_eq!(layers.left(), Vec::<String>::new(), "{mode}");
        }
    }
}

/// The image has directories whose names are not valid UTF-8. A lossy conversion to UTF-8 would turn each of these
/// names into the name of a link that leads out of the container.
fn names_that_are_no_text(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    let (outside, hostile) = (bed.dir.join("outside"), layers.store.join("layers/layer1/d"));
    fs::create_dir(&outside).expect("mkdir");
    fs::create_dir(&hostile).expect("mkdir");
    fs::write(outside.join("file"), "outside\n").expect("write");
    for byte in 240..=255 {
        fs::write(hostile.join(byte.to_string()), "inside\n").expect("write");
    }
    for byte in 240..=255 {
        let odd = hostile.join(OsStr::from_bytes(&[byte]));
        fs::create_dir(&odd).expect("mkdir");
        fs::hard_link(hostile.join(byte.to_string()), odd.join("file")).expect("link");
    }
    // A tmpfs lists the newest name first.
    symlink(&outside, hostile.join("\u{fffd}")).expect("symlink");
    for mode in modes(&layers, false) {
        let c = bed.bundle().sh("cd /d; for f in 2*; do cat $f; echo x >>$f; done").make();
        let outcome = call(&c, "run", &layers, &["--rootfs-mode", mode]).run().ok();
        assert_eq!(outcome.stdout, "inside\n".repeat(16), "{mode}");
        assert_eq!(fs::read(outside.join("file")).expect("read"), b"outside\n", "{mode}");
    }
}

fn changes_go_to_the_upper_layer(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let before = layers.fingerprint();
    for mode in modes(&layers, true).into_iter().filter(|mode| *mode != "copy") {
        let c = bed.bundle().sh("echo x >/new; echo y >>/secret; sleep 1000").make();
        let flags = ["--detach", "--rootfs-mode", mode, "--userns", "auto"];
        call(&c, "run", &layers, &flags).run().ok();
        let upper = layers.store.join("containers").join(&c.id).join("upper");
        wait::until_true("changes in the upper layer", || {
            fs::read_to_string(upper.join("secret")).is_ok_and(|text| text == "of root\ny\n")
        });
        let file = fs::metadata(upper.join("new")).expect("new file");
        assert!(file.uid() >= FIRST_ID && file.uid() == file.gid(), "{mode}: {}", file.uid());
        assert_eq!(fs::metadata(&upper).expect("upper").uid(), file.uid(), "{mode}");
        id_call(&c, "delete", &["--force"], &layers).run().ok();
        assert_eq!(layers.left(), Vec::<String>::new(), "{mode}");
    }
    assert_eq!(layers.fingerprint(), before);
}

fn changes_in_memory(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    for mode in modes(&layers, true) {
        let script = "echo x >/new && dd if=/dev/zero of=/big bs=1M count=20 2>&1; cat /new";
        let c = bed.bundle().sh(script).make();
        let size = if mode == "copy" { "12m" } else { "4m" };
        let flags =
            ["--rootfs-mode", mode, "--userns", "auto", "--ephemeral", "--ephemeral-size", size];
        let outcome = call(&c, "run", &layers, &flags).run().ok();
        assert!(outcome.stdout.contains("No space left on device"), "{mode}: {outcome}");
        assert!(outcome.stdout.ends_with("x\n"), "{mode}: {outcome}");
        assert_eq!(layers.left(), Vec::<String>::new(), "{mode}");
    }
}

fn read_only(bed: &Bed) {
    let layers = Layers::new(bed, 1);
    // The image lacks a mount point.
    fs::remove_dir(layers.store.join("layers/base/sys")).expect("rmdir");
    for userns in ["host", "auto"] {
        for mode in modes(&layers, userns == "auto") {
            let c = bed
                .bundle()
                .set("/root/readonly", json!(true))
                .sh("touch /new; touch /secret; test -d /sys/kernel && echo mounted")
                .make();
            let flags = ["--rootfs-mode", mode, "--userns", userns];
            let outcome = call(&c, "run", &layers, &flags).run();
            assert_eq!(outcome.stdout, "mounted\n", "{mode}: {outcome}");
            assert_eq!(outcome.stderr.matches("Read-only file system").count(), 2, "{outcome}");
        }
    }
}

/// The first layers are on the bed's file system, another layer is on a tmpfs below it, and one layer is itself the
/// root of a tmpfs.
fn several_filesystems(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let mut list = fs::read_to_string(&layers.list).expect("read list");
    let mount = |name: &str| {
        let place = layers.store.join("layers").join(name);
        fs::create_dir(&place).expect("mkdir");
        bed.program("mount", &["-t", "tmpfs", "tmpfs", &*place.to_string_lossy()]).run().ok();
        place
    };
    let (other, itself) = (mount("other"), mount("itself"));
    for layer in [other.join("one"), other.join("two"), itself.clone()] {
        fs::create_dir_all(&layer).expect("mkdir");
        let name = layer.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::write(layer.join(&name), "").expect("write");
        fs::write(layer.join("last"), format!("{name}\n")).expect("write");
        list += &format!("{}\n", layer.display());
    }
    fs::set_permissions(&itself, fs::Permissions::from_mode(0o755)).expect("chmod");
    fs::write(&layers.list, list).expect("write list");
    let mut shown = Vec::new();
    for mode in modes(&layers, true) {
        let script = "cat /last; ls -d /one /two /itself /file1; stat -c %u /one /file1 /itself";
        let c = bed.bundle().sh(script).make();
        let flags = ["--rootfs-mode", mode, "--userns", "auto"];
        let outcome = call(&c, "run", &layers, &flags).run();
        shown.push((mode, outcome));
    }
    for place in [&other, &itself] {
        bed.program("umount", &[place]).run().ok();
    }
    for (mode, outcome) in shown {
        assert_eq!(
            outcome.stdout, "itself\n/file1\n/itself\n/one\n/two\n0\n0\n0\n",
            "{mode}: {outcome}"
        );
    }
}

fn created_started_deleted(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let c = bed.bundle().sh("cat /last; sleep 1000").make();
    let created = call(&c, "create", &layers, &["--userns", "auto"]).run().ok();
    assert_eq!(c.status(), "created");
    c.start().ok();
    created.wait_output("2\n");
    assert_eq!(fs::read_dir(&layers.leases).expect("leases").count(), 1);
    c.kill("KILL").ok();
    c.wait_status("stopped");
    c.delete().ok();
    assert_eq!(layers.left(), Vec::<String>::new());
}

fn exec_sees_the_same(bed: &Bed) {
    let layers = Layers::new(bed, 5);
    let c = bed.bundle().make();
    call(&c, "run", &layers, &["--detach", "--userns", "auto"]).run().ok();
    assert_eq!(c.sh("cat /last /secret; id -u").ok().stdout, "4\nof root\n0\n");
}

fn options_that_need_others(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    for option in ["--userns=auto", "--rootfs-mode=fd", "--ephemeral", "--stats", "--store=/x"] {
        let name = option.split('=').next().unwrap_or_default();
        c.run_with(&[option]).fails(&format!("{name} needs --layers or --image"));
    }
    for option in ["--name=x", "--read-only", "--hostname=x", "--env=A=b", "--cwd=/", "--user=1"] {
        let name = option.split('=').next().unwrap_or_default();
        c.run_with(&[option]).fails(&format!("{name} needs --image"));
    }
}

fn stats_and_trace_have_the_counts(bed: &Bed) {
    let layers = Layers::new(bed, 50);
    for mode in modes(&layers, true) {
        let on_host = match mode {
            "path" => "2 (1 attached, 1 detached)",
            "parent" => "4 (2 attached, 2 detached)",
            "per-layer" => "102 (51 attached, 51 detached)",
            _ => "0 (0 attached, 0 detached)",
        };
        let stats = stats(bed, &layers, &["--userns", "auto", "--rootfs-mode", mode]);
        let lines: Vec<&str> = stats.lines().collect();
        assert_eq!(lines[0], format!("rootfs mode: {mode}"));
        assert_eq!(lines[1], "layers: 50");
        assert!(lines[2].starts_with("ids: 1"), "{stats}");
        assert_eq!(lines[3], format!("mount operations on the host: {on_host}"));
        assert!(lines[4].ends_with(" for others)"), "{stats}");
        assert!(lines[5].starts_with("time for layers: ") && lines[6].ends_with(" ms"), "{stats}");
        let c = bed.bundle().args(&["/bin/true"]).make();
        let flags = ["--userns", "auto", "--rootfs-mode", mode, "--trace", "-"];
        let traced = call(&c, "run", &layers, &flags).run();
        let number = on_host.split(' ').next().unwrap_or_default();
        let line = format!(
            "rootfs: {mode} mode, 50 layers; {number} mount operations on the host, 1 in the container"
        );
        assert!(traced.stderr.contains(&line), "{traced}");
    }
}

fn errors_leave_nothing(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let list = fs::read_to_string(&layers.list).expect("read");
    let gone = layers.store.join("layers/gone");
    let (c, d) = (bed.bundle().args(&["/bin/true"]).make(), bed.bundle().args(&["/no"]).make());
    for mode in modes(&layers, true) {
        let run = |c: &Container<'_>| {
            call(c, "run", &layers, &["--userns", "auto", "--rootfs-mode", mode]).run()
        };
        fs::write(&layers.list, format!("{list}{}\n", gone.display())).expect("write");
        run(&c).fails("gone: no such file or directory");
        fs::write(&layers.list, format!("{list}{}\n", layers.list.display())).expect("write");
        assert_eq!(run(&c).code(), 1);
        fs::write(&layers.list, "relative\n").expect("write");
        run(&c).fails("layer \"relative\" is not an absolute path");
        fs::write(&layers.list, &list).expect("write");
        run(&d).fails("stat /no: no such file or directory");
        assert_eq!(layers.left(), Vec::<String>::new(), "{mode}");
        assert_eq!(fs::read_dir(bed.root()).expect("state").count(), 0, "{mode}");
    }
}

/// After a SIGKILL at any moment of a run, `delete --force` leaves nothing.
fn killed_at_any_moment(bed: &Bed) {
    const ROUNDS: u32 = 15;
    let layers = Layers::new(bed, 10);
    for mode in modes(&layers, true) {
        let c = bed.bundle().args(&["/bin/true"]).make();
        let flags = ["--userns", "auto", "--rootfs-mode", mode];
        let start = Instant::now();
        call(&c, "run", &layers, &flags).run().ok();
        let whole = start.elapsed().min(Duration::from_millis(60));
        for round in 0..ROUNDS {
            let running = call(&c, "run", &layers, &flags).spawn();
            let start = Instant::now();
            while start.elapsed() < whole * round / ROUNDS {
                std::hint::spin_loop();
            }
            running.signal(rustix::process::Signal::KILL);
            let _ = running.wait();
            id_call(&c, "delete", &["--force"], &layers).run().ok();
            wait::until_true(&format!("nothing to be left: {:?}", layers.left()), || {
                layers.left().is_empty()
            });
        }
    }
}

/// Starts 100 containers of 50 layers, 16 at a time, each with its own ids. The mount operations in the host's
/// namespace are counted by the kernel's reports.
fn the_kernel_counts_mounts(bed: &Bed) {
    const CONTAINERS: usize = 100;
    const LAYERS: usize = 50;
    const AT_A_TIME: usize = 16;
    let layers = Layers::new(bed, LAYERS);
    let namespace = std::os::fd::OwnedFd::from(fs::File::open("/proc/self/ns/mnt").expect("mnt"));
    for mode in modes(&layers, true).into_iter().filter(|mode| *mode != "copy") {
        let containers: Vec<Container<'_>> =
            (0..CONTAINERS).map(|_| bed.bundle().args(&["/bin/true"]).make()).collect();
        let flags = ["--userns", "auto", "--rootfs-mode", mode];
        // The first run makes everything that is made once per mount namespace.
        call(&containers[0], "run", &layers, &flags).run().ok();
        let watch = MountWatch::new(namespace.as_fd()).expect("watch");
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(c) = containers.get(number) else { break };
                        call(c, "run", &layers, &flags).run().ok();
                    }
                });
            }
        });
        let events = watch.events().expect("events");
        // Each container attaches its layers, or their parent directory, and the overlay.
        let each = match mode {
            "per-layer" => LAYERS + 1,
            "parent" => 2,
            "path" => 1,
            _ => 0,
        };
        let count = u32::try_from(CONTAINERS * each).expect("count");
        println!("{mode}: {CONTAINERS} containers of {LAYERS} layers: {events:?} on the host");
        assert_eq!(events, MountEvents { attached: count, detached: count }, "{mode}");
    }
}
