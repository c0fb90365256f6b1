//! The image store: what is in a layer is in its directory, what must not be is nowhere.

#[path = "images/containers.rs"]
pub mod containers;
#[path = "images/hostile.rs"]
pub mod hostile;

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_technique;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use tar::EntryType;

/// Nothing here depends on the view, or on how containers are started.
const V2: &[View] = &[View::V2];

pub const CASES: &[Case] = &[
    case!(every_packing).on(V2).when(uses_every_technique).needs(image::needed),
    case!(attributes).on(V2).when(uses_every_technique).needs(image::needed),
    case!(sparse_files).on(V2).when(uses_every_technique).needs(image::needed),
    case!(whiteouts_as_overlayfs_sees_them).on(V2).when(uses_every_technique).needs(image::needed),
    case!(what_layers_below_decide).on(V2).when(uses_every_technique).needs(image::needed),
    case!(a_layer_that_is_there_twice).on(V2).when(uses_every_technique).needs(image::needed),
    case!(platforms).on(V2).when(uses_every_technique).needs(image::needed),
    case!(the_runtimes_configuration).on(V2).when(uses_every_technique).needs(image::needed),
    case!(names_and_their_removal).on(V2).when(uses_every_technique).needs(image::needed),
    case!(a_containers_image_is_kept).on(V2).when(uses_every_technique).needs(image::needed),
    case!(exports_are_the_same_image).on(V2).when(uses_every_technique).needs(image::needed),
    case!(a_changed_layer_is_not_exported).on(V2).when(uses_every_technique).needs(image::needed),
    case!(eight_imports_at_once).on(V2).when(uses_every_technique).needs(image::needed),
    case!(killed_imports).on(V2).when(uses_every_technique).needs(image::needed).alone(),
    case!(an_interrupted_import).on(V2).when(uses_every_technique).needs(image::needed),
    case!(as_a_user).on(V2).when(uses_every_technique).needs(image::needed),
    case!(archives_of_engines).on(V2).when(uses_every_technique).needs(skopeo),
    case!(through_dayfly).on(V2).when(uses_every_technique).needs(image::needed),
];

fn skopeo() -> Result<(), String> {
    image::needed()?;
    match Path::new("/usr/bin/skopeo").exists() {
        true => Ok(()),
        false => Err("no skopeo: apt-get install skopeo".to_owned()),
    }
}

/// What is in the bed besides the store and what calls printed.
fn outside(bed: &Bed) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(&bed.dir).expect("bed");
    let own = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        !name.starts_with("call") && name != "store"
    };
    entries.flatten().map(|entry| entry.path()).filter(own).collect()
}

/// The only layer of an image made of `layer`.
#[track_caller]
fn unpacked(bed: &Bed, layer: Layer) -> PathBuf {
    let image = image::import(bed, &image::layout(bed, "layout", vec![layer]));
    image::layers(&image).remove(0)
}

/// What is in the parts of the store that anybody sees.
fn visible(bed: &Bed) -> Vec<PathBuf> {
    let parts = ["layers", "records", "images", "refs", "work"];
    let entries = parts.iter().filter_map(|part| fs::read_dir(image::store(bed).join(part)).ok());
    entries.flatten().flatten().map(|entry| entry.path()).collect()
}

/// An import that must fail with `text` and leave nothing.
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
    // Those by which overlayfs is steered are not for an image to set.
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

/// Everything below `root` in an overlayfs of `layers` (the bottom one first).
#[track_caller]
fn merged(bed: &Bed, layers: &[PathBuf], script: &str) -> String {
    let mount = bed.dir.join("merged");
    fs::create_dir_all(&mount).expect("make mount point");
    let lower: Vec<String> = layers.iter().rev().map(|layer| layer.display().to_string()).collect();
    // overlayfs wants two layers, or an upper one.
    let empty = bed.dir.join("empty");
    fs::create_dir_all(&empty).expect("make empty layer");
    let command = format!(
        "mount -t overlay overlay -o lowerdir={}:{} {mount} && cd {mount} && {script}",
        lower.join(":"),
        empty.display(),
        mount = mount.display()
    );
    bed.program("unshare", &["-m", "--propagation", "private", "sh", "-c", &command])
        .run()
        .ok()
        .stdout
}

