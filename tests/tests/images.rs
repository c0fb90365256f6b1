//! The image store: a layer's content is in the layer's directory, and nothing is written outside the store.

#[path = "images/bombs.rs"]
pub mod bombs;
#[path = "images/containers.rs"]
pub mod containers;
#[path = "images/crowds.rs"]
pub mod crowds;
#[path = "images/exports.rs"]
pub mod exports;
#[path = "images/filters.rs"]
pub mod filters;
#[path = "images/hostile.rs"]
pub mod hostile;
#[path = "images/names.rs"]
pub mod names;
#[path = "images/registries.rs"]
pub mod registries;
#[path = "images/roots.rs"]
pub mod roots;
#[path = "images/stacks.rs"]
pub mod stacks;

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::view::View;
use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tar::EntryType;

/// The cases run in one view only: they depend neither on the view nor on how containers are started.
const V2: &[View] = &[View::V2];

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(every_packing).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(attributes).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(sparse_files).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(platforms).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(the_runtimes_configuration).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(as_a_user).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(through_dayfly).on(V2).when(uses_every_fast_path).needs(image::needed),
];

/// Returns the files in the bed outside the store, except the output of calls.
fn outside(bed: &Bed) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(&bed.dir).expect("bed");
    let own = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        !name.starts_with("call") && name != "store"
    };
    entries.flatten().map(|entry| entry.path()).filter(own).collect()
}

/// Imports an image with `layer` as its only layer; returns the layer's directory.
#[track_caller]
fn unpacked(bed: &Bed, layer: Layer) -> PathBuf {
    let image = image::import(bed, &image::layout(bed, "layout", vec![layer]));
    image::layers(&image).remove(0)
}

/// Returns the entries of the store's public parts.
fn visible(bed: &Bed) -> Vec<PathBuf> {
    let parts = ["layers", "records", "images", "refs", "work"];
    let entries = parts.iter().filter_map(|part| fs::read_dir(image::store(bed).join(part)).ok());
    entries.flatten().flatten().map(|entry| entry.path()).collect()
}

/// Asserts that an import fails with `text` and leaves nothing.
#[track_caller]
fn refused(bed: &Bed, layout: &Layout, options: &[&str], text: &str) -> String {
    let source = layout.dir.to_str().expect("path");
    let all = [&["import", source, "--name", "test"], options].concat();
    let outcome = image::call(bed, &all).run().exits(1);
    assert!(outcome.stderr.contains(text), "lacks {text:?}: {outcome}");
    let left = visible(bed);
    assert!(left.is_empty(), "left by {outcome}: {left:?}");
    outcome.stderr
}

fn every_packing(bed: &Bed) {
    let layout = Layout::new(bed.dir.join("layout"));
    let packings = [Packing::Gzip, Packing::Zstd, Packing::Plain];
    let layers: Vec<_> = packings
        .iter()
        .enumerate()
        .map(|(at, &packing)| {
            let data = vec![b'a' + at as u8; 300_000];
            (Layer::new().dir("./", 0o755).file(&format!("./file{at}"), 0o640, &data), packing)
        })
        .collect();
    let manifest = layout.image(&layers, &Value::Null);
    layout.index(&[manifest]);
    let directories = image::layers(&image::import(bed, &layout));
    assert_eq!(directories.len(), 3);
    for (at, directory) in directories.iter().enumerate() {
        let file = directory.join(format!("file{at}"));
        assert_eq!(fs::read(&file).expect("file"), vec![b'a' + at as u8; 300_000]);
        let meta = fs::metadata(&file).expect("metadata");
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, 1_000_000_000));
        assert_eq!(fs::metadata(directory).expect("metadata").mtime(), 1_000_000_000);
    }
}

