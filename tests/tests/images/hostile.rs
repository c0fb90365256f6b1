//! Malicious archives, and blobs that do not match their descriptors.

use super::{V2, outside, refused, unpacked, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tar::EntryType;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(hostile_archives).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(what_leads_out_stays_inside).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(bombs).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(bombs_around_images).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(damaged_blobs).on(V2).when(uses_every_fast_path).needs(image::needed),
];

fn hostile_archives(bed: &Bed) {
    let pax = |records: &[(&str, &[u8])]| Layer::new().pax(records).file("x", 0o644, b"");
    let many = (0..9).fold(Layer::new(), |layer, _| layer.pax(&[("comment", b"x")]));
    let mut wrong = Layer::new().file("a", 0o644, b"").archive();
    wrong[0] = b'b';
    let huge = [("GNU.sparse.map", &b"0,5,3,9"[..]), ("GNU.sparse.size", b"20")];
    let cases: Vec<(&str, Layer, &str)> = vec![
        ("terminal", Layer::new().file("a\x1b[2J/../b", 0o644, b""), "a\\u{1b}[2J"),
        ("up", Layer::new().file("../escaped", 0o644, b""), "\"..\""),
        ("up inside", Layer::new().file("a/../../escaped", 0o644, b""), "\"..\""),
        ("link up", Layer::new().link("a", "../../escaped"), "may not lead there"),
        ("link to root", Layer::new().link("a", "/"), "may not lead there"),
        ("link nowhere", Layer::new().link("a", "b"), "neither in the layer"),
        ("link to itself", Layer::new().link("a", "a"), "neither in the layer"),
        (
            "file as parent",
            Layer::new().file("a", 0o644, b"").file("a/b", 0o644, b""),
            "not a directory",
        ),
        (
            "loop",
            Layer::new().symlink("a", "b").symlink("b", "a").file("a/c", 0o644, b""),
            "open a",
        ),
        ("link to directory", Layer::new().dir("a/", 0o755).link("b", "a"), "link b"),
        ("whiteout of nothing", Layer::new().file(".wh.", 0o644, b""), "removes no file"),
        ("whiteout of dots", Layer::new().file("a/.wh...", 0o644, b""), "removes no file"),
        (
            "root as file",
            Layer::new().file("./", 0o644, b"").file(".", 0o644, b""),
            "must be a directory",
        ),
        ("zero in name", pax(&[("path", b"a\0b")]), "zero byte"),
        ("long name", pax(&[("path", &[b'a'; 300])]), "longer than 255"),
        ("deep name", pax(&[("path", "a/".repeat(5000).as_bytes())]), "file name too long"),
        ("owner nobody has", pax(&[("uid", b"4294967295")]), "4294967295"),
        ("size", pax(&[("size", b"99999999999")]), "ends inside a file"),
        ("negative size", pax(&[("size", b"-1")]), "PAX header"),
        (
            "pax",
            Layer::new().entry(EntryType::XHeader, "p", "", 0o644, b"999 path=x\n"),
            "PAX header",
        ),
        ("headers", many, "too many headers"),
        ("holes", pax(&huge), "contradicts itself"),
        ("type", Layer::new().entry(EntryType::new(b'M'), "a", "", 0o644, b""), "type 'M'"),
        ("sum", Layer::new().raw(&wrong), "invalid checksum"),
        (
            "end",
            Layer::new().raw(&Layer::new().file("a", 0o644, &[1; 6000]).archive()[..700]),
            "ends inside a file",
        ),
        ("noise", Layer::new().raw(&[0xa5; 2000]), "header"),
    ];
    let before: BTreeSet<PathBuf> = outside(bed);
    for (name, layer, text) in cases {
        let layout = image::layout(bed, "hostile", vec![layer]);
        let said = refused(bed, &layout, &[], text);
        assert!(!said.contains('\x1b'), "{name}: {said:?}");
        fs::remove_dir_all(&layout.dir).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outside(bed), before, "{name}");
    }
}