fn whiteouts_as_overlayfs_sees_them(bed: &Bed) {
    let bottom = Layer::new()
        .dir("keep/", 0o755)
        .file("keep/a", 0o644, b"a")
        .file("keep/b", 0o644, b"b")
        .dir("gone/", 0o755)
        .file("gone/x", 0o644, b"x")
        .dir("hidden/", 0o755)
        .file("hidden/old", 0o644, b"old")
        .dir("again/", 0o755)
        .file("again/old", 0o644, b"old")
        .file("file", 0o644, b"below");
    let top = Layer::new()
        .dir("keep/", 0o755)
        .file("keep/.wh.a", 0o644, b"")
        .file(".wh.gone", 0o644, b"")
        .dir("hidden/", 0o755)
        .file("hidden/new", 0o644, b"new")
        .file("hidden/.wh..wh..opq", 0o644, b"")
        // Removed and made anew in the same layer.
        .file(".wh.again", 0o644, b"")
        .dir("again/", 0o755)
        .file("again/new", 0o644, b"new")
        // A whiteout beside what takes the place.
        .file("file", 0o644, b"above")
        .file(".wh.file", 0o644, b"")
        .file(".wh..wh.plnk", 0o644, b"");
    let image = image::import(bed, &image::layout(bed, "layout", vec![bottom, top]));
    let found = merged(bed, &image::layers(&image), "find . | LC_ALL=C sort && cat file");
    let wanted = ".\n./again\n./again/new\n./file\n./hidden\n./hidden/new\n./keep\n./keep/b\nabove";
    assert_eq!(found, wanted);
}

fn what_layers_below_decide(bed: &Bed) {
    let bottom = Layer::new()
        .dir("tmp/", 0o1777)
        .dir("plain/", 0o755)
        .dir("usr/", 0o755)
        .dir("usr/lib/", 0o755)
        .symlink("lib", "usr/lib")
        .file("usr/lib/base", 0o750, b"base");
    let top = Layer::new()
        .file("tmp/new", 0o644, b"new")
        .file("lib/more", 0o644, b"more")
        .link("linked", "usr/lib/base");
    let harmless = Layer::new().file("plain/file", 0o644, b"x");
    let layout = image::layout(bed, "layout", vec![bottom, top, harmless]);
    let image = image::import(bed, &layout);
    let layers = image::layers(&image);
    let script =
        "stat -c '%a %F' tmp && readlink lib && cat usr/lib/more linked && stat -c %a linked";
    assert_eq!(merged(bed, &layers, script), "1777 directory\nusr/lib\nmorebase750\n");
    // Kept by what it is together with those below, unlike the others.
    let info: Value =
        serde_json::from_slice(&fs::read(image.join("info.json")).expect("info")).expect("json");
    let own = |at: usize| {
        let diff_id = info["layers"][at]["diff_id"].as_str().expect("diff-id").to_owned();
        layers[at].ends_with(diff_id.trim_start_matches("sha256:"))
    };
    assert_eq!([own(0), own(1), own(2)], [true, false, true]);
    let out = bed.dir.join("out");
    image::call(bed, &["export", "test", out.to_str().expect("path")]).run().ok();
}

