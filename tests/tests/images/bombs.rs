//! Images of a few kilobytes whose import would take gigabytes of memory, or hours. Each is rejected by a limit that
//! the error names, in bounded memory and time.

use super::{V2, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer, Layout, Packing};
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::time::Duration;
use tar::EntryType;

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(directories_without_entries).on(V2).when(uses_every_fast_path).needs(python),
    case!(headers_for_every_entry).on(V2).when(uses_every_fast_path).needs(python),
    case!(attributes_that_no_file_can_have).on(V2).when(uses_every_fast_path).needs(python),
    case!(maps_of_holes).on(V2).when(uses_every_fast_path).needs(python),
    case!(windows).on(V2).when(uses_every_fast_path).needs(python),
    case!(layers_that_are_too_much_together).on(V2).when(uses_every_fast_path).needs(python),
    case!(links_through_links).on(V2).when(uses_every_fast_path).needs(python),
    case!(directories_replaced).on(V2).when(uses_every_fast_path).needs(python),
    case!(copies_of_holes).on(V2).when(uses_every_fast_path).needs(python),
    case!(documents).on(V2).when(uses_every_fast_path).needs(python),
];

/// The maximum memory, in KiB, of an import that unpacks only a few kilobytes.
const MEMORY: u64 = 256 << 10;
/// The maximum CPU time of such an import, in seconds.
const TIME: f64 = 60.0;
/// The time after which an import is killed. It is longer than the CPU time, because other cases also use the CPUs.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs a program and prints its peak memory in KiB, and its CPU time in seconds.
const MEASURE: &str = "
import resource, subprocess, sys
code = subprocess.call(['setpriv', '--pdeathsig', 'KILL'] + sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print('measured', used.ru_maxrss, used.ru_utime + used.ru_stime)
sys.exit(code)
";

fn python() -> Result<(), String> {
    image::needed().and_then(|()| program::installed("python3"))
}

/// A tmpfs mounted for the bed's store, so that times do not depend on a disk.
struct Memory<'a>(&'a Bed);

impl<'a> Memory<'a> {
    fn mount(bed: &'a Bed) -> Self {
        let store = image::store(bed);
        std::fs::create_dir_all(&store).expect("make store");
        let options = ["-t", "tmpfs", "-o", "size=512m,nr_inodes=1m", "store"];
        let store = [&options[..], &[store.to_str().expect("path")]].concat();
        bed.program("mount", &store).run().ok();
        Self(bed)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let store = image::store(self.0);
        drop(self.0.program("umount", &["-l", store.to_str().expect("path")]).run());
    }
}

/// Asserts that an import stays within the bounds. `refused` is the error of an import that must fail and leave
/// nothing.
#[track_caller]
fn bounded(bed: &Bed, layout: &Layout, refused: Option<&str>) {
    let program = image::program();
    let (source, store) = (layout.dir.to_str().expect("path"), image::store(bed));
    let program = program.to_str().expect("path");
    let import = ["image", "import", source, "--name", "test"];
    let outcome = bed
        .program("python3", &[&["-c", MEASURE, program][..], &import].concat())
        .env("DAYFLY_STORE", store.to_str().expect("path"))
        .within(PATIENCE)
        .run();
    let outcome = match refused {
        Some(text) => {
            let outcome = outcome.exits(1);
            assert!(outcome.stderr.contains(text), "lacks {text:?}: {outcome}");
            assert_eq!(visible(bed), Vec::<std::path::PathBuf>::new(), "left by {outcome}");
            outcome
        }
        None => outcome.ok(),
    };
    let mut words = outcome.stdout.lines().last().expect("a line").split(' ').skip(1);
    let memory: u64 = words.next().and_then(|word| word.parse().ok()).expect("memory");
    let time: f64 = words.next().and_then(|word| word.parse().ok()).expect("time");
    assert!(memory < MEMORY, "{memory} KiB: {outcome}");
    assert!(time < TIME, "{time} s: {outcome}");
}

#[track_caller]
fn refused(bed: &Bed, layers: Vec<Layer>, text: &str) {
    bounded(bed, &image::layout(bed, "layout", layers), Some(text));
}

/// An archive of 3.5 KB makes 200 000 directories.
fn directories_without_entries(bed: &Bed) {
    let _memory = Memory::mount(bed);
    let down = "a/".repeat(2030);
    let deep = (0..100).fold(Layer::new(), |layer, at| {
        let path = format!("d{at:05}/{down}f");
        layer.pax(&[("path", path.as_bytes())]).file("f", 0o644, b"")
    });
    refused(bed, vec![deep], "--max-memory");
    let wide = (0..3000).fold(Layer::new(), |layer, at| {
        layer.file(&format!("{at}/a/b/c/d/e/f/g/h/i/j"), 0o644, b"")
    });
    let wide = image::layout(bed, "wide", vec![wide]);
    let source = wide.dir.to_str().expect("path");
    let call = |most: &str| {
        let options = ["import", source, "--name", "test", "--max-entries", most];
        image::call(bed, &options).run()
    };
    // There are 3000 files, each below 10 directories that have no entries of their own.
    let outcome = call("32999").exits(1);
    assert!(outcome.stderr.contains("--max-entries"), "{outcome}");
    call("33000").ok();
}