fn what_leads_out_stays_inside(bed: &Bed) {
    let victim = bed.dir.join("victim");
    fs::create_dir(&victim).expect("make");
    fs::write(victim.join("file"), "mine").expect("write");
    let out = victim.to_str().expect("path");
    let up = format!("{}{out}", "../".repeat(30));
    let layer = Layer::new()
        // Absolute names are taken as relative to the layer.
        .file("/absolute", 0o644, b"inside")
        .symlink("by-path", out)
        .file("by-path/file", 0o644, b"evil")
        .symlink("by-dots", &up)
        .file("by-dots/file2", 0o644, b"evil")
        // A link replaces a directory, and a file is then written through the link.
        .dir("swap/", 0o755)
        .symlink("swap", out)
        .file("swap/file3", 0o644, b"evil")
        .symlink("target", &format!("{out}/file"))
        .file("target", 0o666, b"evil")
        .symlink("other", &format!("{out}/file"))
        .link("hard", "other")
        .file("hard", 0o666, b"evil")
        .symlink("root", "/proc/self/root")
        .file("root/escaped", 0o644, b"evil");
    let root = unpacked(bed, layer);
    assert_eq!(fs::read_to_string(victim.join("file")).expect("file"), "mine");
    assert_eq!(fs::read_dir(&victim).expect("victim").count(), 1);
    assert!(!Path::new("/escaped").exists() && !Path::new("/absolute").exists());
    assert_eq!(fs::read(root.join("absolute")).expect("absolute"), b"inside");
    assert_eq!(fs::read(root.join("target")).expect("target"), b"evil");
    let inside = root.join(out.trim_start_matches('/'));
    for name in ["file", "file2", "file3"] {
        assert_eq!(fs::read(inside.join(name)).unwrap_or_else(|e| panic!("{name}: {e}")), b"evil");
    }
}

/// Files that are not archives of images, or whose content is too large.
fn bombs_around_images(bed: &Bed) {
    let import = |source: &str, options: &[&str], text: &str| {
        let all = [&["import", source, "--name", "test"], options].concat();
        let outcome = image::call(bed, &all).run().exits(1);
        assert!(outcome.stderr.contains(text), "lacks {text:?}: {outcome}");
        assert_eq!(visible(bed), Vec::<PathBuf>::new(), "left by {outcome}");
    };
    // /dev/zero never ends.
    import("/dev/zero", &[], "is not an archive");
    let file = |name: &str, bytes: &[u8]| {
        let path = bed.dir.join(name);
        fs::write(&path, bytes).expect("write");
        path.to_str().expect("path").to_owned()
    };
    let archive = Layer::new().file("zeros", 0o644, &vec![0; 70 << 20]).archive();
    let packed = file("packed", &zstd::encode_all(&archive[..], 3).expect("zstd"));
    import(&packed, &[], "--max-ratio");
    import(&packed, &["--max-ratio", "1000000", "--max-bytes", "1000000"], "--max-bytes");
    let pipe = format!(
        "cat {} | {} image import - --max-bytes 1000000",
        file("plain", &archive),
        image::program().display()
    );
    let outcome = bed
        .program("sh", &["-c", &pipe])
        .env("DAYFLY_STORE", image::store(bed).to_str().expect("path"))
        .run()
        .exits(1);
    assert!(outcome.stderr.contains("standard input has more than 1000000 bytes"), "{outcome}");
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
    // The name of this entry would be 64 GB of holes.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_path("././@LongLink").expect("name");
    header.set_size(64 << 30);
    header.set_cksum();
    let long = file("long", header.as_bytes());
    fs::File::options()
        .write(true)
        .open(&long)
        .and_then(|file| file.set_len(65 << 30))
        .expect("length");
    import(&long, &[], "is not an archive");
    let empty = bed.dir.join("empty");
    fs::create_dir(&empty).expect("mkdir");
    import(empty.to_str().expect("path"), &[], "an OCI layout has an index.json");
}

