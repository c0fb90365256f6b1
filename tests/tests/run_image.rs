//! `run --image` with the options that users of engines have in their fingers, and what becomes of wrong ones.

use dayfly_tests::bed::Bed;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::rootfs::busybox;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::user::{User, can_be};
use dayfly_tests::view::View;
use dayfly_tests::{case, program, wait};
use serde_json::json;
use std::fs;
use std::path::Path;

pub const CASES: &[Case] = &[
    case!(short_options).unlike_runc().needs(programs),
    case!(binds_and_memory).unlike_runc().needs(programs),
    case!(wrong_mounts).unlike_runc().needs(programs),
    case!(limits).unlike_runc().needs(programs),
    case!(wrong_limits).unlike_runc().needs(programs),
    case!(networks).unlike_runc().needs(programs),
    case!(wrong_networks).unlike_runc().needs(programs),
    case!(names_of_users).unlike_runc().needs(programs),
    case!(names_of_nobody).unlike_runc().needs(programs),
    case!(entrypoints_and_directories).unlike_runc().needs(programs),
    case!(files_of_etc).unlike_runc().needs(programs),
    case!(names_and_ids_of_images).unlike_runc().needs(programs),
    case!(the_name_in_traces_and_lists).unlike_runc().needs(programs),
    case!(logs_of_the_background).unlike_runc().needs(programs),
    case!(a_log_is_bounded).unlike_runc().needs(programs),
    case!(logs_that_are_followed).unlike_runc().needs(programs),
    case!(wrong_backgrounds).unlike_runc().needs(programs),
    case!(detached_as_before).unlike_runc().needs(programs),
    case!(beginnings_of_ids).unlike_runc().needs(programs),
    case!(an_init_reaps_and_passes_signals_on).unlike_runc().needs(programs),
    case!(an_init_ends_as_the_program_does).unlike_runc().needs(programs),
    case!(users_of_one_id).unlike_runc().needs(users),
    case!(users_with_ranges).unlike_runc().needs(users),
];

fn programs() -> Result<(), String> {
    image::needed()?;
    busybox().map(drop)
}

fn users() -> Result<(), String> {
    programs()?;
    can_be()
}

const APPLETS: [&str; 20] = [
    "sh", "cat", "echo", "env", "id", "ls", "true", "touch", "sleep", "hostname", "pwd", "ip",
    "mount", "grep", "stat", "yes", "ps", "head", "kill", "readlink",
];

fn base() -> Layer {
    let shell = fs::read(busybox().expect("busybox")).expect("read busybox");
    let layer = Layer::new()
        .dir("bin/", 0o755)
        .file("bin/busybox", 0o755, &shell)
        .dir("tmp/", 0o1777)
        .dir("srv/", 0o755)
        .dir("proc/", 0o755)
        .dir("dev/", 0o755)
        .dir("sys/", 0o755);
    let link = |layer: Layer, name: &&str| layer.symlink(&format!("bin/{name}"), "busybox");
    APPLETS.iter().fold(layer, link)
}

/// An image `test` of a shell below these layers.
fn image_of(bed: &Bed, more: Vec<Layer>) {
    let layout = layout(bed, more);
    image::import(bed, &layout);
}

fn layout(bed: &Bed, more: Vec<Layer>) -> Layout {
    let layout = Layout::new(bed.dir.join("layout"));
    let layers: Vec<_> =
        [base()].into_iter().chain(more).map(|layer| (layer, Packing::Plain)).collect();
    let process = json!({ "Cmd": ["/bin/echo", "of the image"], "Env": ["PATH=/bin"] });
    layout.index(&[layout.image(&layers, &process)]);
    layout
}