/// A global header applies to every entry that follows it.
fn headers_for_every_entry(bed: &Bed) {
    let _memory = Memory::mount(bed);
    let global = |records: &[(&str, &[u8])]| {
        let mut archive = Layer::new().pax(records).archive();
        archive[156] = b'g';
        archive.truncate(archive.len() - 1024);
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(&archive[..512]);
        header.set_cksum();
        archive[..512].copy_from_slice(header.as_bytes());
        Layer::new().raw(&archive)
    };
    let named = |count: usize| -> Vec<String> {
        (0..count).map(|at| format!("SCHILY.xattr.note.{at:05}")).collect()
    };
    let files = |layer: Layer, count: usize| {
        (0..count).fold(layer, |layer, at| layer.file(&format!("f{at}"), 0o644, b""))
    };
    let names = named(60_000);
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    refused(bed, vec![files(global(&many), 800)], "names are");
    // The header has as many names as one file may have, and applies to more files than the ratio allows.
    refused(bed, vec![files(global(&many[..5000]), 2000)], "--max-ratio");
    // Every entry has a long link target.
    let path = "n/".repeat(2000);
    refused(bed, vec![files(global(&[("linkpath", path.as_bytes())]), 20_000)], "--max-ratio");
    // Values for the same name replace each other, so only the last one is kept.
    let same = [("SCHILY.xattr.user.a", &[b'x'; 60_000][..]); 30];
    let global = (0..6).fold(Layer::new(), |layer, _| layer.raw(&trimmed(&global(&same))));
    bounded(bed, &image::layout(bed, "same", vec![global.symlink("l", "f")]), None);
}

fn trimmed(layer: &Layer) -> Vec<u8> {
    let mut archive = layer.archive();
    archive.truncate(archive.len() - 1024);
    archive
}

fn attributes_that_no_file_can_have(bed: &Bed) {
    let long = vec![b'x'; (64 << 10) + 1];
    let directories = (0..100).fold(Layer::new(), |layer, at| {
        layer.pax(&[("SCHILY.xattr.user.long", &long)]).dir(&format!("d{at}/"), 0o755)
    });
    refused(bed, vec![directories], "value is 65537 bytes long; a file can have 65536");
    let name = format!("SCHILY.xattr.user.{}", "n".repeat(255));
    let layer = Layer::new().pax(&[(&name, b"")]).dir("d/", 0o755);
    refused(bed, vec![layer], "name is 260 bytes long; a file can have 255");
}

fn maps_of_holes(bed: &Bed) {
    let map = "0,0,".repeat(200_000);
    let map = &map.as_bytes()[..map.len() - 1];
    let pax = Layer::new().pax(&[("GNU.sparse.map", map), ("GNU.sparse.size", b"0")]);
    refused(bed, vec![pax.file("f", 0o644, b"")], "more than 131072 parts");
    let mut old = Layer::new();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("old").expect("name");
    header.set_size(0);
    header.as_gnu_mut().expect("gnu").isextended[0] = 1;
    old.header(&mut header, b"");
    let mut block = [b'0'; 512];
    // This byte announces that another block follows.
    block[504] = 1;
    let old = old.raw(&block.repeat(100_000));
    refused(bed, vec![old], "more than 131072 parts");
}

/// Compresses `text` by zstd with a window of `1 << window` bytes.
fn with_window(window: u32, text: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
    encoder.window_log(window).expect("window");
    encoder.write_all(text).expect("compress");
    encoder.finish().expect("zstd")
}