fn bombs(bed: &Bed) {
    let zeros =
        image::layout(bed, "zeros", vec![Layer::new().file("zeros", 0o644, &vec![0; 3 << 20])]);
    refused(bed, &zeros, &["--max-bytes", "2000000"], "--max-bytes");
    let many = (0..500).fold(Layer::new(), |layer, at| layer.file(&format!("f{at}"), 0o644, b""));
    let many = image::layout(bed, "many", vec![many]);
    refused(bed, &many, &["--max-entries", "499"], "--max-entries");
    let ratio = Layout::new(bed.dir.join("ratio"));
    let zeros = Layer::new().file("zeros", 0o644, &vec![0; 70 << 20]);
    let manifest = ratio.image(&[(zeros, Packing::Zstd)], &Value::Null);
    ratio.index(&[manifest]);
    refused(bed, &ratio, &[], "--max-ratio");
    let huge = [("GNU.sparse.map", &b"0,0"[..]), ("GNU.sparse.size", b"9000000000000000000")];
    let huge = Layer::new().pax(&huge).file("huge", 0o644, b"");
    refused(bed, &image::layout(bed, "huge", vec![huge]), &[], "--max-bytes");
    // Each link leads deeper than the previous link, beyond the maximum length of a path and the size of a stack.
    let down = vec!["d"; 1000].join("/");
    let deep = (0..30).fold(Layer::new(), |layer, at| {
        let above = if at == 0 { String::new() } else { format!("l{}/", at - 1) };
        let deeper = format!("{above}{down}");
        layer
            .symlink(&format!("l{at}"), &deeper)
            .pax(&[("path", format!("{deeper}/file").as_bytes())])
            .file("short", 0o644, b"")
    });
    refused(bed, &image::layout(bed, "deep", vec![deep]), &[], "file name too long");
    let header = Layer::new().entry(EntryType::XHeader, "pax", "", 0o644, &vec![b'1'; 3 << 20]);
    refused(bed, &image::layout(bed, "header", vec![header]), &[], "longer than 2 MiB");
}

fn damaged_blobs(bed: &Bed) {
    let change = |name: &str, how: &dyn Fn(&Layout, &mut Value, &mut Value), text: &str| {
        let layout = Layout::new(bed.dir.join(name));
        let layer = (Layer::new().file("file", 0o644, &[1; 5000]), Packing::Gzip);
        let image = layout.image(&[layer], &Value::Null);
        let read = |descriptor: &Value| -> Value {
            let path = layout.path(descriptor["digest"].as_str().expect("digest"));
            serde_json::from_slice(&fs::read(path).expect("blob")).expect("json")
        };
        let mut manifest = read(&image);
        let mut config = read(&manifest["config"]);
        how(&layout, &mut manifest, &mut config);
        let kind = manifest["config"]["mediaType"].as_str().expect("type").to_owned();
        manifest["config"] = layout.blob(&kind, config.to_string().as_bytes());
        let image = layout
            .blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
        layout.index(&[image]);
        refused(bed, &layout, &[], text);
    };
    let blob = |layout: &Layout, manifest: &Value| {
        layout.path(manifest["layers"][0]["digest"].as_str().expect("digest"))
    };
    change(
        "bit",
        &|layout, manifest, _| {
            let path = blob(layout, manifest);
            let mut bytes = fs::read(&path).expect("blob");
            // Flips a bit in the gzip header, where no other check would detect it.
            bytes[4] ^= 1;
            fs::write(path, bytes).expect("write");
        },
        "damaged",
    );
    change(
        "short",
        &|layout, manifest, _| {
            let path = blob(layout, manifest);
            let bytes = fs::read(&path).expect("blob");
            fs::write(path, &bytes[..bytes.len() - 5]).expect("write");
        },
        "read blob",
    );
    change(
        "long",
        &|layout, manifest, _| {
            let path = blob(layout, manifest);
            let bytes = fs::read(&path).expect("blob");
            fs::write(path, [&bytes[..], b"more"].concat()).expect("write");
        },
        "bytes and has at least",
    );
    change(
        "absent",
        &|layout, manifest, _| {
            fs::remove_file(blob(layout, manifest)).expect("remove");
        },
        "no such file",
    );
    change("size", &|_, manifest, _| manifest["layers"][0]["size"] = json!(7), "must have 7 bytes");
    change(
        "diff-id",
        &|_, _, config| {
            config["rootfs"]["diff_ids"][0] = json!(image::digest(b"another"));
        },
        "the layer's archive is damaged",
    );
    change(
        "layers",
        &|_, _, config| config["rootfs"]["diff_ids"] = json!([]),
        "its configuration 0",
    );
    change(
        "traversal",
        &|_, manifest, _| {
            manifest["layers"][0]["digest"] = json!("sha256:../../../../etc/passwd");
        },
        "invalid digest",
    );
    change(
        "encrypted",
        &|_, manifest, _| {
            manifest["layers"][0]["mediaType"] =
                json!("application/vnd.oci.image.layer.v1.tar+gzip+encrypted");
        },
        "encrypted",
    );
}
