//! Archives of layers. Unpacking any archive must stay within the limits of memory and inodes, and change nothing
//! outside the layer. An input is a list of operations that write an archive, so that most inputs reach the unpacking
//! code. An operation consists of its kind, the number of repetitions, and its arguments.

use std::fs;
use std::io::Read;
use std::path::Path;

use image::digest::Digest;
use image::oci::Descriptor;
use image::store::{Rights, Store};
use image::unpack::{Keep, Limits, Shared, Task, WINDOW, Way, unpack};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use crate::{allocation, scratch};

/// The limits for unpacking.
const LIMITS: Limits = Limits { bytes: 8 << 20, entries: 300, ratio: 200, memory: 256 << 10 };
/// The memory that is used whatever the archive's length: buffers for a frame, a blob and a file, the longest header
/// with its parsed content, and the state of a walk along the deepest path.
const FIXED: u64 = 20 << 20;
/// The maximum length of an archive.
const LONGEST: usize = 256 << 10;

/// Runs the target on one input; see the module's text.
pub fn target(data: &[u8]) {
    let archive = archive(data);
    let root = scratch::directory().join("store");
    let store = Store::open(&root).expect("store");
    let before = inodes(&root);
    let (layers, work) = (root.join("layers"), store.work().expect("work"));
    let digest: Digest = format!("sha256:{:x}", Sha256::digest(&archive)).parse().expect("digest");
    let blob = Descriptor {
        media_type: String::new(),
        digest,
        size: archive.len() as u64,
        platform: None,
        annotations: None,
    };
    let keep = Keep::new(Rights::Root, false);
    let way = if data.len() % 2 == 0 { Way::Files } else { Way::Frame };
    let (result, peak) = allocation::peak(|| {
        let shared = Shared::new(LIMITS);
        let source: Box<dyn Read> = Box::new(&archive[..]);
        let below = Some(Default::default());
        unpack(
            Task { source, blob: &blob, diff_id: digest, below, way, window: WINDOW },
            &work,
            &keep,
            &shared,
        )
        .map_err(|error| error.to_string())
    });
    assert!(peak < FIXED + LIMITS.memory, "{peak} bytes of memory: {result:?}");
    let layer = work.path().join("layer");
    // The layer's root directory is counted as well.
    let made = inodes(&layer);
    assert!(made <= LIMITS.entries + 1, "{made} inodes: {result:?}");
    if let Ok(info) = &result {
        assert!(info.implied.len() as u64 + info.entries <= LIMITS.entries + 1, "{info:?}");
    }
    drop(work);
    assert_eq!(fs::read_dir(&layers).expect("layers").count(), 0);
    assert_eq!(inodes(&root), before, "something is left");
}

/// Returns the number of files and directories in a directory, including itself.
fn inodes(path: &Path) -> u64 {
    let mut count = 1;
    let mut todo = vec![path.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            count += 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(entry.path());
            }
        }
    }
    count
}

/// Returns the archive that the operations write. Each operation has four bytes: its kind, its repetitions, and two
/// numbers.
fn archive(data: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (at, operation) in data.chunks_exact(4).enumerate() {
        let &[what, often, one, other] = operation else { continue };
        for time in 0..=usize::from(often % 32) {
            if archive.len() < LONGEST {
                add(&mut archive, what, at * 32 + time, usize::from(one), usize::from(other));
            }
        }
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn add(archive: &mut Vec<u8>, what: u8, number: usize, one: usize, other: usize) {
    // There are only a few names, so that links, directories and files collide.
    let name = |at: usize| format!("n{}", at % 8);
    let deep = || format!("{}{}", "a/".repeat(one * 8), name(other));
    let long = || vec![b'v'; (one * other * 4).max(1)];
    match what % 18 {
        0 => entry(archive, EntryType::Directory, &name(one), "", b""),
        1 => entry(archive, EntryType::Regular, &name(one), "", &vec![b'x'; other]),
        2 => entry(archive, EntryType::Symlink, &name(one), &name(other), b""),
        3 => entry(archive, EntryType::Link, &name(one), &name(other), b""),
        4 => entry(archive, EntryType::Regular, &format!("{}/{}", name(one), name(other)), "", b""),
        5 => entry(archive, EntryType::Regular, &format!(".wh.{}", name(one)), "", b""),
        6 => entry(archive, EntryType::Regular, &format!("{}/.wh..wh..opq", name(one)), "", b""),
        7 => pax(archive, EntryType::XHeader, "path", deep().as_bytes()),
        8 => pax(archive, EntryType::XHeader, "path", format!("f{number}/{}", deep()).as_bytes()),
        9 => pax(archive, EntryType::XHeader, "linkpath", deep().as_bytes()),
        10 => pax(archive, EntryType::XHeader, &format!("SCHILY.xattr.user.{number}"), &long()),
        11 => {
            pax(archive, EntryType::XGlobalHeader, &format!("SCHILY.xattr.user.{number}"), &long())
        }
        12 => pax(archive, EntryType::XGlobalHeader, "linkpath", deep().as_bytes()),
        13 => entry(archive, EntryType::GNULongName, "long", "", deep().as_bytes()),
        14 => {
            let map = "0,0,".repeat(one * other * 4 + 1);
            let kind = if number % 2 == 0 { EntryType::XHeader } else { EntryType::XGlobalHeader };
            pax(archive, kind, "GNU.sparse.map", &map.as_bytes()[..map.len() - 1]);
            pax(archive, EntryType::XHeader, "GNU.sparse.size", b"1000");
        }
        15 => {
            // One header with many extended attributes.
            let all: Vec<u8> = (0..one * other)
                .flat_map(|at| record(&format!("SCHILY.xattr.user.{at:05}"), b""))
                .collect();
            entry(archive, EntryType::XHeader, "pax", "", &all);
        }
        16 => entry(
            archive,
            EntryType::Symlink,
            &name(one),
            &format!("{}{}", "../".repeat(other % 8), deep()),
            b"",
        ),
        _ => entry(archive, EntryType::Fifo, &name(one), "", b""),
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

fn pax(archive: &mut Vec<u8>, kind: EntryType, key: &str, value: &[u8]) {
    entry(archive, kind, "pax", "", &record(key, value));
}

fn entry(archive: &mut Vec<u8>, kind: EntryType, name: &str, link: &str, data: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1);
    header.set_size(data.len() as u64);
    let old = header.as_old_mut();
    for (field, text) in [(&mut old.name, name), (&mut old.linkname, link)] {
        let length = text.len().min(field.len());
        field[..length].copy_from_slice(&text.as_bytes()[..length]);
    }
    header.set_cksum();
    archive.extend(header.as_bytes());
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(512), 0);
}