/// Decoding a zstd frame allocates its window: an import must not allocate several large windows at the same time.
fn windows(bed: &Bed) {
    let too_long = "wants a window of zstd of 256 MiB, and 128 MiB is the most that is read";
    for (window, count, refused) in [(27, 1, None), (27, 6, None), (28, 1, Some(too_long))] {
        let layout = Layout::new(bed.dir.join(format!("layout-{window}-{count}")));
        let (mut layers, mut diff_ids) = (Vec::new(), Vec::new());
        for at in 0..count {
            let zeros = vec![0; 8 << 20];
            let archive = Layer::new().file(&format!("zeros{at}-{count}"), 0o644, &zeros).archive();
            let packed = with_window(window, &archive);
            layers.push(layout.blob("application/vnd.oci.image.layer.v1.tar+zstd", &packed));
            diff_ids.push(image::digest(&archive));
        }
        let config = json!({
            "os": "linux", "architecture": "amd64", "config": {},
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let config =
            layout.blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
        let manifest =
            json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string();
        layout.index(&[
            layout.blob("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes())
        ]);
        bounded(bed, &layout, refused);
        if refused.is_none() {
            image::call(bed, &["rm", "test"]).run().ok();
        }
    }
    // An archive that is compressed as a whole. Its second frame has the large window.
    let archive = bed.dir.join("long.tar");
    let frames = [with_window(20, b"short"), with_window(28, &[0; 1 << 20])].concat();
    std::fs::write(&archive, frames).expect("write");
    let archive = archive.to_str().expect("path");
    let outcome = image::call(bed, &["import", archive, "--name", "test"]).run().exits(1);
    assert!(outcome.stderr.contains(&format!("{archive} {too_long}")), "{outcome}");
}

fn layers_that_are_too_much_together(bed: &Bed) {
    let _memory = Memory::mount(bed);
    let layout = Layout::new(bed.dir.join("layout"));
    let layers: Vec<_> = (0..9)
        .map(|at| {
            let layer = Layer::new().file(&format!("zeros{at}"), 0o644, &vec![0; 8 << 20]);
            (layer, Packing::Zstd)
        })
        .collect();
    layout.index(&[layout.image(&layers, &Value::Null)]);
    bounded(bed, &layout, Some("the image unpacks to more than 200 times its size"));
}

/// Resolving a name of ten bytes follows links up and down the tree for minutes.
fn links_through_links(bed: &Bed) {
    let _memory = Memory::mount(bed);
    let down = "d/".repeat(700);
    let up = "../".repeat(700);
    let directories = Layer::new().pax(&[("path", down.as_bytes())]).dir("d", 0o755);
    let links = (0..38).fold(directories, |layer, at| {
        let from = if at == 0 { String::new() } else { format!("l{}/", at - 1) };
        layer.symlink(&format!("l{at}"), &format!("{from}{down}{up}."))
    });
    let layer = (0..1000).fold(links, |layer, at| {
        layer.file(&format!("l37/f{at}"), 0o644, b"").file(&format!("l36/g{at}"), 0o644, b"")
    });
    refused(bed, vec![layer], "too many links");
}

/// Replacing a directory must not require a search through all directories.
fn directories_replaced(bed: &Bed) {
    let _memory = Memory::mount(bed);
    let base = "p/".repeat(40);
    let layer =
        (0..10_000).fold(Layer::new(), |layer, at| layer.dir(&format!("{base}d{at}"), 0o755));
    let layer = (0..10_000).fold(layer, |layer, _| {
        layer.dir(&format!("{base}x"), 0o755).file(&format!("{base}x"), 0o644, b"")
    });
    bounded(bed, &image::layout(bed, "layout", vec![layer]), None);
}

/// A hard link to a file of a lower layer becomes a copy, which keeps its holes.
fn copies_of_holes(bed: &Bed) {
    let records = [("GNU.sparse.map", &b"0,1"[..]), ("GNU.sparse.size", b"20000000000")];
    let bottom = Layer::new().pax(&records).file("huge", 0o644, b"x");
    let link = Layer::new().link("other", "huge");
    let layout = image::layout(bed, "layout", vec![bottom, link]);
    bounded(bed, &layout, None);
    let image = image::store(bed).join("refs/test:latest");
    let copy = image::layers(&image)[1].join("other");
    let meta = std::fs::metadata(copy).expect("copy");
    let blocks = std::os::unix::fs::MetadataExt::blocks(&meta);
    assert!(meta.len() == 20_000_000_000 && blocks < 64, "{blocks} blocks");
    // The bytes of the copy count like those of any other file.
    let source = layout.dir.to_str().expect("path");
    image::call(bed, &["rm", "test"]).run().ok();
    let few = ["import", source, "--name", "test", "--max-bytes", "30000000000"];
    let outcome = image::call(bed, &few).run().exits(1);
    assert!(outcome.stderr.contains("--max-bytes"), "{outcome}");
}

/// A short document can take much memory once it is parsed.
fn documents(bed: &Bed) {
    let shell = || (Layer::new().file("f", 0o644, b""), Packing::Gzip);
    let process = |name: &str, process: &Value| {
        let layout = Layout::new(bed.dir.join(name));
        layout.index(&[layout.image(&[shell()], process)]);
        bounded(bed, &layout, Some("20000 are read"));
    };
    process("variables", &json!({ "Env": vec![""; 1_000_000] }));
    let labels: Map<String, Value> =
        (0..300_000).map(|at| (format!("{at:x}"), json!(""))).collect();
    process("labels", &json!({ "Labels": labels }));
    let layout = Layout::new(bed.dir.join("layers"));
    let layers: Vec<_> = (0..1001).map(|_| shell()).collect();
    layout.index(&[layout.image(&layers, &Value::Null)]);
    bounded(bed, &layout, Some("1000 are read"));
}
