//! Images exported from the store, and images of engines.

use super::{V2, outside, unpacked, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer};
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(exports_are_the_same_image).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(a_changed_layer_is_not_exported).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(archives_of_engines).on(V2).when(uses_every_fast_path).needs(skopeo),
    case!(a_damaged_layer_that_is_there).on(V2).when(uses_every_fast_path).needs(image::needed),
];

fn skopeo() -> Result<(), String> {
    image::needed().and_then(|()| program::installed("skopeo"))
}

fn exports_are_the_same_image(bed: &Bed) {
    let bottom = Layer::new()
        .dir("./", 0o755)
        .file("file", 0o4755, &[3; 100_000])
        .link("hard", "file")
        // The second entry replaces the first: the archive contains both.
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
        // Imports into an empty store, so that every layer is unpacked and checked.
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
        // The archive is compressed as a whole and read from standard input; a zstd stream may begin with a skippable
        // frame.
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

/// Writes an archive like "docker save", whose only layer has these bytes.
fn docker_archive(path: &Path, config: &[u8], layer: &[u8]) {
    let items = json!([{ "Config": "config", "RepoTags": ["box:1"], "Layers": ["layer"] }]);
    let mut archive = tar::Builder::new(fs::File::create(path).expect("file"));
    for (name, data) in
        [("config", config), ("layer", layer), ("manifest.json", items.to_string().as_bytes())]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, data).expect("append");
    }
    archive.finish().expect("archive");
}

/// A layer whose diff-id is already in the store is not unpacked again. Its content is checked all the same, because
/// nothing but the diff-id identifies it.
fn a_damaged_layer_that_is_there(bed: &Bed) {
    let sound = Layer::new().file("file", 0o644, b"contents").archive();
    let mut damaged = sound.clone();
    damaged[512] ^= 1;
    let config = json!({
        "os": "linux", "architecture": "amd64", "config": { "Cmd": ["/x"] },
        "rootfs": { "type": "layers", "diff_ids": [image::digest(&sound)] },
    });
    let file = bed.dir.join("saved.tar");
    let import = |layer: &[u8]| {
        docker_archive(&file, config.to_string().as_bytes(), layer);
        image::call(bed, &["import", file.to_str().expect("path")]).run()
    };
    let gzip = |data: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).expect("gzip");
        encoder.finish().expect("gzip")
    };
    let refused = |layer: &[u8]| {
        let outcome = import(layer).exits(1);
        assert!(outcome.stderr.contains("the layer's archive is damaged"), "{outcome}");
    };
    refused(&damaged);
    assert_eq!(visible(bed), Vec::<PathBuf>::new());
    assert!(import(&sound).ok().stdout.contains("box:1 "));
    let before = visible(bed);
    refused(&damaged);
    refused(&gzip(&damaged));
    assert_eq!(visible(bed), before);
    assert!(import(&gzip(&sound)).ok().stdout.contains("0 unpacked"));
}