fn attributes(bed: &Bed) {
    let capability = b"\x01\0\0\x02\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let long = format!("dir/{}", "n".repeat(250));
    let layer = Layer::new()
        .dir("dir/", 0o1777)
        .pax(&[
            ("SCHILY.xattr.security.capability", capability),
            ("SCHILY.xattr.user.note", b"a\nb=c\n"),
        ])
        .file("dir/ping", 0o755, b"ping")
        .file("dir/su", 0o4755, b"su")
        .link("dir/other", "dir/su")
        .owned("dir/www", 33, 1_000_000)
        .device("dir/null", EntryType::Char, 1, 3)
        .device("dir/loop", EntryType::Block, 7, 0)
        .entry(EntryType::Fifo, "dir/pipe", "", 0o600, b"")
        .symlink("dir/link", "../nowhere")
        .pax(&[("path", long.as_bytes()), ("mtime", b"12345.5")])
        .file("short", 0o600, b"long")
        .pax(&[
            ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ])
        .dir("sly/", 0o700);
    let root = unpacked(bed, layer);
    let meta = |name: &str| {
        fs::symlink_metadata(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let xattr = |name: &str, key: &str| {
        let mut value = [0u8; 100];
        lgetxattr(root.join(name), key, &mut value[..]).map(|length| value[..length].to_vec())
    };
    assert_eq!(xattr("dir/ping", "security.capability").as_deref(), Ok(&capability[..]));
    assert_eq!(xattr("dir/ping", "user.note").as_deref(), Ok(&b"a\nb=c\n"[..]));
    assert_eq!(meta("dir/su").mode() & 0o7777, 0o4755);
    assert_eq!(meta("dir/su").ino(), meta("dir/other").ino());
    assert_eq!((meta("dir/www").uid(), meta("dir/www").gid()), (33, 1_000_000));
    assert!(meta("dir/null").file_type().is_char_device());
    assert_eq!(meta("dir/null").rdev(), rustix::fs::makedev(1, 3));
    assert!(meta("dir/loop").file_type().is_block_device());
    assert!(meta("dir/pipe").file_type().is_fifo());
    assert_eq!(fs::read_link(root.join("dir/link")).expect("link"), Path::new("../nowhere"));
    assert_eq!((meta(&long).mtime(), meta(&long).mtime_nsec()), (12345, 500_000_000));
    assert_eq!((meta("dir").mode() & 0o7777, meta("dir").mtime()), (0o1777, 1_000_000_000));
    // An image must not be able to set the attributes that control overlayfs.
    assert!(xattr("sly", "trusted.overlay.redirect").is_err());
    assert!(xattr("sly", "user.overlay.opaque").is_err());
}

fn sparse_files(bed: &Bed) {
    let pax = [
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"new"),
        ("GNU.sparse.realsize", b"1000000"),
    ];
    let mut map = b"2\n0\n3\n999997\n3\n".to_vec();
    map.resize(512, 0);
    map.extend(b"abcxyz");
    let mut layer = Layer::new().pax(&pax).file("GNUSparseFile.0/new", 0o644, &map);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("old").expect("name");
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(512);
    let gnu = header.as_gnu_mut().expect("gnu");
    let octal = |field: &mut [u8], value: u64| {
        let text = format!("{value:0width$o}\0", width = field.len() - 1);
        field.copy_from_slice(text.as_bytes());
    };
    octal(&mut gnu.sparse[0].offset, 1 << 20);
    octal(&mut gnu.sparse[0].numbytes, 512);
    octal(&mut gnu.realsize, 2 << 20);
    layer.header(&mut header, &[7; 512]);
    let root = unpacked(bed, layer);
    let new = fs::read(root.join("new")).expect("new");
    assert_eq!((new.len(), &new[..4], &new[999_996..]), (1_000_000, &b"abc\0"[..], &b"\0xyz"[..]));
    let old = fs::read(root.join("old")).expect("old");
    assert_eq!(
        (old.len(), old[(1 << 20) - 1], old[1 << 20], old[(1 << 20) + 512]),
        (2 << 20, 0, 7, 0)
    );
    assert!(fs::metadata(root.join("old")).expect("metadata").blocks() < 64, "no holes");
}

fn platforms(bed: &Bed) {
    let layout = Layout::new(bed.dir.join("layout"));
    let mut entries = Vec::new();
    for (architecture, variant) in [("amd64", None), ("arm64", None), ("arm", Some("v7"))] {
        let layer = (Layer::new().file(architecture, 0o644, b""), Packing::Gzip);
        let mut entry = layout.image_for(architecture, &[layer], &Value::Null);
        entry["platform"] = json!({ "os": "linux", "architecture": architecture });
        if let Some(variant) = variant {
            entry["platform"]["variant"] = json!(variant);
        }
        entries.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "manifests": entries });
    let index =
        layout.blob("application/vnd.oci.image.index.v1+json", index.to_string().as_bytes());
    layout.index(&[index]);
    let source = layout.dir.to_str().expect("path");
    for (name, platform, file) in
        [("a", "linux/amd64", "amd64"), ("b", "arm64", "arm64"), ("c", "linux/arm/v7", "arm")]
    {
        image::call(bed, &["import", source, "--name", name, "--platform", platform]).run().ok();
        let image = image::store(bed).join(format!("refs/{name}:latest"));
        assert!(image::layers(&image)[0].join(file).exists(), "{platform}");
    }
    let outcome = image::call(bed, &["import", source, "--platform", "linux/s390x"]).run().exits(1);
    assert!(outcome.stderr.contains("linux/amd64, linux/arm64, linux/arm/v7"), "{outcome}");
    // A layout whose index has only one image.
    let alone = Layout::new(bed.dir.join("alone"));
    let layer = (Layer::new().file("arm64", 0o644, b""), Packing::Gzip);
    alone.index(&[alone.image_for("arm64", &[layer], &Value::Null)]);
    let source = alone.dir.to_str().expect("path");
    let import =
        |options: &[&str]| image::call(bed, &[&["import", source], options].concat()).run();
    let outcome = import(&["--platform", "amd64"]).exits(1);
    assert!(outcome.stderr.contains("only one for linux/arm64"), "{outcome}");
    import(&["--platform", "arm64"]).ok();
    let outcome = import(&[]).ok();
    assert!(outcome.stderr.contains("warning: the image is for linux/arm64"), "{outcome}");
}

