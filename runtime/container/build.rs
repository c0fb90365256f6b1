//! Derives an id of the seccomp compiler from its sources, so that a filter compiled by another version (a release or a
//! development build) is never used.

use std::fs;
use std::path::{Path, PathBuf};

/// The files that determine which filter the seccomp compiler generates from a profile: the compiler's sources, its
/// build script, its manifest, and the lock file with the versions of its crates.
const SOURCES: [&str; 4] =
    ["../seccomp/src", "../seccomp/build.rs", "../seccomp/Cargo.toml", "../../Cargo.lock"];

fn main() {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files);
    }
    files.sort();
    let contents = files.iter().filter_map(|file| fs::read(file).ok());
    let version = contents.fold(0xcbf2_9ce4_8422_2325, |hash, content| fnv1a(hash, &content));
    println!("cargo::rustc-env=SECCOMP_COMPILER={version}");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) => files.push(path.to_path_buf()),
    }
}

/// Continues a 64-bit FNV-1a hash with `bytes`, from the intermediate value `hash`.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
