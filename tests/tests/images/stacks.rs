//! The effects of layers on each other.

use super::V2;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(whiteouts_as_overlayfs_sees_them).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(what_layers_below_decide).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(a_layer_that_is_there_twice).on(V2).when(uses_every_fast_path).needs(image::needed),
];

/// Runs `script` in an overlayfs of `layers` (the lowest first).
#[track_caller]
fn merged(bed: &Bed, layers: &[PathBuf], script: &str) -> String {
    let mount = bed.dir.join("merged");
    fs::create_dir_all(&mount).expect("make mount point");
    let lower: Vec<String> = layers.iter().rev().map(|layer| layer.display().to_string()).collect();
    // overlayfs requires at least two layers, or an upper layer.
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
        // A name is removed and created again in the same layer.
        .file(".wh.again", 0o644, b"")
        .dir("again/", 0o755)
        .file("again/new", 0o644, b"new")
        // A whiteout is in the same layer as the file that replaces the removed one.
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
    // Unlike the others, this layer is stored under an id that depends on the layers below it.
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