fn the_runtimes_configuration(bed: &Bed) {
    let layout = Layout::new(bed.dir.join("layout"));
    let bottom =
        Layer::new().dir("etc/", 0o755).file("etc/passwd", 0o644, b"app:x:1:1::/old:/bin/sh\n");
    let top = Layer::new()
        .dir("etc/", 0o755)
        .file("etc/passwd", 0o644, b"app:x:77:78::/srv:/bin/sh\n")
        .file("etc/group", 0o644, b"app:x:78:\nextra:x:99:app\n");
    let process = json!({
        "Entrypoint": ["/bin/server", "-x"], "Cmd": ["go"], "User": "app", "WorkingDir": "/srv",
        "Env": ["PATH=/bin"], "Labels": { "maintainer": "me", "run.dayfly.trace": "svg" },
        "StopSignal": "SIGQUIT", "ExposedPorts": { "80/tcp": {} }, "Volumes": { "/data": {} },
    });
    let image = layout.image(&[(bottom, Packing::Gzip), (top, Packing::Zstd)], &process);
    layout.index(&[image]);
    let image = image::import(bed, &layout);
    let config: Value =
        serde_json::from_slice(&fs::read(image.join("config.json")).expect("config"))
            .expect("json");
    assert_eq!(config["process"]["args"], json!(["/bin/server", "-x", "go"]));
    assert_eq!(
        config["process"]["user"],
        json!({ "uid": 77, "gid": 78, "umask": 18, "additionalGids": [99] })
    );
    assert_eq!(config["process"]["cwd"], "/srv");
    assert!(config["process"]["env"].as_array().expect("env").contains(&json!("HOME=/srv")));
    assert_eq!(config["annotations"]["org.opencontainers.image.stopSignal"], "SIGQUIT");
    assert_eq!(config["annotations"]["maintainer"], "me");
    assert!(config["annotations"]["run.dayfly.trace"].is_null());
    assert!(config["linux"]["seccomp"].is_null());
    assert_eq!(config["mounts"].as_array().expect("mounts").len(), 7);
    assert_eq!(fs::read_to_string(image.join("entrypoint")).expect("entrypoint"), "2\n");
}

