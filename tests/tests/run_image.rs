//! `run --image` with the options that users of engines know, including invalid ones.

#[path = "run_image/bridges.rs"]
pub mod bridges;
#[path = "run_image/exits.rs"]
pub mod exits;
#[path = "run_image/background.rs"]
pub mod in_background;
#[path = "run_image/inits.rs"]
pub mod inits;
#[path = "run_image/named.rs"]
pub mod named;
#[path = "run_image/resolvers.rs"]
pub mod resolvers;
#[path = "run_image/stores.rs"]
pub mod stores;
#[path = "run_image/users.rs"]
pub mod users_alone;

use dayfly_tests::bed::Bed;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::rootfs::busybox;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::user::can_be;
use dayfly_tests::view::View;
use dayfly_tests::{case, wait};
use serde_json::json;
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
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
];

pub fn programs() -> Result<(), String> {
    image::needed()?;
    busybox().map(drop)
}

fn users() -> Result<(), String> {
    programs()?;
    can_be()
}

const APPLETS: [&str; 22] = [
    "sh", "cat", "echo", "env", "id", "ls", "true", "touch", "sleep", "hostname", "pwd", "ip",
    "mount", "grep", "stat", "yes", "ps", "head", "kill", "readlink", "mkdir", "ln",
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

/// Imports an image `test` from a layer with a shell and these layers above it.
pub fn image_of(bed: &Bed, more: Vec<Layer>) {
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

/// Returns a layer with /etc/passwd and /etc/group.
fn users_layer() -> Layer {
    Layer::new()
        .dir("etc/", 0o755)
        .file("etc/passwd", 0o644, b"root:x:0:0::/root:/bin/sh\nwww:x:33:34::/srv:/bin/sh\n")
        .file("etc/group", 0o644, b"www:x:34:\nextra:x:50:www\n")
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the call `dayfly run ARGS…` with the bed's store.
pub fn run(bed: &Bed, args: &[&str]) -> Call {
    call(bed, &[&["run"], args].concat())
}

pub fn call(bed: &Bed, args: &[&str]) -> Call {
    bed.call(args)
        .env("DAYFLY_STORE", path(&image::store(bed)))
        .env("DAYFLY_IDS", path(&bed.dir.join("ids")))
        .env("DAYFLY_SUBUID", "/dev/null")
        .env("DAYFLY_SUBGID", "/dev/null")
}

/// Runs a script in a container of the image.
fn sh(bed: &Bed, options: &[&str], script: &str) -> Outcome {
    let id = bed.id();
    let all = [options, &["--name", &id, "--image", "test", "sh", "-c", script]].concat();
    run(bed, &all).run()
}

/// Asserts that a call fails and leaves nothing behind.
#[track_caller]
fn refused(bed: &Bed, options: &[&str], text: &str) {
    sh(bed, options, "true").fails(text);
    nothing_is_left(bed);
}

#[track_caller]
pub fn nothing_is_left(bed: &Bed) {
    for directory in [image::store(bed).join("containers"), bed.root(), bed.dir.join("ids")] {
        let left = fs::read_dir(&directory).map_or(0, Iterator::count);
        assert_eq!(left, 0, "left in {}", directory.display());
    }
    assert!(!mounts_of(bed), "a mount is left");
}

/// Returns whether the host has a mount below the bed's state root.
fn mounts_of(bed: &Bed) -> bool {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    text.contains(path(&bed.root()))
}

/// Starts a container in the background; returns its id.
#[track_caller]
pub fn background(bed: &Bed, options: &[&str], script: &str) -> String {
    let all = [&["-d"], options, &["--image", "test", "sh", "-c", script]].concat();
    let outcome = run(bed, &all).run().ok();
    let id = outcome.stdout.strip_suffix('\n').expect("a line").to_owned();
    assert!(!id.contains('\n'), "{outcome}");
    id
}

fn status_of(bed: &Bed, id: &str) -> serde_json::Value {
    let outcome = call(bed, &["state", id]).run().ok();
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn status(bed: &Bed, id: &str) -> String {
    status_of(bed, id)["status"].as_str().expect("status").to_owned()
}

#[track_caller]
pub fn ends(bed: &Bed, id: &str) {
    wait::until_true("its end", || status(bed, id) == "stopped");
}

#[track_caller]
pub fn delete(bed: &Bed, id: &str) {
    call(bed, &["delete", "--force", id]).run().ok();
    nothing_is_left(bed);
}

fn short_options(bed: &Bed) {
    image_of(bed, vec![]);
    // Short options can be combined; the last of them has a value.
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
    let script = "cat /data/file; touch /data/new; touch /ro/new; stat -c %a /mem; grep -c ' /mem .*size=1024k' /proc/mounts; \
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
    // The paths are relative to the working directory. A parent is mounted before the mounts below it, whatever the
    // order.
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
    // The mount replaces the default mount at /dev/shm.
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
    // One row per controller, some of which the host may lack in this view.
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
    refused(bed, &["--network", "mynet"], "dayfly makes no others");
    refused(bed, &["--network", "container:nobody"], "container does not exist");
    refused(bed, &["--network", "ns:/no/such"], "no such file or directory");
    refused(bed, &["--network", "ns:/etc/passwd"], "/etc/passwd is not a network namespace");
    refused(bed, &["--network", "ns:/proc/self/ns/uts"], "is not a network namespace");
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

/// Higher layers remove /etc/passwd, hide its directory, or replace it by a link to the host's file.
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
        // A numeric user does not need /etc/passwd.
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
    // The program may replace the files that dayfly makes in /etc. With the host's network, these files have the
    // content of the host's files.
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
    // If the image's /etc is a link, dayfly makes no files there.
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
        outcome.stderr
    };
    for (reference, name) in [
        ("tool", "registry.test/team/tool:latest"),
        ("team/tool", "registry.test/team/tool:latest"),
        ("tool:latest", "registry.test/team/tool:latest"),
        ("box", "layout:box"),
    ] {
        let told = format!(
            "warning: image {reference} is {name}, the only image whose name ends like this\n"
        );
        assert_eq!(prints(reference), told);
    }
    let archive = bed.dir.join("tool.tar");
    let outcome = image::call(bed, &["export", "tool", path(&archive)]).run().ok();
    assert!(outcome.stderr.contains("tool is registry.test/team/tool:latest"), "{outcome}");
    for reference in ["registry.test/team/tool", "layout:box"] {
        assert_eq!(prints(reference), "", "{reference}");
    }
    let manifest = fs::read_to_string(
        fs::canonicalize(image::store(bed).join("refs/layout:box"))
            .expect("image")
            .join("manifest.json"),
    );
    let manifest: serde_json::Value =
        serde_json::from_str(&manifest.expect("manifest")).expect("JSON");
    let configuration = manifest["config"]["digest"].as_str().expect("digest");
    assert_eq!(prints(configuration), "");
    assert_eq!(prints(&configuration["sha256:".len()..][..12]), "");
    import("localhost/tool:latest");
    run(bed, &["--image", "tool"]).run().fails(
        "image tool may be localhost/tool:latest or registry.test/team/tool:latest: name one in full",
    );
    run(bed, &["--image", "tool:2"]).run().fails("no image tool:2 in");
    // `rm` with the last part of a name removes that name, and keeps the image's other names.
    image::call(bed, &["rm", "box"]).run().ok();
    assert_eq!(prints("localhost/tool"), "");
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