fn a_layer_that_is_there_twice(bed: &Bed) {
    let same = || Layer::new().file("same", 0o644, b"same");
    let between = Layer::new().file(".wh.same", 0o644, b"");
    let image = image::import(bed, &image::layout(bed, "layout", vec![same(), between, same()]));
    let layers = image::layers(&image);
    assert_eq!(layers.len(), 2, "{layers:?}");
    assert_eq!(merged(bed, &layers, "cat same"), "same");
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
    // One image without an index.
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

fn names_and_their_removal(bed: &Bed) {
    let base = || Layer::new().file("base", 0o644, b"base");
    let one = image::layout(bed, "one", vec![base(), Layer::new().file("one", 0o644, b"1")]);
    let two = image::layout(bed, "two", vec![base(), Layer::new().file("two", 0o644, b"2")]);
    let import = |layout: &Layout, name: &str| {
        let source = layout.dir.to_str().expect("path");
        image::call(bed, &["import", source, "--name", name]).run().ok()
    };
    assert!(import(&one, "localhost/team/one:1.0").stdout.contains("2 layers, 2 unpacked"));
    assert!(import(&two, "two").stdout.contains("2 layers, 1 unpacked"));
    assert!(import(&two, "also").stdout.contains("0 unpacked"));
    assert!(image::store(bed).join("refs/localhost%2Fteam%2Fone:1.0").is_symlink());
    let listed = image::call(bed, &["ls", "--format", "json"]).run().ok().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("json");
    let names: Vec<&Value> =
        listed.as_array().expect("list").iter().map(|image| &image["names"]).collect();
    assert_eq!(names, [&json!(["also:latest", "two:latest"]), &json!(["localhost/team/one:1.0"])]);
    let kept = |count: usize| {
        let layers = fs::read_dir(image::store(bed).join("layers")).expect("layers").count();
        assert_eq!(layers, count);
    };
    kept(3);
    assert!(image::call(bed, &["rm", "two"]).run().ok().stdout.contains("0 images and 0 layers"));
    kept(3);
    assert!(
        image::call(bed, &["rm", "localhost/team/one:1.0"])
            .run()
            .ok()
            .stdout
            .contains("1 images and 1 layers")
    );
    kept(2);
    let digest = listed[0]["digest"].as_str().expect("digest");
    image::call(bed, &["inspect", &digest[..20]]).run().ok();
    image::call(bed, &["rm", digest]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
    // All of what is asked for, or nothing.
    import(&one, "one");
    image::call(bed, &["rm", "one", "two"]).run().exits(1);
    kept(2);
    let listed = image::call(bed, &["rm", "one", "one"]).run().ok().stdout;
    assert_eq!(listed.matches("removed one:latest").count(), 1, "{listed}");
    let outcome = image::call(bed, &["rm", "two"]).run().exits(1);
    assert!(outcome.stderr.contains("no image two"), "{outcome}");
    let outcome = image::call(bed, &["import", one.dir.to_str().expect("path"), "--name", "../x"])
        .run()
        .exits(1);
    assert!(outcome.stderr.contains("no name of an image"), "{outcome}");
}

fn a_containers_image_is_kept(bed: &Bed) {
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let image = image::import(bed, &layout);
    let container = image::store(bed).join("containers/c1");
    fs::create_dir_all(&container).expect("make");
    symlink(
        format!("../../images/{}", image.file_name().and_then(|n| n.to_str()).expect("name")),
        container.join("image"),
    )
    .expect("link");
    image::call(bed, &["rm", "test"]).run().ok();
    image::call(bed, &["gc"]).run().ok();
    assert!(image::layers(&image)[0].join("file").exists());
    fs::remove_dir_all(&container).expect("remove");
    image::call(bed, &["gc"]).run().ok();
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
}

fn exports_are_the_same_image(bed: &Bed) {
    let bottom = Layer::new()
        .dir("./", 0o755)
        .file("file", 0o4755, &[3; 100_000])
        .link("hard", "file")
        // One entry takes the place of another: the archive has both.
        .file("twice", 0o644, b"first")
        .file("twice", 0o644, b"second");
    let top = Layer::new()
        .file(".wh.file", 0o644, b"")
        .pax(&[("SCHILY.xattr.user.a", b"b"), ("path", b"a/long/name")])
        .file("x", 0o600, b"contents");
    let image = image::import(bed, &image::layout(bed, "layout", vec![bottom, top]));
    assert_eq!(fs::read(image::layers(&image)[0].join("twice")).expect("twice"), b"second");
    let id = |bed: &Bed, name: &str| {
        let text = image::call(bed, &["inspect", name]).run().ok().stdout;
        let info: Value = serde_json::from_str(&text).expect("json");
        (info["id"].clone(), info["image"]["rootfs"].clone())
    };
    let first = id(bed, "test");
    for (at, options) in [
        &["--compress", "gzip"][..],
        &["--compress", "zstd"],
        &["--compress", "none"],
        &["--format", "oci-archive"],
        &["--format", "docker-archive"],
    ]
    .iter()
    .enumerate()
    {
        let out = bed.dir.join(format!("out{at}"));
        let out = out.to_str().expect("path");
        image::call(bed, &[&["export", "test", out], *options].concat()).run().ok();
        // Into an empty store, so that every layer is unpacked and checked.
        let other = bed.dir.join(format!("other{at}"));
        let other = other.to_str().expect("path");
        image::call(bed, &["import", out, "--name", "again", "--store", other]).run().ok();
        let text = image::call(bed, &["inspect", "again", "--store", other]).run().ok().stdout;
        let info: Value = serde_json::from_str(&text).expect("json");
        assert_eq!((info["id"].clone(), info["image"]["rootfs"].clone()), first, "{options:?}");
        let again = image::call(bed, &["export", "test", out]).run().exits(1);
        assert!(again.stderr.contains("there already"), "{again}");
    }
    let outcome = image::call(bed, &["export", "test", "-", "--format", "oci"]).run().exits(1);
    assert!(outcome.stderr.contains("--format oci-archive"), "{outcome}");
}

fn a_changed_layer_is_not_exported(bed: &Bed) {
    let root = unpacked(bed, Layer::new().file("file", 0o644, b"as it was"));
    fs::write(root.join("file"), "not as is").expect("write");
    let out = bed.dir.join("out");
    let outcome = image::call(bed, &["export", "test", out.to_str().expect("path")]).run().exits(1);
    assert!(outcome.stderr.contains("was something changed"), "{outcome}");
    assert!(!out.exists());
    assert!(
        !outside(bed).iter().any(|path| path.to_string_lossy().contains("/.out")),
        "partial file"
    );
}

/// A layout whose import takes a while: 12 layers of 60 files.
fn long_one(bed: &Bed) -> Layout {
    let layer = |number: u32| {
        (0..60).fold(Layer::new().dir("d/", 0o755), |layer, at| {
            let data: Vec<u8> = (0..3000u32).map(|i| (i * 7 + number * 13 + at) as u8).collect();
            layer.file(&format!("d/{number}-{at}"), 0o644, &data)
        })
    };
    image::layout(bed, "layout", (0..12).map(layer).collect())
}

fn eight_imports_at_once(bed: &Bed) {
    let layout = long_one(bed);
    let source = layout.dir.to_str().expect("path");
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| image::call(bed, &["import", source, "--name", name]).spawn())
        .collect();
    running.into_iter().for_each(|one| drop(one.wait().ok()));
    assert_eq!(fs::read_dir(image::store(bed).join("layers")).expect("layers").count(), 12);
    assert_eq!(fs::read_dir(image::store(bed).join("work")).expect("work").count(), 0);
    assert_eq!(fs::read_dir(image::store(bed).join("refs")).expect("refs").count(), 8);
    let out = bed.dir.join("out");
    image::call(bed, &["export", "n3", out.to_str().expect("path"), "--compress", "none"])
        .run()
        .ok();
}

fn killed_imports(bed: &Bed) {
    let layout = long_one(bed);
    let source = layout.dir.to_str().expect("path");
    let import = || image::call(bed, &["import", source, "--name", "test"]);
    let start = std::time::Instant::now();
    import().run().ok();
    let whole = start.elapsed();
    image::call(bed, &["rm", "test"]).run().ok();
    for round in 0..20u32 {
        let running = import().spawn();
        std::thread::sleep(whole * round / 20);
        running.signal(Signal::KILL);
        let killed = running.wait().died_of_signal();
        let named = image::store(bed).join("refs/test:latest").exists();
        if named {
            // Whole, then.
            let out = bed.dir.join(format!("out{round}"));
            image::call(
                bed,
                &["export", "test", out.to_str().expect("path"), "--compress", "none"],
            )
            .run()
            .ok();
            image::call(bed, &["rm", "test"]).run().ok();
        } else {
            assert!(killed);
            let listed = image::call(bed, &["ls", "--quiet"]).run().ok().stdout;
            assert!(listed.lines().count() <= 1, "{listed}");
        }
        image::call(bed, &["gc"]).run().ok();
        assert_eq!(visible(bed), Vec::<PathBuf>::new(), "round {round}");
    }
}

fn an_interrupted_import(bed: &Bed) {
    // While its layers are unpacked.
    let layout = long_one(bed);
    let running =
        image::call(bed, &["import", layout.dir.to_str().expect("path"), "--name", "test"]).spawn();
    let work = image::store(bed).join("work");
    wait::until_true("work that is begun", || fs::read_dir(&work).is_ok_and(|dir| dir.count() > 0));
    running.signal(Signal::TERM);
    let outcome = running.wait();
    if outcome.code() != 0 {
        assert!(outcome.stderr.contains("interrupted"), "{outcome}");
        assert_eq!(visible(bed), Vec::<PathBuf>::new());
    }
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
    fs::copy(image::program(), &program).expect("copy");
    let as_user = |args: &[&str]| {
        let user = ["--reuid", "65533", "--regid", "65533", "--clear-groups"];
        let all = [&user[..], &[program.to_str().expect("path"), "image"], args].concat();
        bed.program("setpriv", &all)
            .env("HOME", home.to_str().expect("path"))
            .env("XDG_DATA_HOME", "")
    };
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

fn archives_of_engines(bed: &Bed) {
    let layer = Layer::new().dir("./", 0o755).file("./file", 0o644, b"contents");
    let layout = image::layout(bed, "layout", vec![layer, Layer::new().file("more", 0o644, b"")]);
    let from = format!("oci:{}", layout.dir.display());
    for (kind, name) in [("docker-archive", "one.tar"), ("oci-archive", "two.tar")] {
        let file = bed.dir.join(name);
        let to = format!("{kind}:{}:registry.test/web:2", file.display());
        bed.program("skopeo", &["copy", "--insecure-policy", &from, &to]).run().ok();
        for source in [file.display().to_string(), format!("{kind}:{}", file.display())] {
            image::call(bed, &["import", &source]).run().ok();
        }
        let image = image::store(bed).join("refs/registry.test%2Fweb:2");
        assert_eq!(fs::read(image::layers(&image)[0].join("file")).expect("file"), b"contents");
        image::call(bed, &["rm", "registry.test/web:2"]).run().ok();
        // Compressed as a whole, from standard input; a zstd stream may begin with a frame to skip.
        let plain = file.to_str().expect("path");
        bed.program("gzip", &["-k", plain]).run().ok();
        bed.program("zstd", &["-q", "-k", plain]).run().ok();
        let frame = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 0, 0];
        let frames = [&frame[..], &fs::read(file.with_extension("tar.zst")).expect("zst")].concat();
        fs::write(file.with_extension("tar.zst"), frames).expect("zst");
        for extension in ["tar.gz", "tar.zst"] {
            let input = fs::File::open(file.with_extension(extension)).expect(extension);
            image::call(bed, &["import", "-", "--name", "piped"]).stdin(input).run().ok();
        }
        image::call(bed, &["rm", "piped"]).run().ok();
    }
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
    image::import(bed, &layout);
    let out = bed.dir.join("out.tar");
    image::call(
        bed,
        &["export", "test", out.to_str().expect("path"), "--format", "docker-archive"],
    )
    .run()
    .ok();
    let exported = format!("docker-archive:{}", out.display());
    let told = bed.program("skopeo", &["inspect", &exported]).run().ok().stdout;
    assert!(told.contains("sha256:"), "{told}");
}

fn through_dayfly(bed: &Bed) {
    if bed.runtime().with_file_name("dayfly-image") != image::program() {
        return;
    }
    let layout = image::layout(bed, "layout", vec![Layer::new().file("file", 0o644, b"")]);
    let store = image::store(bed);
    let store = store.to_str().expect("path");
    let source = layout.dir.to_str().expect("path");
    bed.call_bare(&["image", "import", source, "--name", "test", "--store", store]).run().ok();
    let listed = bed.call_bare(&["image", "ls", "--store", store]).run().ok().stdout;
    assert!(listed.contains("test:latest"), "{listed}");
    // An xattr of the host's does not stand in the way of removal.
    let _ = setxattr(store, "user.note", b"x", XattrFlags::empty());
    bed.call_bare(&["image", "rm", "test", "--store", store]).run().ok();
}