fn as_a_user(bed: &Bed) {
    let layer = || {
        Layer::new()
            .dir("./", 0o555)
            .dir("d/", 0o500)
            .file("d/file", 0o4755, b"x")
            .owned("www", 33, 33)
    };
    let bottom = Layer::new().dir("gone/", 0o755).file("gone/x", 0o644, b"");
    let top = Layer::new().file(".wh.gone", 0o644, b"").device("null", EntryType::Char, 1, 3);
    let layout = image::layout(bed, "layout", vec![layer(), bottom, top]);
    let home = bed.dir.join("home");
    fs::create_dir(&home).expect("make");
    std::os::unix::fs::chown(&home, Some(65533), Some(65533)).expect("chown");
    for directory in [&bed.dir, &layout.dir] {
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("chmod");
    }
    let program = bed.dir.join("dayfly-image");
    dayfly_tests::program::copy(&image::program(), &program);
    let as_user = |args: &[&str]| {
        let user = ["--reuid", "65533", "--regid", "65533", "--clear-groups"];
        let all = [&user[..], &[program.to_str().expect("path"), "image"], args].concat();
        bed.program("setpriv", &all)
            .env("HOME", home.to_str().expect("path"))
            .env("XDG_DATA_HOME", "")
    };
    // Until the first import makes the default store, it counts as empty.
    assert_eq!(as_user(&["ls", "-q"]).run().ok().stdout, "");
    for words in [&["gc"][..], &["rm", "--force", "test"]] {
        let said = as_user(words).run().ok().stdout;
        assert!(said.starts_with("0 images and 0 layers removed"), "{said}");
    }
    as_user(&["inspect", "test"]).run().fails_without_log("no image store at ");
    assert_eq!(fs::read_dir(&home).expect("read").count(), 0);
    let source = layout.dir.to_str().expect("path");
    let outcome = as_user(&["import", source, "--name", "test"]).run().exits(1);
    assert!(
        outcome.stderr.contains("belongs to user 33") && outcome.stderr.contains("--ignore-owners"),
        "{outcome}"
    );
    let outcome = as_user(&["import", source, "--name", "test", "--ignore-owners"]).run().ok();
    assert!(outcome.stderr.contains("devices not kept: null"), "{outcome}");
    assert!(outcome.stderr.contains("owners other than root not kept: www"), "{outcome}");
    let layers = image::layers(&home.join(".local/share/dayfly/refs/test:latest"));
    let meta = |path: &str| fs::symlink_metadata(layers[0].join(path)).expect("metadata");
    assert_eq!((meta("d").mode() & 0o7777, meta("d").uid()), (0o500, 65533));
    assert_eq!(meta("d/file").mode() & 0o7777, 0o4755);
    let whiteout = fs::symlink_metadata(layers[2].join("gone")).expect("whiteout");
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    as_user(&["export", "test", home.join("out").to_str().expect("path")]).run().ok();
    as_user(&["rm", "test"]).run().ok();
    let left = fs::read_dir(home.join(".local/share/dayfly/layers")).expect("layers").count();
    assert_eq!(left, 0);
}

fn through_dayfly(bed: &Bed) {
    if bed.runtime().with_file_name("dayfly-image") != image::program() {
        return;
    }
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let store = image::store(bed);
    let store = store.to_str().expect("path");
    let source = layout.dir.to_str().expect("path");
    let missing = format!("{store}-missing");
    let target = bed.dir.join("target");
    for words in [
        &["image", "ls"][..],
        &["image", "inspect", "test"],
        &["image", "rm", "test"],
        &["image", "rm", "--force", "test"],
        &["image", "gc"],
        &["image", "export", "test", target.to_str().expect("path")],
    ] {
        let words = [words, &["--store", &missing]].concat();
        let text = format!("error: no image store at {missing}: ");
        bed.call_bare(&words).run().fails_without_log(&text);
        assert!(!Path::new(&missing).exists() && !target.exists(), "{words:?}");
    }
    bed.call_bare(&["image", "import", source, "--name", "test", "--store", store]).run().ok();
    let listed = bed.call_bare(&["image", "ls", "--store", store]).run().ok().stdout;
    assert!(listed.contains("test:latest"), "{listed}");
    fs::write(&target, "").expect("write");
    let words = ["rootfs", "mount", "test", target.to_str().expect("path"), "--store", store];
    let text = format!("error: mount at {}: it is not a directory", target.display());
    bed.call_bare(&words).run().fails_without_log(&text);
    // An extended attribute set on the host does not prevent removal.
    let _ = setxattr(store, "user.note", b"x", XattrFlags::empty());
    bed.call_bare(&["image", "rm", "test", "--store", store]).run().ok();
}