/// What has users.
fn users_layer() -> Layer {
    Layer::new()
        .dir("etc/", 0o755)
        .file("etc/passwd", 0o644, b"root:x:0:0::/root:/bin/sh\nwww:x:33:34::/srv:/bin/sh\n")
        .file("etc/group", 0o644, b"www:x:34:\nextra:x:50:www\n")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `dayfly run ARGS…` with the bed's store.
fn run(bed: &Bed, args: &[&str]) -> Call {
    call(bed, &[&["run"], args].concat())
}

fn call(bed: &Bed, args: &[&str]) -> Call {
    bed.call(args)
        .env("DAYFLY_STORE", path(&image::store(bed)))
        .env("DAYFLY_IDS", path(&bed.dir.join("ids")))
        .env("DAYFLY_SUBUID", "/dev/null")
        .env("DAYFLY_SUBGID", "/dev/null")
}

/// A script in a container of the image.
fn sh(bed: &Bed, options: &[&str], script: &str) -> Outcome {
    let id = bed.id();
    let all = [options, &["--name", &id, "--image", "test", "sh", "-c", script]].concat();
    run(bed, &all).run()
}

/// A call that must fail, and leave nothing.
#[track_caller]
fn refused(bed: &Bed, options: &[&str], text: &str) {
    sh(bed, options, "true").fails(text);
    nothing_is_left(bed);
}

#[track_caller]
fn nothing_is_left(bed: &Bed) {
    for directory in [image::store(bed).join("containers"), bed.root(), bed.dir.join("ids")] {
        let left = fs::read_dir(&directory).map_or(0, Iterator::count);
        assert_eq!(left, 0, "left in {}", directory.display());
    }
    assert!(!mounts_of(bed), "a mount is left");
}

/// Whether the host has a mount in the state root.
fn mounts_of(bed: &Bed) -> bool {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    text.contains(path(&bed.root()))
}

/// A container in the background, whose id this is.
#[track_caller]
fn background(bed: &Bed, options: &[&str], script: &str) -> String {
    let all = [&["-d"], options, &["--image", "test", "sh", "-c", script]].concat();
    let outcome = run(bed, &all).run().ok();
    let id = outcome.stdout.strip_suffix('\n').expect("a line").to_owned();
    assert!(!id.contains('\n'), "{outcome}");
    id
}

fn status(bed: &Bed, id: &str) -> String {
    let outcome = call(bed, &["state", id]).run().ok();
    let state: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    state["status"].as_str().expect("status").to_owned()
}

#[track_caller]
fn ends(bed: &Bed, id: &str) {
    wait::until_true("its end", || status(bed, id) == "stopped");
}

#[track_caller]
fn delete(bed: &Bed, id: &str) {
    call(bed, &["delete", "--force", id]).run().ok();
    nothing_is_left(bed);
}

fn short_options(bed: &Bed) {
    image_of(bed, vec![]);
    // A bundle of letters, the last of which has a value.
    let id = bed.id();
    let outcome = run(bed, &["--rm", "--name", &id, "-ie", "A=b", "--image", "test", "env"]).run();
    let outcome = outcome.ok();
    assert!(outcome.lines().contains(&"A=b"), "{outcome}");
    assert!(outcome.lines().contains(&format!("HOSTNAME={id}").as_str()), "{outcome}");
    run(bed, &["-ix", "--image", "test"]).run().fails_without_log("not defined: -ix");
    for option in
        ["-m=8m", "--cpus=1", "--network=host", "--init", "-v=/x:/y", "--log-size=4k", "-i"]
    {
        let bundle = bed.bundle().args(&["/bin/true"]).make();
        bundle.run_with(&[option]).fails("needs --image");
    }
    nothing_is_left(bed);
}

fn binds_and_memory(bed: &Bed) {
    image_of(bed, vec![]);
    let dir = bed.dir.join("data");
    fs::create_dir_all(dir.join("below")).expect("mkdir");
    fs::write(dir.join("file"), "of the host\n").expect("write");
    let dir = path(&dir);
    let script = "cat /data/file; touch /data/new; touch /ro/new; stat -c %a /mem; grep -c 'size=1024k' /proc/mounts; \
        grep -E ' /(data|ro) ' /proc/mounts";
    let volumes = [
        "-v",
        &format!("{dir}:/data"),
        "--volume",
        &format!("{dir}:/ro:ro,noexec"),
        "--mount",
        "type=tmpfs,dst=/mem,tmpfs-size=1m,tmpfs-mode=0700",
    ];
    let outcome = sh(bed, &volumes, script).ok();
    assert!(outcome.stdout.starts_with("of the host\n700\n1\n"), "{outcome}");
    assert!(outcome.stderr.contains("/ro/new: Read-only file system"), "{outcome}");
    let ro = outcome.lines().into_iter().find(|line| line.contains(" /ro ")).expect("ro");
    assert!(ro.contains("ro,nosuid,nodev,noexec"), "{outcome}");
    assert!(Path::new(dir).join("new").exists());
    // Relative to the working directory, and directories before what is in them, whatever the order.
    let id = bed.id();
    let args = [
        "--name",
        &id,
        "--mount",
        "src=./below,dst=/data/below,ro",
        "-v",
        ".:/data",
        "--image",
        "test",
        "ls",
        "/data/file",
        "/data/below/x",
    ];
    fs::write(Path::new(dir).join("below/x"), "").expect("write");
    let outcome = run(bed, &args).dir(Path::new(dir)).run().ok();
    assert_eq!(outcome.stdout, "/data/below/x\n/data/file\n");
    // In the place of one that every container has.
    let shm = ["--mount", "type=tmpfs,dst=/dev/shm,tmpfs-size=4m"];
    let outcome = sh(bed, &shm, "grep ' /dev/shm ' /proc/mounts").ok();
    assert!(outcome.lines().len() == 1 && outcome.stdout.contains("size=4096k"), "{outcome}");
    nothing_is_left(bed);
}

fn wrong_mounts(bed: &Bed) {
    image_of(bed, vec![]);
    refused(
        bed,
        &["-v", "/no/such:/data"],
        "--volume /no/such:/data: /no/such, which is to be bound to /data: no such file or directory",
    );
    refused(bed, &["-v", "data:/data"], "there are no named volumes");
    refused(bed, &["-v", "/usr"], "must be SOURCE:DEST[:OPTIONS]");
    refused(bed, &["-v", "/usr:/a", "-v", "/usr:/a/"], "two mounts are to be at /a");
    refused(bed, &["-v", "/usr:/a:colour"], "no option \"colour\"");
    refused(bed, &["--mount", "type=volume,dst=/a"], "must be bind or tmpfs");
    refused(bed, &["--mount", "src=/usr"], "dst=PATH is missing");
    refused(bed, &["--mount", "type=tmpfs,dst=/a,tmpfs-size=much"], "invalid size");
}

fn limits(bed: &Bed) {
    image_of(bed, vec![]);
    // A row for each controller, of which the machine may lack some in this view.
    let of_v2 = [
        ("memory", "-m=64m", "memory.max", "67108864\n"),
        ("cpu", "--cpus=0.5", "cpu.max", "50000 100000\n"),
        ("pids", "--pids-limit=20", "pids.max", "20\n"),
    ];
    let of_v1 = [
        ("memory", "-m=64m", "memory/memory.limit_in_bytes", "67108864\n"),
        ("cpu", "--cpus=0.5", "cpu/cpu.cfs_quota_us", "50000\n"),
        ("pids", "--pids-limit=20", "pids/pids.max", "20\n"),
    ];
    let all = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    for (controller, option, file, value) in if bed.view == View::V2 { of_v2 } else { of_v1 } {
        let is_there = match bed.view {
            View::V2 => all.split_ascii_whitespace().any(|name| name == controller),
            _ => Path::new("/sys/fs/cgroup").join(controller).exists(),
        };
        match is_there {
            true => {
                let seen = sh(bed, &[option], &format!("cat /sys/fs/cgroup/{file}")).ok();
                assert_eq!(seen.stdout, value, "{file}");
            }
            false => refused(bed, &[option], "is not available in"),
        }
    }
    nothing_is_left(bed);
}

fn wrong_limits(bed: &Bed) {
    image_of(bed, vec![]);
    refused(bed, &["-m", "much"], "--memory much: invalid size: 'much'");
    refused(bed, &["-m", "1k"], "no container starts with less than 512 KiB");
    refused(bed, &["-m", "0"], "no container starts with less than");
    refused(bed, &["--cpus", "0"], "must be a number of CPUs from 0.01 on");
    refused(bed, &["--cpus", "many"], "must be a number of CPUs");
    refused(bed, &["--pids-limit", "-2"], "must be -1 (no limit) or more");
    refused(bed, &["--hostname", "a b"], "must have up to 64 letters");
    refused(bed, &["-w", "srv"], "must be an absolute path");
}

fn networks(bed: &Bed) {
    image_of(bed, vec![]);
    let own = "readlink /proc/self/ns/net";
    let of_host = fs::read_link("/proc/self/ns/net").expect("link");
    let seen = |options: &[&str]| sh(bed, options, own).ok().stdout.trim().to_owned();
    assert_eq!(seen(&["--network", "host"]), of_host.to_str().expect("text"));
    assert_ne!(seen(&["--network", "none"]), of_host.to_str().expect("text"));
    let id = background(bed, &[], "readlink /proc/self/ns/net; sleep 1000");
    let log = || call(bed, &["logs", &id]).run().ok().stdout;
    wait::until_true("its output", || log().ends_with('\n'));
    let joined = format!("container:{id}");
    assert_eq!(seen(&["--network", &joined]), log().trim());
    let beginning = format!("container:{}", &id[..6]);
    assert_eq!(seen(&["--network", &beginning]), log().trim());
    assert_eq!(seen(&["--network", &joined, "--userns", "auto"]), log().trim());
    let by_path = "ns:/proc/self/ns/net";
    assert_eq!(seen(&["--network", by_path]), of_host.to_str().expect("text"));
    delete(bed, &id);
}

fn wrong_networks(bed: &Bed) {
    image_of(bed, vec![]);
    refused(bed, &["--network", "bridge"], "dayfly makes no networks");
    refused(bed, &["--network", "container:nobody"], "container does not exist");
    refused(bed, &["--network", "ns:/no/such"], "no such file or directory");
    refused(bed, &["--network", "ns:/etc/passwd"], "/etc/passwd is no network namespace");
    refused(bed, &["--network", "ns:/proc/self/ns/uts"], "is no network namespace");
    let id = background(bed, &[], "true");
    ends(bed, &id);
    sh(bed, &["--network", &format!("container:{id}")], "true").fails("container not running");
    delete(bed, &id);
}

fn names_of_users(bed: &Bed) {
    image_of(bed, vec![users_layer()]);
    let seen = |user: &str| sh(bed, &["-u", user], "id -u; id -g; id -G; echo $HOME").ok().stdout;
    assert_eq!(seen("www"), "33\n34\n34 50\n/srv\n");
    assert_eq!(seen("33"), "33\n34\n34 50\n/srv\n");
    assert_eq!(seen("www:extra"), "33\n50\n50\n/srv\n");
    assert_eq!(seen("1000:7"), "1000\n7\n7\n/\n");
    let own = sh(bed, &["-u", "www", "-e", "HOME=/tmp"], "echo $HOME").ok();
    assert_eq!(own.stdout, "/tmp\n");
    nothing_is_left(bed);
}

/// Layers above remove the file, hide its directory, or have a link to the host's file in its place.
fn names_of_nobody(bed: &Bed) {
    image_of(bed, vec![users_layer()]);
    refused(bed, &["-u", "nobody"], "--user nobody: the image has no user nobody in /etc/passwd");
    refused(bed, &["-u", "www:staff"], "the image has no group staff in /etc/group");
    let whiteout = Layer::new().dir("etc/", 0o755).file("etc/.wh.passwd", 0o644, b"");
    image_of(bed, vec![users_layer(), whiteout]);
    refused(bed, &["-u", "www"], "the image has no user www");
    let opaque = Layer::new().dir("etc/", 0o755).file("etc/.wh..wh..opq", 0o644, b"");
    image_of(bed, vec![users_layer(), opaque]);
    refused(bed, &["-u", "www"], "the image has no user www");
    let link = Layer::new()
        .dir("etc/", 0o755)
        .file("etc/.wh.passwd", 0o644, b"")
        .symlink("etc/passwd", "/proc/self/root/etc/passwd");
    let link_alone =
        Layer::new().dir("etc/", 0o755).symlink("etc/passwd", "../../../../../etc/passwd");
    for layer in [link, link_alone] {
        image_of(bed, vec![layer]);
        refused(bed, &["-u", "daemon"], "links are not followed");
        // A number needs no file.
        assert_eq!(sh(bed, &["-u", "5"], "id -u").ok().stdout, "5\n");
    }
}

fn entrypoints_and_directories(bed: &Bed) {
    image_of(bed, vec![]);
    let printed = |args: &[&str]| {
        let id = bed.id();
        let outcome = run(bed, &[&["--name", &id], args].concat()).run().ok();
        outcome.stdout
    };
    assert_eq!(printed(&["--image", "test"]), "of the image\n");
    assert_eq!(printed(&["--entrypoint", "echo", "--image", "test", "x", "-n"]), "x -n\n");
    assert_eq!(printed(&["--entrypoint", r#"["echo","a b"]"#, "--image", "test", "x"]), "a b x\n");
    assert_eq!(printed(&["--entrypoint", "", "--image", "test", "echo", "y"]), "y\n");
    assert_eq!(printed(&["-w", "/srv", "--image", "test", "pwd"]), "/srv\n");
    run(bed, &["--entrypoint", "", "--image", "test"]).run().fails("name one");
    run(bed, &["--entrypoint", "[1]", "--image", "test"]).run().fails("no list of words");
    nothing_is_left(bed);
}

fn files_of_etc(bed: &Bed) {
    let old = Layer::new()
        .dir("etc/", 0o750)
        .file("etc/hosts", 0o600, b"of the image\n")
        .symlink("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
        .file("etc/other", 0o644, b"");
    image_of(bed, vec![old]);
    let script = "cat /etc/hostname; grep web /etc/hosts; stat -c '%u:%g %a' /etc/hosts /etc; ls /etc; hostname";
    let seen = "web.test\n127.0.1.1\tweb.test web\n0:0 644\n0:0 750\n\
        hostname\nhosts\nother\nresolv.conf\nweb.test\n";
    let ways: [&[&str]; 7] = [
        &[],
        &["--read-only"],
        &["--ephemeral"],
        &["--userns", "auto"],
        &["--userns", "auto", "--read-only"],
        &["--rootfs-mode", "parent"],
        &["--rootfs-mode", "copy", "--userns", "auto"],
    ];
    for options in ways {
        let all = [options, &["--hostname", "web.test"]].concat();
        assert_eq!(sh(bed, &all, script).ok().stdout, seen, "{options:?}");
    }
    // What the program makes of them is its own matter; with the host's network they are the host's.
    sh(bed, &[], "echo x >/etc/new && busybox mv /etc/new /etc/hosts").ok();
    let of_host = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    if fs::read_link("/etc/resolv.conf").is_err() && !of_host.is_empty() {
        let outcome = sh(bed, &["--network", "host"], "cat /etc/resolv.conf").ok();
        assert_eq!(outcome.stdout, of_host);
    }
    let hosts = bed.dir.join("hosts");
    fs::write(&hosts, "mine\n").expect("write");
    let mine = format!("{}:/etc/hosts", path(&hosts));
    assert_eq!(sh(bed, &["-v", &mine], "cat /etc/hosts").ok().stdout, "mine\n");
    // A link in the place of the directory is nobody's business.
    let linked = Layer::new().dir("other/", 0o755).symlink("etc", "other");
    image_of(bed, vec![linked]);
    assert_eq!(sh(bed, &[], "readlink /etc; ls /etc").ok().stdout, "other\n");
    nothing_is_left(bed);
}

fn names_and_ids_of_images(bed: &Bed) {
    let layout = layout(bed, vec![]);
    let source = path(&layout.dir);
    let import = |name: &str| {
        image::call(bed, &["import", source, "--name", name]).run().ok();
    };
    import("registry.test/team/tool:latest");
    import("layout:box");
    let prints = |reference: &str| {
        let id = bed.id();
        let outcome = run(bed, &["--name", &id, "--image", reference]).run().ok();
        assert_eq!(outcome.stdout, "of the image\n", "{reference}");
    };
    for reference in ["tool", "team/tool", "tool:latest", "box"] {
        prints(reference);
    }
    let manifest = fs::read_to_string(
        fs::canonicalize(image::store(bed).join("refs/layout:box"))
            .expect("image")
            .join("manifest.json"),
    );
    let manifest: serde_json::Value =
        serde_json::from_str(&manifest.expect("manifest")).expect("JSON");
    let configuration = manifest["config"]["digest"].as_str().expect("digest");
    prints(configuration);
    prints(&configuration["sha256:".len()..][..12]);
    import("localhost/tool:latest");
    run(bed, &["--image", "tool"]).run().fails(
        "image tool may be localhost/tool:latest or registry.test/team/tool:latest: name one in full",
    );
    run(bed, &["--image", "tool:2"]).run().fails("no image tool:2 in");
    // By its last part one name goes, and no other one of the image.
    image::call(bed, &["rm", "box"]).run().ok();
    prints("localhost/tool");
    nothing_is_left(bed);
}

fn the_name_in_traces_and_lists(bed: &Bed) {
    image_of(bed, vec![]);
    let pattern = bed.dir.join("trace-%i.csv");
    let id = background(bed, &["--trace", path(&pattern)], "sleep 1000");
    assert!(bed.dir.join(format!("trace-{id}.csv")).exists(), "{id}");
    let outcome = call(bed, &["state", &id]).run().ok();
    let state: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(state["annotations"]["run.dayfly.image"], "test:latest");
    delete(bed, &id);
}

fn logs_of_the_background(bed: &Bed) {
    image_of(bed, vec![]);
    for userns in ["host", "auto"] {
        let script = "cat; echo one; echo two >&2; echo three; echo four >>/dev/stdout";
        let id = background(bed, &["--userns", userns], script);
        ends(bed, &id);
        let log = |options: &[&str]| {
            let all = [&["logs"], options, &[id.as_str()]].concat();
            call(bed, &all).run().ok().stdout
        };
        assert_eq!(log(&[]), "one\ntwo\nthree\nfour\n", "{userns}");
        assert_eq!(log(&["--tail", "2"]), "three\nfour\n");
        assert_eq!(log(&["--tail", "0"]), "");
        assert_eq!(log(&["--tail", "all"]), "one\ntwo\nthree\nfour\n");
        assert_eq!(log(&["-f"]), "one\ntwo\nthree\nfour\n", "one that has ended is not waited for");
        call(bed, &["logs", "--tail", "-1", &id]).run().fails("number of lines");
        delete(bed, &id);
    }
    call(bed, &["logs", "nobody"]).run().fails("container does not exist");
}

/// Whoever writes on is told; nothing of the host grows.
fn a_log_is_bounded(bed: &Bed) {
    image_of(bed, vec![]);
    let id = background(bed, &["--log-size", "64k"], "yes; echo $? >/tmp/status; sleep 1000");
    let size = || call(bed, &["logs", &id]).run().ok().stdout.len();
    wait::until_true("a full log", || size() == 65536);
    let status = || call(bed, &["exec", &id, "cat", "/tmp/status"]).run().stdout;
    wait::until_true("the program to be told", || status() == "1\n");
    assert_eq!(size(), 65536);
    assert!(mounts_of(bed));
    delete(bed, &id);
}

fn logs_that_are_followed(bed: &Bed) {
    image_of(bed, vec![]);
    let fifo = bed.dir.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("mkfifo");
    let volume = format!("{}:/fifo", path(&fifo));
    let id =
        background(bed, &["-v", &volume], "echo a; while read line; do echo $line; done </fifo");
    let following = call(bed, &["logs", "--follow", &id]).spawn();
    wait::until_true("the first line", || following.stdout() == "a\n");
    let mut writer = fs::OpenOptions::new().write(true).open(&fifo).expect("open");
    std::io::Write::write_all(&mut writer, b"b\n").expect("write");
    wait::until_true("what came later", || following.stdout() == "a\nb\n");
    assert!(!following.has_ended());
    std::io::Write::write_all(&mut writer, b"c\n").expect("write");
    drop(writer);
    assert_eq!(following.wait().ok().stdout, "a\nb\nc\n");
    delete(bed, &id);
}

fn wrong_backgrounds(bed: &Bed) {
    image_of(bed, vec![]);
    refused(bed, &["-dt"], "-d and -t: nobody would be at the other end");
    refused(bed, &["--log-size", "64k"], "--log-size needs -d");
    refused(bed, &["-d", "--log-size", "1"], "must be 4k or more");
    refused(bed, &["-d", "--log-size", "x"], "invalid size");
    // A program that is not there: told here, not in a log, and nothing stays.
    let outcome = run(bed, &["-d", "--image", "test", "/no/such"]).run();
    assert!(outcome.stderr.contains("/no/such") && outcome.stdout.is_empty(), "{outcome}");
    assert_eq!(outcome.code(), 1, "{outcome}");
    nothing_is_left(bed);
    let id = background(bed, &["--rm"], "true");
    ends(bed, &id);
    delete(bed, &id);
}

/// Prints nothing, and leaves the output where the caller has it.
fn detached_as_before(bed: &Bed) {
    image_of(bed, vec![]);
    let id = bed.id();
    let args = ["--detach", "--name", &id, "--image", "test", "echo", "out"];
    let running = run(bed, &args).spawn();
    wait::until_true("its output", || running.stdout() == "out\n");
    running.wait().ok();
    call(bed, &["logs", &id]).run().fails("has no log");
    assert!(!mounts_of(bed));
    delete(bed, &id);
    // Of a bundle `-d` is the same.
    let c = bed.bundle().args(&["/bin/sleep", "1000"]).make();
    assert_eq!(c.run_with(&["-d"]).ok().stdout, "");
}

fn beginnings_of_ids(bed: &Bed) {
    image_of(bed, vec![]);
    for name in ["abcd000000000001", "abcd000000000002", "abce-named"] {
        let args = ["-d", "--name", name, "--image", "test", "sleep", "1000"];
        assert_eq!(run(bed, &args).run().ok().stdout, format!("{name}\n"));
    }
    let pid = |id: &str| call(bed, &["state", id]).run();
    assert!(pid("abcd000000000001").ok().stdout.contains("abcd000000000001"));
    for ambiguous in ["abcd", "abcd00000000000"] {
        pid(ambiguous).fails("is the beginning of 2 container ids");
        call(bed, &["delete", "--force", ambiguous]).run().fails("is the beginning of 2");
    }
    // Names that somebody gave, and less than three digits, are not completed.
    for none in ["abce", "ab", "abcd000000000003"] {
        pid(none).fails("container does not exist");
    }
    call(bed, &["delete", "--force", "abce"]).run().ok();
    call(bed, &["state", "abce-named"]).run().ok();
    call(bed, &["delete", "--force", "abcd000000000001"]).run().ok();
    let outcome = call(bed, &["exec", "abcd0", "hostname"]).run().ok();
    assert_eq!(outcome.stdout, "abcd000000000002\n");
    call(bed, &["kill", "abcd0", "KILL"]).run().ok();
    ends(bed, "abcd0");
    call(bed, &["delete", "abcd0"]).run().ok();
    delete(bed, "abce-named");
}

fn an_init_reaps_and_passes_signals_on(bed: &Bed) {
    image_of(bed, vec![]);
    // Orphans end while the program does not wait for them.
    let script = "for i in 1 2 3; do (sleep 0 &); done; exec sleep 1000";
    let zombies = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null";
    for userns in ["host", "auto"] {
        let id = background(bed, &["--init", "--userns", userns], script);
        let list = |words: &str| call(bed, &["exec", &id, "sh", "-c", words]).run().stdout;
        wait::until_true("the program", || list("cat /proc/2/cmdline").starts_with("sleep"));
        wait::until_true("no zombie", || list(zombies).is_empty());
        assert!(list("cat /proc/1/cmdline").starts_with("/dev/init\0sh\0-c\0"), "{userns}");
        // What it runs from can't be written to.
        let outcome = call(bed, &["exec", &id, "sh", "-c", "echo >>/dev/init"]).run();
        assert!(outcome.stderr.contains("/dev/init: "), "{outcome}");
        let outcome = call(bed, &["exec", &id, "sh", "-c", "echo >>/proc/1/exe"]).run();
        assert!(outcome.stderr.contains("/proc/1/exe: "), "{outcome}");
        call(bed, &["kill", &id, "TERM"]).run().ok();
        ends(bed, &id);
        delete(bed, &id);
    }
}

fn an_init_ends_as_the_program_does(bed: &Bed) {
    image_of(bed, vec![users_layer()]);
    sh(bed, &["--init"], "exit 7").exits(7);
    sh(bed, &["--init", "-u", "www", "--read-only"], "exit 3").exits(3);
    sh(bed, &["--init"], "kill -9 $$").exits(137);
    assert_eq!(
        sh(bed, &["--init"], "trap 'echo x' USR1; kill -USR1 1; sleep 0.2").ok().stdout,
        "x\n"
    );
    let id = bed.id();
    let outcome =
        run(bed, &["--init", "--name", &id, "--image", "test", "nosuch"]).run().exits(127);
    assert!(outcome.stderr.contains("error: exec nosuch: no such file or directory"), "{outcome}");
    nothing_is_left(bed);
}

/// A user, and an image in the user's store.
fn user_with_image(bed: &Bed, user: &User) {
    let layout = layout(bed, vec![]);
    let base = user.bed.runtime().parent().expect("base");
    program::copy(&image::program(), &base.join("dayfly-image"));
    let import = ["image", "import", "--ignore-owners", path(&layout.dir), "--name", "test"];
    user.bed.call_bare(&import).run().ok();
}

fn as_user(user: &User, args: &[&str]) -> Call {
    user.bed.call(args)
}

/// Where nobody maps more than the user's own id: no helper is in the PATH.
fn users_of_one_id(bed: &Bed) {
    let user = User::new(bed);
    user_with_image(bed, &user);
    let base = user.bed.runtime().parent().expect("base");
    let script = format!(
        "PATH=/nowhere exec {}/dayfly run --image test cat /proc/self/uid_map",
        base.display()
    );
    let outcome = user.bed.call_bare(&["-c", &script]).env("PROGRAM", "/bin/sh").run().ok();
    let words: Vec<&str> = outcome.stdout.split_ascii_whitespace().collect();
    assert_eq!(words, ["0", &user.uid.to_string(), "1"], "{outcome}");
    without_unshare(&user);
}

fn users_with_ranges(bed: &Bed) {
    let user = User::new(bed);
    user_with_image(bed, &user);
    let id = user.bed.id();
    let script = "id -u; echo x >/f && busybox chown 7:8 /f && stat -c %u:%g /f; exit 5";
    let args = ["run", "--name", &id, "--image", "test", "sh", "-c", script];
    assert_eq!(as_user(&user, &args).run().exits(5).stdout, "0\n7:8\n");
    without_unshare(&user);
}

fn without_unshare(user: &User) {
    let id = user.bed.id();
    let args = ["run", "--init", "--name", &id, "--image", "test", "sh", "-c", "hostname; exit 4"];
    assert_eq!(as_user(user, &args).run().exits(4).stdout, format!("{id}\n"));
    let args = ["run", "-d", "--name", &id, "--image", "test", "sh", "-c", "echo out; sleep 1000"];
    let outcome = as_user(user, &args).run().ok();
    assert_eq!(outcome.stdout, format!("{id}\n"));
    assert!(outcome.stderr.contains("kept without a limit"), "{outcome}");
    let log = || as_user(user, &["logs", &id]).run().ok().stdout;
    wait::until_true("its output", || log() == "out\n");
    let exec = as_user(user, &["exec", &id, "sh", "-c", "hostname; echo y >/new"]).run().ok();
    assert_eq!(exec.stdout, format!("{id}\n"));
    as_user(user, &["delete", "--force", &id]).run().ok();
    as_user(user, &["state", &id]).run().fails("container does not exist");
    let containers =
        user.bed.runtime().parent().expect("base").join("home/.local/share/dayfly/containers");
    assert_eq!(fs::read_dir(containers).map_or(0, Iterator::count), 0);
}
