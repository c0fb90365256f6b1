//! Images made of root filesystems: archives, as `docker export` writes them, and directories.

use super::{V2, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(one_archive_is_one_image).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(a_directory).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(what_is_none).on(V2).when(uses_every_fast_path).needs(image::needed),
];

fn write(bed: &Bed, name: &str, bytes: &[u8]) -> String {
    let path = bed.dir.join(name);
    fs::write(&path, bytes).expect("write");
    path.to_str().expect("path").to_owned()
}

/// Imports a root filesystem; returns the image's details and the directory of its layer.
#[track_caller]
fn imported(bed: &Bed, source: &str, name: &str) -> (Value, PathBuf) {
    image::call(bed, &["import", "--rootfs", source, "--name", name]).run().ok();
    let text = image::call(bed, &["inspect", name]).run().ok().stdout;
    let link = image::store(bed).join(format!("refs/{name}:latest"));
    let directory = fs::canonicalize(link).expect("the image");
    (serde_json::from_str(&text).expect("JSON"), image::layers(&directory).remove(0))
}

fn one_archive_is_one_image(bed: &Bed) {
    let root =
        Layer::new().dir("./", 0o750).dir("./bin/", 0o755).file("./bin/sh", 0o4755, b"shell");
    let archive = [root.archive(), vec![0; 1024]].concat();
    let plain = write(bed, "root.tar", &archive);
    let (info, layer) = imported(bed, &plain, "plain");
    assert_eq!(info["image"]["config"]["Cmd"][0], "/bin/sh");
    let shell = fs::metadata(layer.join("bin/sh")).expect("a file");
    assert_eq!((shell.mode() & 0o7777, shell.mtime()), (0o4755, 1_000_000_000));
    assert_eq!(fs::metadata(&layer).expect("a directory").mode() & 0o7777, 0o750);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&archive).expect("pack");
    let packed = write(bed, "root.tar.gz", &packer.finish().expect("pack"));
    let (again, same) = imported(bed, &packed, "packed");
    assert_eq!((&again["digest"], same), (&info["digest"], layer));
    // As Docker has it, and from a pipe.
    let store = image::store(bed);
    let call = format!(
        "cat {packed} | {} image import --rootfs - piped --store {}",
        image::program().display(),
        store.display()
    );
    bed.program("sh", &["-c", &call]).run().ok();
    assert_eq!(
        fs::read_link(store.join("refs/piped:latest")).expect("a link"),
        fs::read_link(store.join("refs/plain:latest")).expect("a link")
    );
}

fn a_directory(bed: &Bed) {
    let root = bed.dir.join("root");
    fs::create_dir_all(root.join("etc")).expect("mkdir");
    let file = root.join("etc/file");
    fs::write(&file, "contents").expect("write");
    fs::hard_link(&file, root.join("etc/hard")).expect("link");
    symlink("file", root.join("etc/soft")).expect("symlink");
    lchown(&file, Some(7), Some(8)).expect("chown");
    let has_attributes = setxattr(&file, "user.a", b"b", XattrFlags::empty()).is_ok();
    let (_, layer) = imported(bed, root.to_str().expect("path"), "root");
    let found = fs::metadata(layer.join("etc/file")).expect("a file");
    let hard = fs::metadata(layer.join("etc/hard")).expect("a file");
    assert_eq!((found.uid(), found.gid(), found.ino()), (7, 8, hard.ino()));
    assert_eq!(fs::read_link(layer.join("etc/soft")).expect("a link"), Path::new("file"));
    if has_attributes {
        let mut value = [0; 8];
        let length = lgetxattr(layer.join("etc/file"), "user.a", &mut value).expect("an attribute");
        assert_eq!(&value[..length], b"b");
    }
}

fn what_is_none(bed: &Bed) {
    let archive = Layer::new().file("file", 0o644, b"").archive();
    let plain = write(bed, "root.tar", &archive);
    let junk = write(bed, "junk", b"text");
    let packed = write(bed, "root.tar.xz", b"\xfd7zXZ\0");
    let hint = "--rootfs imports a root filesystem";
    let directory = bed.dir.to_str().expect("path");
    for (words, text) in [
        (&[&*plain, "--name", "x"][..], hint),
        (&[directory, "--name", "x"], hint),
        (&["--rootfs", &plain], "the source contains no name of the image: use --name"),
        (&["--rootfs", &junk, "--name", "x"], "junk is not an archive, or a damaged one"),
        (&["--rootfs", &packed, "--name", "x"], "is compressed with xz: decompress it first"),
        (&["--rootfs", "nosuch", "--name", "x"], "open nosuch: no such file or directory"),
    ] {
        let outcome = image::call(bed, &[&["import"], words].concat()).run().exits(1);
        assert!(outcome.stderr.contains(text), "lacks {text:?}: {outcome}");
    }
    let left = visible(bed);
    assert!(left.is_empty(), "{left:?}");
}
